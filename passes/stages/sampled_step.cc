#include "passes/stages/sampled_step.h"

#include "ir/check.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

constexpr uint32_t kNone = OrderedGraph::kNoTask;

// --- Micro-batches

BatchSample::BatchSample(int64_t examples, int64_t count) : examples(examples), count(count) {
  for (int64_t k = 0; k < count; ++k) {
    const bool isNew = k == 0 || k + 1 == count ||
                       llvm::none_of(llvm::makeArrayRef(numbers).drop_front(),
                                     [&](int64_t other) { return sizeOf(other) == sizeOf(k); });
    if (isNew)
      numbers.push_back(k);
  }
}

int64_t BatchSample::sizeOf(int64_t batch) const {
  return examples * (batch + 1) / count - examples * batch / count;
}

size_t BatchSample::standsFor(int64_t batch) const {
  if (batch == 0 || batch + 1 == count)
    return batch == 0 ? 0 : numbers.size() - 1;
  for (size_t i = 1; i + 1 < numbers.size(); ++i)
    if (sizeOf(numbers[i]) == sizeOf(batch))
      return i;
  ISTHMUS_UNREACHABLE("a micro-batch of a size that the sample does not have");
}

// --- Tasks

namespace {

size_t indexOf(const BatchSample &b, uint32_t number) {
  return size_t(llvm::lower_bound(b.numbers, int64_t(number)) - b.numbers.begin());
}

} // namespace

std::optional<RepeatedTasks> repeated(const PipelineTasks &sample, const BatchSample &batches,
                                      StageOrder order, uint32_t devices) {
  RepeatedTasks out;
  std::vector<std::vector<uint32_t>> ofBatch(batches.numbers.size()); // tasks of the sample
  std::map<std::pair<uint32_t, TaskKind>, uint32_t> slots;
  std::vector<uint32_t> slotOf;
  for (uint32_t t = 0; t < sample.all.size(); ++t) {
    const PipelineTask &task = sample.all[t];
    ofBatch[indexOf(batches, task.batch)].push_back(t);
    slotOf.push_back(
        slots.try_emplace({task.stage, task.kind}, uint32_t(slots.size())).first->second);
  }
  std::vector<uint32_t> ids(slots.size() * size_t(batches.count), kNone); // by slot and batch
  auto idOf = [&](uint32_t t, int64_t batch) -> uint32_t & {
    return ids[slotOf[t] * size_t(batches.count) + size_t(batch)];
  };
  uint32_t next = 0;
  for (int64_t b = 0; b < batches.count; ++b)
    for (uint32_t t : ofBatch[batches.standsFor(b)])
      idOf(t, b) = next++;
  llvm::SmallVector<PipelineTasks::Need, 4> needs;
  for (int64_t b = 0; b < batches.count; ++b)
    for (const size_t own = batches.standsFor(b); uint32_t t : ofBatch[own]) {
      needs.clear();
      for (const PipelineTasks::Need &need : sample.needsOf(t)) {
        const size_t other = indexOf(batches, sample.all[need.task].batch);
        if (other != own && other + 1 != own)
          return std::nullopt;
        needs.push_back({idOf(need.task, other == own ? b : b - 1), need.seconds});
        if (needs.back().task == kNone)
          return std::nullopt;
      }
      PipelineTask task = sample.all[t];
      task.batch = uint32_t(b);
      out.tasks.add(task, needs);
      out.sampleOf.push_back(t);
    }
  out.order = tasksInOrder(out.tasks, order, devices);
  return out;
}

// --- What tasks do

void SampledGraph::findPlaces() {
  const Places places(*graph);
  placeOf.assign(tasks->all.size(), 0);
  for (uint32_t i = 0; i < graph->numNodes(); ++i)
    if (taskOf[i] != kNone)
      placeOf[taskOf[i]] = places.of(NodeId(i));
  std::vector<uint32_t> next(places.count(), 0);
  slotOf.clear();
  for (uint32_t place : placeOf)
    slotOf.push_back(next[place]++);
}

uint32_t SampledGraph::numTasksOf(uint32_t place) const {
  return uint32_t(llvm::count(placeOf, place));
}

