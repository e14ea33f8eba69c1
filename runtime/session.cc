#include "runtime/session.h"

#include "ir/check.h"
#include "ir/default_input.h"
#include "ir/element.h"
#include "ir/loss_value.h"
#include "runtime/thread_transport.h"
#include "runtime/workers.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/ADT/StringExtras.h"
#include <chrono>
#include <cstring>

namespace isthmus {

using Clock = std::chrono::steady_clock;

static double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// What one device runs.
struct Session::Part {
  SessionProgram program;
  std::vector<uint32_t> inputs, outputs;
  std::unique_ptr<Device> own; // null where the caller's device runs the program
  std::unique_ptr<Transport> transport;
  std::unique_ptr<Executor> executor; // null if another process runs the program
  // Of the last step.
  struct {
    int64_t peakBytes = 0;
    double seconds = 0; // without waits
  } figures;
  KernelCounts kernels; // of the program in another process

  const Graph &graph() const { return *program.graph; }
};

class Session::Workers : public WorkerThreads {
public:
  using WorkerThreads::WorkerThreads;
};

Session::Session(const Graph &graph, Device &device, uint64_t seed, ProcessGroup *group)
    : graph_(graph), device_(device), seed_(seed), group_(group) {}

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

static llvm::Error checkOneEach(llvm::ArrayRef<std::string> devices, const ProcessGroup &group) {
  if (devices.size() == group.size())
    return llvm::Error::success();
  return addRemedy(
      makeError("the step runs on {0} device{1} ({2}), and mpirun started {3} processes; start it "
                "with mpirun -n {0}",
                devices.size(), devices.size() == 1 ? "" : "s", llvm::join(devices, ", "),
                group.size()),
      {"stages", std::to_string(group.size()), "divide it among the processes"});
}

llvm::Expected<std::unique_ptr<Session>>
Session::open(const Graph &graph, std::vector<SessionProgram> programs, Device &device,
              uint64_t seed, std::vector<Tensor> inputs, ProcessGroup *group) {
  std::unique_ptr<Session> s(new Session(graph, device, seed, group));
  inputs.resize(device.computes() ? graph.inputs().size() : 0);
  for (size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      inputs[i] = graph.inputs()[i].init.data; // read in place
  std::vector<std::string> names;
  for (const SessionProgram &p : programs)
    names.push_back(p.device);
  std::vector<std::unique_ptr<Transport>> ends(programs.size());
  if (group) {
    if (llvm::Error e = checkOneEach(names, *group))
      return e;
    ends[group->rank()] = group->transport(names);
  } else if (programs.size() > 1) {
    ends = makeThreadTransport(names);
    s->workers_ = std::make_unique<Workers>(programs.size());
  }
  for (size_t i = 0; i < programs.size(); ++i)
    if (llvm::Error e = s->addPart(programs[i], programs.size(), std::move(ends[i]), inputs))
      return e;
  if (llvm::Error e = s->feedDefaults(inputs))
    return e;
  return s;
}

// `inputs` are those of the whole graph.
llvm::Error Session::addPart(const SessionProgram &program, size_t numPrograms,
                             std::unique_ptr<Transport> transport, llvm::ArrayRef<Tensor> inputs) {
  const size_t number = parts_.size();
  auto part = std::make_unique<Part>();
  part->program = program;
  part->inputs = program.inputs.vec();
  part->outputs = program.outputs.vec();
  if (!group_ || group_->rank() == number) {
    const bool isOnOwn = numPrograms == 1 || group_ || program.device == device_.name();
    if (!isOnOwn)
      if (llvm::Error e = device_.another(program.device).moveInto(part->own))
        return e;
    Device &device = part->own ? *part->own : device_;
    if (transport)
      part->transport = device.transportOver(std::move(transport));
    std::vector<Tensor> own;
    for (uint32_t k : part->inputs)
      own.push_back(k < inputs.size() ? inputs[k] : Tensor());
    if (llvm::Error e =
            Executor::create(part->graph(), *program.layout, device, own, part->transport.get())
                .moveInto(part->executor))
      return e;
  }
  parts_.push_back(std::move(part));
  return llvm::Error::success();
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
  if (llvm::Error e = group_ ? stepOwn(number, progress) : stepAll(number, progress))
    return e;
  for (const auto &part : parts_)
    if (part->executor)
      part->figures.peakBytes = part->executor->measuredPeakBytes();
  if (group_)
    if (llvm::Error e = shareFigures())
      return e;
  stepSeconds_ = secondsSince(start);
  for (const auto &part : parts_)
    if (part->figures.peakBytes != part->program.layout->peakBytes)
      return internalError("the measured peak is {0} bytes, the predicted one {1}",
                           part->figures.peakBytes, part->program.layout->peakBytes);
  return llvm::Error::success();
}

// Runs the program of this process.
llvm::Error Session::stepOwn(uint64_t number, const std::function<void(size_t)> &progress) {
  Part &part = *parts_[group_->rank()];
  const auto start = Clock::now();
  (void)part.transport->takeWaited();
  const size_t nodes = std::max<size_t>(1, part.graph().numNodes());
  llvm::Error e = part.executor->step({seed_, number}, [&](size_t done) {
    llvm::consumeError(part.transport->progress()); // the next wait finds it again
    if (progress) // as a share of the whole, which the others run at the same time
      progress(done * graph_.numNodes() / nodes);
  });
  part.figures.seconds = secondsSince(start) - part.transport->takeWaited();
  if (!e)
    return e;
  const std::string where = "the step failed on " + part.program.device;
  part.transport->abort(where);
  return addNote(std::move(e), where);
}

// Lets all processes know the figures of all devices.
llvm::Error Session::shareFigures() {
  using Figures = decltype(Part::figures);
  std::vector<Figures> all(parts_.size());
  const Figures own = parts_[group_->rank()]->figures;
  if (llvm::Error e = group_->allGather(&own, sizeof own, all.data()))
    return e;
  for (size_t i = 0; i < parts_.size(); ++i)
    parts_[i]->figures = all[i];
  return std::exchange(hasSharedCounts_, true) ? llvm::Error::success() : shareKernelCounts();
}

// A device may change kernels at their first launch, and not later.
llvm::Error Session::shareKernelCounts() {
  for (size_t i = 0; i < parts_.size(); ++i) {
    std::string text; // "onednn 7\n", the substitutes last
    if (parts_[i]->executor) {
      const KernelCounts own = parts_[i]->executor->kernelCounts();
      for (const auto &[library, count] : own.byLibrary)
        text += library + " " + std::to_string(count) + "\n";
      text += " " + std::to_string(own.substitutes) + "\n";
    }
    if (llvm::Error e = broadcastText(text, *group_, uint32_t(i)))
      return e;
    llvm::SmallVector<llvm::StringRef, 8> lines;
    llvm::StringRef(text).split(lines, '\n', -1, /*KeepEmpty=*/false);
    for (llvm::StringRef line : lines) {
      auto [library, number] = line.rsplit(' ');
      size_t count = 0;
      if (number.getAsInteger(10, count))
        return internalError("'{0}' is no number of kernels", line);
      (library.empty() ? parts_[i]->kernels.substitutes
                       : parts_[i]->kernels.byLibrary[library.str()]) = count;
    }
  }
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
      llvm::consumeError(part.transport->progress()); // the next wait finds it again
      if (!progress)
        return;
      std::lock_guard<std::mutex> lock(mutex);
      progress(++done);
    });
    part.figures.seconds = secondsSince(start) - part.transport->takeWaited();
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
    out.push_back(workers_ || group_ ? part->figures.seconds : stepSeconds_);
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

// Whether one executor runs the whole graph itself. (Several stages on one device are a program
// with values of its own.)
bool Session::isWhole() const { return parts_.size() == 1 && &parts_[0]->graph() == &graph_; }

llvm::Error Session::feed(ValueId v, const Tensor &t) {
  if (isWhole())
    return parts_[0]->executor->feed(v, t);
  ISTHMUS_CHECK(!graph_.value(v).def, "fed a value that is no input");
  const uint32_t input = graph_.value(v).resultIndex;
  for (const auto &part : parts_)
    for (size_t k = 0; part->executor && k < part->inputs.size(); ++k)
      if (part->inputs[k] == input)
        if (llvm::Error e = part->executor->feed(part->graph().inputs()[k].value, t))
          return e;
  return llvm::Error::success();
}

llvm::Expected<Tensor> Session::fetch(ValueId v) {
  if (isWhole())
    return parts_[0]->executor->fetch(v);
  const bool isInput = !graph_.value(v).def;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part &part = *parts_[i];
    const std::vector<uint32_t> &ends = isInput ? part.inputs : part.outputs;
    for (size_t k = 0; k < ends.size(); ++k)
      if (isInput ? ends[k] == graph_.value(v).resultIndex : graph_.outputs()[ends[k]] == v)
        return fetchFrom(i, v,
                         isInput ? part.graph().inputs()[k].value : part.graph().outputs()[k]);
  }
  return internalError("'{0}' is no input and no output that a device has", graph_.valueName(v));
}

