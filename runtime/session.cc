#include "runtime/session.h"

#include "ir/check.h"
#include "ir/default_input.h"
#include "ir/element.h"
#include "ir/loss_value.h"
#include "runtime/thread_transport.h"
#include "runtime/workers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include <chrono>

namespace isthmus {

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one device runs.
struct Session::Part {
  SessionProgram program;
  std::vector<uint32_t> inputs, outputs;
  std::unique_ptr<Device> own; // null for the first device, which is the caller's
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Executor> executor;
  double seconds = 0; // of the last step, without waits

  const Graph &graph() const { return *program.graph; }
};

class Session::Workers : public WorkerThreads {
public:
  using WorkerThreads::WorkerThreads;
};

Session::Session(const Graph &graph, Device &device, uint64_t seed)
    : graph_(graph), device_(device), seed_(seed) {}

// Threads end before what they use.
Session::~Session() { workers_.reset(); }

llvm::Expected<std::unique_ptr<Session>> Session::open(const Graph &graph, const Layout &layout,
                                                       Device &device, uint64_t seed,
                                                       std::vector<Tensor> inputs) {
  std::vector<uint32_t> allInputs(graph.inputs().size()), allOutputs(graph.outputs().size());
  llvm::copy(llvm::seq<uint32_t>(0, uint32_t(allInputs.size())), allInputs.begin());
  llvm::copy(llvm::seq<uint32_t>(0, uint32_t(allOutputs.size())), allOutputs.begin());
  return open(graph, {{device.name(), &graph, &layout, allInputs, allOutputs}}, device, seed,
              std::move(inputs));
}

llvm::Expected<std::unique_ptr<Session>> Session::open(const Graph &graph,
                                                       std::vector<SessionProgram> programs,
                                                       Device &device, uint64_t seed,
                                                       std::vector<Tensor> inputs) {
  std::unique_ptr<Session> s(new Session(graph, device, seed));
  inputs.resize(device.computes() ? graph.inputs().size() : 0);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      inputs[i] = graph.inputs()[i].init.data; // read in place
  std::vector<std::string> names;
  for (const SessionProgram &p : programs)
    names.push_back(p.device);
  std::vector<std::unique_ptr<Transport>> ends(programs.size());
  if (programs.size() > 1) {
    ends = makeThreadTransport(names);
    s->workers_ = std::make_unique<Workers>(programs.size());
  }
  for (size_t i = 0; i < programs.size(); ++i) {
    auto part = std::make_unique<Part>();
    part->program = programs[i];
    part->inputs = programs[i].inputs.vec();
    part->outputs = programs[i].outputs.vec();
    part->transport = std::move(ends[i]);
    if (i > 0)
      if (llvm::Error e = device.another(programs[i].device).moveInto(part->own))
        return e;
    std::vector<Tensor> own;
    for (uint32_t k : part->inputs)
      own.push_back(k < inputs.size() ? inputs[k] : Tensor());
    if (llvm::Error e = Executor::create(part->graph(), *programs[i].layout,
                                         part->own ? *part->own : device, own,
                                         part->transport.get())
                            .moveInto(part->executor))
      return e;
    s->parts_.push_back(std::move(part));
  }
  if (llvm::Error e = s->feedDefaults(inputs))
    return e;
  return s;
}

// Default inputs are drawn after the memory for them was allocated.
llvm::Error Session::feedDefaults(llvm::ArrayRef<Tensor> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i])
      continue;
    const Input &input = graph_.inputs()[i];
    auto t = defaultInput(graph_, input, seed_);
    if (!t)
      return t.takeError();
    if (llvm::Error e = feed(input.value, *t))
      return e;
  }
  return llvm::Error::success();
}

llvm::Error Session::step(uint64_t number, const std::function<void(size_t)> &progress) {
  const auto start = Clock::now();
  if (llvm::Error e = stepAll(number, progress))
    return e;
  stepSeconds_ = secondsSince(start);
  for (const auto &part : parts_)
    if (part->executor->measuredPeakBytes() != part->program.layout->peakBytes)
      return internalError("the measured peak is {0} bytes, the predicted one {1}",
                           part->executor->measuredPeakBytes(), part->program.layout->peakBytes);
  return llvm::Error::success();
}