namespace {

class Steps {
public:
  Steps(const SampledGraph &g, uint32_t place, const plan::Schedule &s, const Target &target)
      : g_(g), number_(place), place_((*g.places)[place]), s_(s), target_(target) {}

  std::optional<PlaceSteps> run() {
    findTasks();
    findLive();
    out_.tasks.resize(g_.numTasksOf(number_));
    hasBegun_.assign(out_.tasks.size(), false);
    std::vector<bool> hasRun(place_.problem.ops.size(), false);
    for (size_t i = 0; i < s_.size(); ++i) {
      if (!add(i, hasRun[s_[i]]))
        return std::nullopt;
      hasRun[s_[i]] = true;
    }
    return std::move(out_);
  }

private:
  bool isNode(size_t step) const {
    const plan::OpIndex op = place_.whole[s_[step]];
    return op != PlaceProblem::kStarted && g_.problem->isNode(op);
  }
  NodeId nodeOf(size_t step) const { return g_.problem->nodeOf(place_.whole[s_[step]]); }

  // A send goes with the task before it, and all else that is of no task with the one after it.
  void findTasks() {
    std::vector<bool> hasRun(place_.problem.ops.size(), false);
    taskOf_.assign(s_.size(), kNone);
    uint32_t last = kNone;
    for (size_t i = 0; i < s_.size(); ++i) {
      const bool isFirst = !hasRun[s_[i]];
      hasRun[s_[i]] = true;
      if (isNode(i) && isFirst && g_.taskOf[nodeOf(i).index] != kNone)
        last = taskOf_[i] = g_.taskOf[nodeOf(i).index];
      else if (!isNode(i) || g_.graph->node(nodeOf(i)).op->is(kSend))
        taskOf_[i] = last;
    }
    uint32_t next = kNone;
    for (size_t i = s_.size(); i-- > 0;)
      if (taskOf_[i] == kNone)
        taskOf_[i] = next;
      else
        next = taskOf_[i];
  }

  void findLive() {
    const std::vector<plan::Instance> instances = plan::instancesOf(place_.problem, s_);
    live_ = plan::liveBytesOf(place_.problem, s_, instances);
    std::vector<int64_t> change(s_.size() + 1, 0);
    for (const plan::Instance &i : instances) {
      change[i.first] += i.bytes;
      if (!i.isOutput)
        change[i.last] -= i.bytes;
    }
    after_ = change;
    for (size_t i = 1; i < after_.size(); ++i)
      after_[i] += after_[i - 1];
  }

  bool add(size_t step, bool isAgain) {
    const uint32_t number = taskOf_[step];
    TaskSteps &t = number == kNone ? out_.end : out_.tasks[g_.slotOf[number]];
    const int64_t before = step ? after_[step - 1] : 0;
    int64_t change = after_[step] - before;
    if (isNode(step)) {
      const Node &n = g_.graph->node(nodeOf(step));
      if (isWaitForSend(*g_.graph, n)) {
        out_.freedBy[g_.graph->value(n.operands[1]).def.index] = -change;
        change = 0;
      } else {
        t.nodes += 1;
        t.clones += isAgain;
        if (!addEvent(t, number, step, n))
          return false;
      }
    }
    t.rise = std::max(t.rise, t.change + live_[step] - before);
    t.change += change;
    if (number != kNone && isEarly(number, step, isAgain)) {
      t.numEarly = t.events.size();
      t.earlyRise = std::max(t.earlyRise, t.rise);
      t.rise = 0;
    }
    return true;
  }

  // Whether the step is one of the repeats with which the task begins: waits for sends stand behind
  // them (early_recomputation.h).
  bool isEarly(uint32_t task, size_t step, bool isAgain) {
    const Node *n = isNode(step) ? &g_.graph->node(nodeOf(step)) : nullptr;
    const bool isPassed = isAgain || (n && (n->op->isMessage() || isWaitForSend(*g_.graph, *n)));
    if (!isPassed)
      hasBegun_[g_.slotOf[task]] = true;
    return isAgain && !hasBegun_[g_.slotOf[task]];
  }

