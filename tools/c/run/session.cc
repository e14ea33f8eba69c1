#include "tools/c/run/session.h"

#include "ir/default_input.h"
#include "kernels/cpu.h"
#include "runtime/cpu_device.h"
#include <atomic>
#include <cstring>
#include <unistd.h>

namespace isthmus {

GraphSession::GraphSession(Graph g, const GraphSessionOptions &options)
    : graph_(std::move(g)), options_(options),
      device_(makeCpuDevice(cpuKernels(), {.threads = options.threads})) {}

// A copy that owns its bytes: a session reads its inputs in place.
static Tensor copied(const Tensor &t) {
  return Tensor::make(t.type, [&](char *to) {
    if (t.bytes() > 0)
      std::memcpy(to, t.data, size_t(t.bytes()));
  });
}

llvm::Error GraphSession::set(const Input &input, Tensor given) {
  auto t = givenInput(graph_, input, std::move(given));
  if (!t)
    return t.takeError();
  llvm::StringRef name = graph_.valueName(input.value);
  if (session_)
    return session_->feed(compiled_->graph.find(name), copied(*t));
  given_[name.str()] = copied(*t);
  return llvm::Error::success();
}

llvm::Error GraphSession::prepare() {
  CompileOptions o;
  o.differentiates = false;
  o.exactOnly = !options_.lowers;
  o.keepsBudget = true;
  auto compiled = compile(graph_, o, device_->target());
  if (!compiled)
    return compiled.takeError();
  compiled_ = std::move(*compiled);
  // Inputs that neither the program nor the graph gives are drawn.
  std::vector<Tensor> inputs;
  for (const Input &input : compiled_->graph.inputs()) {
    const auto given = given_.find(compiled_->graph.valueName(input.value).str());
    inputs.push_back(given == given_.end() ? Tensor() : std::move(given->second));
  }
  given_.clear();
  return openSession(*compiled_, *device_, options_.seed, std::move(inputs))
      .moveInto(session_);
}

// A forked process lacks OpenMP's threads and would wait for them for ever.
static llvm::Error checkHasTeam(int threads) {
  static std::atomic<pid_t> owner = 0; // the process whose OpenMP threads exist
  if (threads == 1)
    return llvm::Error::success();
  pid_t none = 0;
  const pid_t self = getpid();
  if (owner.compare_exchange_strong(none, self) || none == self)
    return llvm::Error::success();
  return makeError(ErrorKind::Unsupported,
                   "this process was forked after a graph had run, and OpenMP's threads are not in "
                   "it: run graphs with 1 thread here, or start processes without fork");
}

llvm::Error GraphSession::step(uint64_t number) {
  if (llvm::Error e = checkHasTeam(options_.threads))
    return e;
  if (!session_)
    if (llvm::Error e = prepare())
      return e;
  if (llvm::Error e = session_->step(number))
    return e;
  hasRun_ = true;
  return llvm::Error::success();
}

llvm::Expected<Tensor> GraphSession::get(size_t output) const {
  return session_->fetch(compiled_->graph.outputs()[output]);
}

} // namespace isthmus
