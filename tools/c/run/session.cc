#include "tools/c/run/session.h"

#include "kernels/cpu.h"
#include "runtime/cpu_device.h"
#include "tools/cli/default_input.h"
#include <atomic>
#include <chrono>
#include <cstring>
#include <unistd.h>

namespace isthmus {

Session::Session(Graph g, const SessionOptions &options)
    : graph_(std::move(g)), options_(options),
      device_(makeCpuDevice(cpuKernels(), {.threads = options.threads})) {}

// A copy that owns its bytes.
static Tensor copied(const Tensor &t) {
  return Tensor::make(t.type, [&](char *to) {
    if (t.bytes() > 0)
      std::memcpy(to, t.data, size_t(t.bytes()));
  });
}

llvm::Error Session::set(const Input &input, Tensor given) {
  auto t = givenInput(graph_, input, std::move(given));
  if (!t)
    return t.takeError();
  llvm::StringRef name = graph_.valueName(input.value);
  if (executor_)
    return executor_->feed(compiled_->graph.find(name), *t);
  given_[name.str()] = copied(*t);
  return llvm::Error::success();
}

llvm::Expected<std::vector<int64_t>> Session::workspaces() const {
  std::vector<int64_t> bytes;
  for (uint32_t i = 0; i < graph_.numNodes(); ++i) {
    const NodeId id(i);
    const bool isView = graph_.node(id).op->is(kView);
    auto workspace = isView ? 0 : device_->target().workspaceBytes(graph_.call(id));
    if (!workspace)
      return workspace.takeError();
    bytes.push_back(*workspace);
  }
  return bytes;
}

llvm::Error Session::prepare() {
  CompileOptions o;
  o.differentiates = false;
  o.exactOnly = !options_.lowers;
  auto compiled = compile(graph_, o, device_->target());
  if (!compiled)
    return compiled.takeError();
  compiled_ = std::move(*compiled);
  const Graph &g = compiled_->graph;
  std::vector<Tensor> shared; // what the graph holds is read where it lies
  for (const Input &input : g.inputs())
    shared.push_back(given_.count(g.valueName(input.value).str()) ? Tensor() : input.init.data);
  auto executor = Executor::create(g, compiled_->layout, *device_, shared);
  if (!executor)
    return executor.takeError();
  for (size_t i = 0; i < shared.size(); ++i) {
    const Input &input = g.inputs()[i];
    auto given = given_.find(g.valueName(input.value).str());
    if (shared[i])
      continue;
    auto t = given != given_.end() ? llvm::Expected<Tensor>(given->second)
                                   : defaultInput(g, input, options_.seed);
    if (!t)
      return t.takeError();
    if (llvm::Error e = (*executor)->feed(input.value, *t))
      return e;
  }
  given_.clear();
  executor_ = std::move(*executor);
  return llvm::Error::success();
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

llvm::Error Session::step(uint64_t number) {
  if (llvm::Error e = checkHasTeam(options_.threads))
    return e;
  if (!executor_)
    if (llvm::Error e = prepare())
      return e;
  const auto start = std::chrono::steady_clock::now();
  if (llvm::Error e = executor_->step({options_.seed, number}))
    return e;
  stepSeconds_ = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  hasRun_ = true;
  if (measuredPeakBytes() != figures().predictedPeakBytes)
    return internalError("the measured peak is {0} bytes, the predicted one {1}",
                         measuredPeakBytes(), figures().predictedPeakBytes);
  return llvm::Error::success();
}

llvm::Expected<Tensor> Session::get(size_t output) const {
  return executor_->fetch(compiled_->graph.outputs()[output]);
}

} // namespace isthmus