  bool addEvent(TaskSteps &t, uint32_t number, size_t step, const Node &n) {
    using Event = TaskSteps::Event;
    if (n.op->is(kSend)) {
      t.events.push_back({Event::Send, nodeOf(step).index});
    } else if (n.op->is(kReceive) || n.op->is(kWait)) {
      NodeId send = g_.graph->value(n.operands.back()).def;
      if (n.op->is(kWait))
        send = g_.graph->value(g_.graph->node(send).operands[0]).def;
      if (!isOfSameBatch(send, number))
        return false;
      t.events.push_back({n.op->is(kWait) ? Event::Wait : Event::Receive, send.index});
    } else {
      t.cost += place_.problem.ops[s_[step]].cost;
      if (t.events.size() == t.numEarly || t.events.back().kind != Event::Compute)
        t.events.push_back({Event::Compute, 0});
      t.events.back().seconds += target_.seconds(g_.graph->call(nodeOf(step)));
    }
    return true;
  }

  // Whether the micro-batches that `task` stands for have a message each.
  bool isOfSameBatch(NodeId send, uint32_t task) const {
    const std::optional<uint32_t> from = batchOf(*g_.graph, send), own = batch(task);
    return !from || g_.batches->isOnce(indexOf(*g_.batches, *from)) || from == own;
  }
  std::optional<uint32_t> batch(uint32_t task) const {
    return task == kNone ? std::optional<uint32_t>() : g_.tasks->all[task].batch;
  }
  // Of what the send sends.
  std::optional<uint32_t> batchOf(const Graph &g, NodeId send) const {
    const NodeId def = g.value(g.node(send).operands[0]).def;
    return def ? batch(g_.taskOf[def.index]) : std::nullopt;
  }

  const SampledGraph &g_;
  const uint32_t number_;
  const PlaceProblem &place_;
  const plan::Schedule &s_;
  const Target &target_;
  std::vector<uint32_t> taskOf_;      // by step
  std::vector<int64_t> live_, after_; // by step: bytes while it runs, and then
  std::vector<bool> hasBegun_;        // by slot: whether the task did more than repeat
  PlaceSteps out_;
};

} // namespace

std::optional<PlaceSteps> stepsOf(const SampledGraph &g, uint32_t place, const plan::Schedule &s,
                                  const Target &target) {
  return Steps(g, place, s, target).run();
}

// --- The step

namespace {

class RepeatedStep {
public:
  RepeatedStep(const SampledGraph &g, const RepeatedTasks &all,
               llvm::ArrayRef<const PlaceSteps *> places, const Machine &machine)
      : g_(*g.graph), sample_(g), all_(all), places_(places), names_(g_),
        clock_(names_.names(), machine), live_(places.size(), 0), toRelease_(places.size()) {
    out_.peaks.assign(places.size(), 0);
    out_.nodesOf.assign(places.size(), 0);
    setUpMessages();
  }

  RepeatedFigures run() {
    for (uint32_t t : all_.order) {
      const uint32_t task = all_.sampleOf[t], place = sample_.placeOf[task];
      run(place, places_[place]->tasks[sample_.slotOf[task]], all_.tasks.all[t].batch);
    }
    runEnds();
    out_.times = clock_.times();
    return std::move(out_);
  }

private:
  struct Message {
    double complete = 0, taken = 0;
  };

  void setUpMessages() {
    sends_.resize(g_.numNodes());
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (!n.op->is(kSend))
        continue;
      const NodeId def = g_.value(n.operands[0]).def;
      const uint32_t task = def ? sample_.taskOf[def.index] : kNone;
      const bool isOnce =
          task == kNone ||
          sample_.batches->isOnce(indexOf(*sample_.batches, sample_.tasks->all[task].batch));
      const uint32_t from = names_.of(NodeId(i));
      sends_[i] = {messages_.size(),
                   isOnce,
                   from,
                   *names_.find(n.attrs.getString("to")),
                   g_.type(n.operands[0]).bytes(),
                   places_[from]->freedBy.lookup(i)};
      messages_.resize(messages_.size() + (isOnce ? 1 : size_t(sample_.batches->count)));
    }
  }

  struct Send {
    size_t first; // in messages_
    bool isOnce;
    uint32_t from, to;    // places
    int64_t bytes, freed; // freed: by the wait for it
  };
  Message &messageOf(const Send &s, uint32_t batch) {
    return messages_[s.first + (s.isOnce ? 0 : batch)];
  }