// `own` is what `v` is in the part's program.
llvm::Expected<Tensor> Session::fetchFrom(size_t part, ValueId v, ValueId own) {
  Tensor t;
  if (Executor *e = parts_[part]->executor.get())
    if (llvm::Error failed = e->fetch(own).moveInto(t))
      return failed;
  if (!group_)
    return t;
  llvm::Error failed = llvm::Error::success();
  Tensor sent = Tensor::make(graph_.type(v), [&](char *to) {
    if (t)
      std::memcpy(to, t.data, size_t(t.bytes()));
    llvm::consumeError(std::move(failed));
    failed = group_->broadcast(to, graph_.type(v).bytes(), uint32_t(part));
  });
  if (failed)
    return failed;
  return sent;
}

llvm::Error Session::carryState() {
  for (const auto &part : parts_)
    if (part->executor)
      if (llvm::Error e = part->executor->carryState())
        return e;
  return llvm::Error::success();
}

llvm::Expected<bool> Session::anyOf(bool isSo) {
  if (!group_)
    return isSo;
  std::vector<char> all(group_->size());
  const char own = isSo;
  if (llvm::Error e = group_->allGather(&own, 1, all.data()))
    return e;
  return llvm::is_contained(all, 1);
}

KernelCounts Session::kernelCounts() const {
  KernelCounts all;
  for (const auto &part : parts_) {
    const KernelCounts own = part->executor ? part->executor->kernelCounts() : part->kernels;
    for (const auto &[library, count] : own.byLibrary)
      all.byLibrary[library] += count;
    all.substitutes += own.substitutes;
  }
  return all;
}

std::vector<int64_t> Session::measuredPeakBytes() const {
  std::vector<int64_t> out;
  for (const auto &part : parts_)
    out.push_back(part->figures.peakBytes);
  return out;
}

int64_t Session::largestMeasuredPeak() const {
  const std::vector<int64_t> all = measuredPeakBytes();
  return *std::max_element(all.begin(), all.end());
}

Executor &Session::executor() {
  ISTHMUS_CHECK(isWhole(), "a step in stages has executors of its programs");
  return *parts_[0]->executor;
}

} // namespace isthmus
