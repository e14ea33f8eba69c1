// The target of this machine for isthmus_compile: its functions run on the device that sessions
// use.

#include "ir/element.h"
#include "ir/target_text.h"
#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "kernels/cpu.h"
#include "runtime/cpu_device.h"
#include "tools/c/handles.h"
#include "tools/c/run/options.h"
#include "tools/c/run/session.h"
#include "llvm/ADT/STLExtras.h"

using namespace isthmus;
using namespace isthmus::c;

namespace {

struct RunTarget {
  isthmus_target given; // the first member: its address is that of the whole
  int threads;
  std::unique_ptr<Device> device;
  std::string json;
};

// Runs the body of a target's function; the message of an error goes to the caller's array.
isthmus_status answered(char *message, size_t capacity, llvm::function_ref<llvm::Error()> body) {
  isthmus_error *error = nullptr;
  const isthmus_status status = guarded(&error, [&] {
    llvm::Error e = body();
    return e ? fail(std::move(e), &error) : ISTHMUS_OK;
  });
  if (error && capacity > 0) {
    const size_t length = std::min(error->message.size(), capacity - 1);
    std::memcpy(message, error->message.data(), length);
    message[length] = '\0';
  }
  delete error;
  return status;
}

isthmus_status workspaceOf(void *user, const char *call, size_t length, int64_t *bytes,
                           char *message, size_t capacity) {
  return answered(message, capacity, [&]() -> llvm::Error {
    auto parsed = parseCall(llvm::StringRef(call, length));
    if (!parsed)
      return parsed.takeError();
    OpCall asked{parsed->op, &parsed->attrs, {}, {}};
    asked.operands.assign(parsed->operands.begin(), parsed->operands.end());
    if (llvm::Error e =
            inferTypes(*asked.op, parsed->attrs, asked.operands).moveInto(asked.results))
      return e;
    return static_cast<RunTarget *>(user)->device->target().workspaceBytes(asked).moveInto(*bytes);
  });
}

llvm::Error runFirstStep(const RunTarget &target, const char *path, uint64_t seed,
                         llvm::ArrayRef<const char *> outputs, double *values) {
  auto g = loadIsth(path);
  if (!g)
    return g.takeError();
  GraphSession session(std::move(*g), {target.threads, false, seed});
  if (llvm::Error e = session.step(0))
    return e;
  const Graph &graph = session.graph();
  for (const char *name : outputs) {
    const auto *at = llvm::find(graph.outputs(), graph.find(name));
    if (at == graph.outputs().end())
      return makeError("'{0}' names no output of the graph", name);
    auto value = session.get(size_t(at - graph.outputs().begin()));
    if (!value)
      return value.takeError();
    *values++ = elementAsDouble(*value, 0);
  }
  return llvm::Error::success();
}

isthmus_status firstStep(void *user, const char *path, uint64_t seed, const char *const *outputs,
                         size_t num_outputs, double *values, char *message, size_t capacity) {
  return answered(message, capacity, [&] {
    return runFirstStep(*static_cast<RunTarget *>(user), path, seed, {outputs, num_outputs},
                        values);
  });
}

} // namespace

isthmus_run_status isthmus_run_target(const isthmus_run_options *options,
                                      struct isthmus_target **target, isthmus_run_error **error) {
  return static_cast<isthmus_run_status>(guarded(error, [&] {
    ISTHMUS_NOT_NULL(target);
    *target = nullptr;
    if (isthmus_status s = checkOptions(options, error))
      return s;
    auto made = std::make_unique<RunTarget>();
    made->threads = options->threads;
    made->device = makeCpuDevice(cpuKernels(), {.threads = options->threads});
    made->json = targetText(made->device->target());
    made->given = {sizeof made->given, made->json.c_str(), made.get(), workspaceOf, firstStep};
    *target = &made.release()->given;
    return ISTHMUS_OK;
  }));
}

void isthmus_run_target_free(struct isthmus_target *target) {
  delete reinterpret_cast<RunTarget *>(target);
}