llvm::Error Session::stepAll(uint64_t number, const std::function<void(size_t)> &progress) {
  if (!workers_)
    return parts_[0]->executor->step({seed_, number}, progress);
  std::mutex mutex;
  llvm::Error failed = llvm::Error::success();
  bool isFirst = true;
  size_t done = 0;
  workers_->run([&](size_t i) {
    Part &part = *parts_[i];
    const auto start = Clock::now();
    (void)part.transport->takeWaited();
    llvm::Error e = part.executor->step({seed_, number}, [&](size_t) {
      if (!progress)
        return;
      std::lock_guard<std::mutex> lock(mutex);
      progress(++done);
    });
    part.seconds = secondsSince(start) - part.transport->takeWaited();
    if (!e)
      return;
    std::lock_guard<std::mutex> lock(mutex);
    if (isFirst) { // the others fail because this one does
      failed = llvm::joinErrors(std::move(failed), std::move(e));
      isFirst = false;
      part.transport->abort("the step failed on " + part.program.device);
    } else {
      llvm::consumeError(std::move(e));
    }
  });
  return failed;
}

std::vector<double> Session::busySeconds() const {
  std::vector<double> out;
  for (const auto &part : parts_)
    out.push_back(workers_ ? part->seconds : stepSeconds_);
  return out;
}

llvm::Expected<std::optional<double>> Session::loss() {
  const ValueId loss = lossOf(graph_);
  if (!loss || !device_.computes() || !isFloat(graph_.type(loss).dtype) ||
      !llvm::is_contained(graph_.outputs(), loss))
    return std::nullopt;
  auto value = fetch(loss);
  if (!value)
    return value.takeError();
  double sum = 0;
  for (int64_t i = 0, n = value->type.elements(); i < n; ++i)
    sum += elementAsDouble(*value, i);
  return sum;
}

llvm::Error Session::feed(ValueId v, const Tensor &t) {
  if (parts_.size() == 1)
    return parts_[0]->executor->feed(v, t);
  ISTHMUS_CHECK(!graph_.value(v).def, "fed a value that is no input");
  const uint32_t input = graph_.value(v).resultIndex;
  for (const auto &part : parts_)
    for (size_t k = 0; k < part->inputs.size(); ++k)
      if (part->inputs[k] == input)
        if (llvm::Error e = part->executor->feed(part->graph().inputs()[k].value, t))
          return e;
  return llvm::Error::success();
}

llvm::Expected<Tensor> Session::fetch(ValueId v) {
  if (parts_.size() == 1)
    return parts_[0]->executor->fetch(v);
  const bool isInput = !graph_.value(v).def;
  for (const auto &part : parts_) {
    const std::vector<uint32_t> &ends = isInput ? part->inputs : part->outputs;
    for (size_t k = 0; k < ends.size(); ++k)
      if (isInput ? ends[k] == graph_.value(v).resultIndex : graph_.outputs()[ends[k]] == v)
        return part->executor->fetch(isInput ? part->graph().inputs()[k].value
                                             : part->graph().outputs()[k]);
  }
  return internalError("'{0}' is no input and no output that a device has", graph_.valueName(v));
}

llvm::Error Session::carryState() {
  for (const auto &part : parts_)
    if (llvm::Error e = part->executor->carryState())
      return e;
  return llvm::Error::success();
}

KernelCounts Session::kernelCounts() const {
  KernelCounts all;
  for (const auto &part : parts_) {
    const KernelCounts own = part->executor->kernelCounts();
    for (const auto &[library, count] : own.byLibrary)
      all.byLibrary[library] += count;
    all.substitutes += own.substitutes;
  }
  return all;
}

std::vector<int64_t> Session::measuredPeakBytes() const {
  std::vector<int64_t> out;
  for (const auto &part : parts_)
    out.push_back(part->executor->measuredPeakBytes());
  return out;
}

int64_t Session::largestMeasuredPeak() const {
  const std::vector<int64_t> all = measuredPeakBytes();
  return *std::max_element(all.begin(), all.end());
}

Executor &Session::executor() {
  ISTHMUS_CHECK(parts_.size() == 1, "a step over several devices has several executors");
  return *parts_[0]->executor;
}

} // namespace isthmus