  void run(uint32_t place, const TaskSteps &t, uint32_t batch) {
    const auto events = llvm::makeArrayRef(t.events);
    raisePeak(place, t.earlyRise);
    for (const TaskSteps::Event &e : events.take_front(t.numEarly))
      run(place, e, batch);
    release(place);
    raisePeak(place, t.rise);
    live_[place] += t.change;
    count(place, t);
    for (const TaskSteps::Event &e : events.drop_front(t.numEarly))
      run(place, e, batch);
  }

  void raisePeak(uint32_t place, int64_t rise) {
    out_.peaks[place] = std::max(out_.peaks[place], live_[place] + rise);
  }

  void count(uint32_t place, const TaskSteps &t) {
    out_.cost += t.cost;
    out_.nodes += t.nodes;
    out_.clones += t.clones;
    out_.nodesOf[place] += t.nodes;
  }

  void run(uint32_t place, const TaskSteps::Event &e, uint32_t batch) {
    if (e.kind == TaskSteps::Event::Compute)
      return clock_.compute(place, e.seconds);
    const Send &s = sends_[e.node];
    Message &m = messageOf(s, batch);
    switch (e.kind) {
    case TaskSteps::Event::Send:
      m.complete = clock_.send(place, s.to, s.bytes).end;
      ++out_.messages;
      ++out_.nodes; // the wait for it
      ++out_.nodesOf[place];
      break;
    case TaskSteps::Event::Receive:
      m.taken = clock_.now(place);
      toRelease_[s.from].push_back({e.node, batch});
      break;
    default:
      clock_.wait(place, m.complete);
    }
  }

  // What the device has sent, and others have received, since its last task (messages.cc).
  void release(uint32_t place) {
    for (const auto &[node, batch] : toRelease_[place]) {
      const Message &m = messageOf(sends_[node], batch);
      clock_.wait(place, std::max(m.complete, m.taken));
      live_[place] -= sends_[node].freed;
    }
    toRelease_[place].clear();
  }

  // Nodes behind the last tasks: each device goes on until it waits for another.
  void runEnds() {
    std::vector<size_t> at(places_.size(), 0);
    for (uint32_t p = 0; p < places_.size(); ++p) {
      const TaskSteps &t = places_[p]->end;
      release(p);
      raisePeak(p, t.rise);
      count(p, t);
    }
    for (const PlaceSteps *p : places_)
      for (const TaskSteps::Event &e : p->end.events)
        if (e.kind == TaskSteps::Event::Send)
          isAwaited_.insert(e.node);
    for (bool isMoving = true; isMoving;) {
      isMoving = false;
      for (uint32_t p = 0; p < places_.size(); ++p)
        for (const auto &events = places_[p]->end.events; at[p] < events.size(); ++at[p]) {
          const TaskSteps::Event &e = events[at[p]];
          if (e.kind == TaskSteps::Event::Receive && isAwaited_.count(e.node))
            break;
          run(p, e, uint32_t(sample_.batches->count - 1));
          if (e.kind == TaskSteps::Event::Send)
            isAwaited_.erase(e.node);
          isMoving = true;
        }
    }
  }

  const Graph &g_;
  const SampledGraph &sample_;
  const RepeatedTasks &all_;
  llvm::ArrayRef<const PlaceSteps *> places_;
  const Places names_;
  StepClock clock_;
  std::vector<int64_t> live_; // by place
  std::vector<Send> sends_;   // by node
  std::vector<Message> messages_;
  // By place: sends, and their micro-batches, that were received and are not released.
  std::vector<std::vector<std::pair<uint32_t, uint32_t>>> toRelease_;
  llvm::DenseSet<uint32_t> isAwaited_; // sends behind the last tasks that have not run
  RepeatedFigures out_;
};

} // namespace

RepeatedFigures simulateRepeated(const SampledGraph &g, const RepeatedTasks &all,
                                 llvm::ArrayRef<const PlaceSteps *> places,
                                 const Machine &machine) {
  return RepeatedStep(g, all, places, machine).run();
}

} // namespace isthmus
