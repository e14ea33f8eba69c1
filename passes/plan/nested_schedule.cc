#include "passes/plan/nested_schedule.h"

#include "passes/plan/emit_schedule.h"
#include "passes/plan/segments.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace isthmus::plan {
namespace {

// The problem of one segment.
struct Part {
  Problem problem;
  std::vector<TaskId> taskOf;       // by op; none for what is no task
  std::map<StorageId, Read> madeBy; // what the part's ops make
  OpIndex rest = Op::kNone;         // of the last segment none
};

// What has to be held while the rest runs, beside what it reads: what the part needs afterwards,
// and what cannot be brought back from what is there then. So it is with what the first op of a
// stage reads, in networks whose stages cannot be undone but whose blocks can.
class Holding {
public:
  explicit Holding(const Part &part) : p_(part.problem), rest_(part.rest), has_(p_.ops.size()) {
    for (OpIndex i = 0; i < p_.ops.size(); ++i)
      has_[i].assign(std::max<size_t>(1, p_.ops[i].outputBytes.size()), p_.ops[i].isPinned);
    for (const Read &r : p_.ops[rest_].inputs)
      has(r) = true;
    has_[rest_].assign(has_[rest_].size(), true);
    spread();
  }

  int64_t bytes() {
    for (const Read &r : p_.outputs)
      if (r.op < rest_)
        hold(r);
    for (OpIndex i = rest_ + 1; i < p_.ops.size(); ++i)
      if (!p_.ops[i].isAlternative)
        for (const Read &r : p_.ops[i].inputs)
          if (r.op < rest_)
            makePossible(r);
    return bytes_;
  }

private:
  char &has(const Read &r) { return has_[r.op][r.output]; }
  bool isGiven(OpIndex i) const { return i < rest_ && p_.ops[i].inputs.empty() && !mayRun(i); }
  bool mayRun(OpIndex i) const { return p_.ops[i].recomputable || i > rest_; }

  // What can be made of what is there.
  void spread() {
    for (bool isNew = true; isNew;) {
      isNew = false;
      for (OpIndex i = 0; i < p_.ops.size(); ++i) {
        const Op &op = p_.ops[i];
        if (!mayRun(i) || op.isPinned ||
            !std::all_of(op.inputs.begin(), op.inputs.end(), [&](Read r) { return bool(has(r)); }))
          continue;
        for (uint32_t o = 0; o < op.outputBytes.size(); ++o) {
          isNew |= !has({i, o});
          has({i, o}) = true;
          if (op.of != Op::kNone)
            has({op.of, op.ofOutput == Op::kAllOutputs ? o : op.ofOutput}) = true;
        }
      }
    }
  }

  void hold(const Read &r) {
    if (has(r))
      return;
    has(r) = true;
    bytes_ += p_.ops[r.op].outputBytes[r.output];
    spread();
  }

  // By holding what the segment before has made, where that helps.
  void makePossible(const Read &r) {
    if (has(r))
      return;
    const std::vector<std::vector<char>> before = has_;
    const int64_t bytesBefore = bytes_;
    for (OpIndex i = 0; i < rest_ && !has(r); ++i)
      if (isGiven(i))
        hold({i, 0});
    if (has(r))
      return;
    has_ = before;
    bytes_ = bytesBefore;
    hold(r);
  }

  const Problem &p_;
  const OpIndex rest_;
  std::vector<std::vector<char>> has_; // by op and output
  int64_t bytes_ = 0;
};

// What is asked of storages of the whole problem.
struct Uses {
  std::map<StorageId, std::vector<TaskId>> alternatives; // that make instances; without transfers
  IdVector<StorageId, char> isRead;                      // by an original task

  explicit Uses(const StorageGraph &g) : isRead(g.storages.size(), false) {
    for (TaskId t : g.tasks.ids()) {
      if (!g.isAlternative(t)) {
        for (StorageId s : g.tasks[t].reads)
          isRead[s] = true;
      } else if (g.tasks[t].transfer == Storages::Task::Transfer::None) {
        for (StorageId s : g.tasks[t].made())
          if (g.storages[s].maker != t)
            alternatives[s].push_back(t);
      }
    }
  }
};

class PartBuilder {
public:
  PartBuilder(const StorageGraph &g, const Segments &segments, const Uses &uses, int64_t budget)
      : g_(g), segments_(segments), uses_(uses), budget_(budget) {}

  // `kept`: what the segment before brings back from what is there after this one. The rest of a
  // problem that no plan can meet has a workspace below zero.
  Part build(uint32_t segment, const std::vector<StorageId> &kept) {
    std::vector<StorageId> restorable = segments_.in[segment - 1];
    for (StorageId s : kept)
      if (std::find(restorable.begin(), restorable.end(), s) == restorable.end())
        restorable.push_back(s);
    for (StorageId s : restorable)
      addGiven(s);
    for (TaskId t : segments_.tasksAt[segment]) {
      addTask(t);
      for (StorageId s : g_.tasks[t].made())
        restorable.push_back(s);
    }
    if (segment < segments_.num)
      addRest(segment);
    addBackward(segment, kept);
    for (StorageId s : segments_.out[segment - 1])
      addOutput(part_.madeBy.at(s));
    for (StorageId s : kept)
      addOutput(part_.madeBy.at(s));
    for (StorageId s : restorable)
      addAlternatives(s);
    addOverwritten();
    if (part_.rest != Op::kNone)
      part_.problem.ops[part_.rest].workspace -= Holding(part_).bytes() + bytesEarly_;
    return std::move(part_);
  }

private:
  OpIndex add(Op op, TaskId t = TaskId()) {
    part_.problem.ops.push_back(std::move(op));
    part_.taskOf.push_back(t);
    return OpIndex(part_.problem.ops.size() - 1);
  }

  void addOutput(Read r) {
    std::vector<Read> &outputs = part_.problem.outputs;
    if (std::find(outputs.begin(), outputs.end(), r) == outputs.end())
      outputs.push_back(r);
  }

  // What segments before have made.
  void addGiven(StorageId s) {
    Op op;
    op.recomputable = false;
    op.outputBytes = {g_.storages[s].bytes};
    part_.madeBy[s] = {add(std::move(op)), 0};
  }

  Op opOf(TaskId t) const {
    const Storages::Task &task = g_.tasks[t];
    Op op;
    op.phase = task.isBackward ? OpPhase::Backward : OpPhase::Forward;
    op.cost = task.cost;
    op.workspace = task.workspace;
    op.recomputable = task.mayRepeat;
    for (StorageId s : task.reads)
      op.inputs.push_back(part_.madeBy.at(s));
    for (StorageId s : task.made())
      op.outputBytes.push_back(g_.storages[s].bytes);
    for (const Storages::Task::Donation &d : task.donations) {
      const auto read = std::find(task.reads.begin(), task.reads.end(), d.read);
      op.donations.push_back(
          {d.made.index - task.firstMade.index, uint32_t(read - task.reads.begin())});
    }
    return op;
  }

  void addTask(TaskId t) {
    const OpIndex i = add(opOf(t), t);
    for (StorageId s : g_.tasks[t].made()) {
      part_.madeBy[s] = {i, s.index - g_.tasks[t].firstMade.index};
      if (g_.storages[s].lives)
        addOutput(part_.madeBy[s]);
    }
  }

  void addRest(uint32_t segment) {
    Op op;
    op.phase = OpPhase::Backward;
    op.recomputable = false;
    op.workspace = budget_;
    for (StorageId s : segments_.in[segment]) {
      op.inputs.push_back(part_.madeBy.at(s));
      op.workspace -= g_.storages[s].bytes;
    }
    for (StorageId s : segments_.out[segment]) {
      op.outputBytes.push_back(g_.storages[s].bytes);
      op.workspace -= g_.storages[s].bytes;
    }
    op.outputBytes.push_back(0); // it has to run, even if nothing comes back
    part_.rest = add(std::move(op));
    addOutput({part_.rest, uint32_t(segments_.out[segment].size())});
    for (uint32_t i = 0; i < segments_.out[segment].size(); ++i) {
      const StorageId s = segments_.out[segment][i];
      part_.madeBy[s] = {part_.rest, i};
      if (g_.storages[s].lives)
        addOutput({part_.rest, i});
    }
  }

  // Tasks that overwrite parameters come last, after an op that reads what is kept: to bring that
  // back takes the parameters.
  void addBackward(uint32_t segment, const std::vector<StorageId> &kept) {
    const std::vector<TaskId> &tasks = segments_.tasksAt[segments_.backwardOf(segment)];
    for (TaskId t : tasks)
      if (!comesLast(t))
        addTask(t);
    Op op;
    op.phase = OpPhase::Backward;
    op.recomputable = false;
    op.outputBytes = {0};
    for (StorageId s : kept)
      op.inputs.push_back(part_.madeBy.at(s));
    addOutput({add(std::move(op)), 0});
    for (TaskId t : tasks)
      if (comesLast(t)) {
        addTask(t);
        for (StorageId s : g_.tasks[t].made()) // it may as well come first
          bytesEarly_ += g_.storages[s].bytes;
      }
  }

  // So do others of which the step's results alone are made, and which read no more bytes than they
  // make: running averages, once the statistics are there again.
  bool comesLast(TaskId t) const {
    int64_t made = 0, read = 0;
    for (StorageId s : g_.tasks[t].made()) {
      made += g_.storages[s].bytes;
      if (uses_.isRead[s] || !g_.storages[s].lives)
        return false;
    }
    for (StorageId s : g_.tasks[t].reads)
      read += g_.storages[s].bytes;
    return read <= made || (made == 0 && !g_.readersOfOverwritten(t).empty());
  }

  void addAlternatives(StorageId s) {
    if (auto found = uses_.alternatives.find(s); found != uses_.alternatives.end())
      for (TaskId t : found->second)
        if (g_.tasks[t].firstMade == s)
          addAlternative(t);
  }

  // Where the part has what it reads, and all that it makes.
  void addAlternative(TaskId t) {
    const Storages::Task &task = g_.tasks[t];
    const Read own = part_.madeBy.at(task.firstMade);
    const size_t numOwn = part_.problem.ops[own.op].outputBytes.size();
    if ((task.numMade != 1 && task.numMade != numOwn) || !hasReads(t))
      return;
    Op op = opOf(t);
    op.isAlternative = true;
    op.of = own.op;
    op.ofOutput = task.numMade == numOwn ? Op::kAllOutputs : own.output;
    add(std::move(op), t);
  }

  // With helpers, which are added.
  bool hasReads(TaskId t) {
    for (StorageId s : g_.tasks[t].reads) {
      if (part_.madeBy.count(s))
        continue;
      const TaskId maker = g_.storages[s].maker;
      if (!g_.isAlternative(maker) || !hasReads(maker))
        return false;
      Op helper = opOf(maker);
      helper.isAlternative = true;
      const OpIndex i = add(std::move(helper), maker);
      for (StorageId made : g_.tasks[maker].made())
        part_.madeBy[made] = {i, made.index - g_.tasks[maker].firstMade.index};
    }
    return true;
  }

  // What is overwritten is one pinned op for each task that does so: all that must run before it
  // read that. (Alternatives alone may come before what they read, and the judge does not ask where
  // pinned ops stand.)
  void addOverwritten() {
    std::map<TaskId, OpIndex> opOf;
    for (OpIndex i = 0; i < part_.taskOf.size(); ++i)
      if (part_.taskOf[i])
        opOf[part_.taskOf[i]] = i;
    for (auto [t, i] : opOf) {
      const std::vector<TaskId> &readers = g_.readersOfOverwritten(t);
      if (readers.empty())
        continue;
      Op pinned;
      pinned.isPinned = true;
      pinned.outputBytes = {0};
      const Read read{add(std::move(pinned)), 0};
      Op &by = part_.problem.ops[i];
      by.overwrites = {uint32_t(by.inputs.size())};
      by.inputs.push_back(read);
      for (TaskId reader : readers)
        if (auto at = opOf.find(reader); reader != t && at != opOf.end())
          part_.problem.ops[at->second].inputs.push_back(read);
    }
  }

  const StorageGraph &g_;
  const Segments &segments_;
  const Uses &uses_;
  const int64_t budget_;
  int64_t bytesEarly_ = 0;
  Part part_;
};

// The same text for problems that are the same.
std::string textOf(const Problem &p) {
  std::string text;
  auto put = [&](auto... values) {
    (text.append(reinterpret_cast<const char *>(&values), sizeof values), ...);
  };
  for (const Op &op : p.ops) {
    put(op.phase, op.cost, op.workspace, op.isPinned, op.recomputable, op.isAlternative, op.of,
        op.ofOutput, op.inputs.size(), op.outputBytes.size(), op.donations.size(),
        op.overwrites.size());
    for (const Read &r : op.inputs)
      put(r.op, r.output);
    for (int64_t bytes : op.outputBytes)
      put(bytes);
    for (const Op::Donation &d : op.donations)
      put(d.output, d.input);
    for (uint32_t input : op.overwrites)
      put(input);
  }
  for (const Read &r : p.outputs)
    put(r.op, r.output);
  return text;
}

class Composition {
public:
  Composition(const StorageGraph &g, Segments segments, int64_t budget, const SegmentPlanner &plan)
      : g_(g), segments_(std::move(segments)), budget_(budget), plan_(plan), uses_(g) {}

  std::vector<TaskId> run() {
    std::vector<TaskId> tasks;
    std::vector<std::vector<TaskId>> backward;
    std::vector<StorageId> kept;
    for (uint32_t k = 1; k <= segments_.num; ++k) {
      const int64_t budget = budgetOf(k);
      const Part part = PartBuilder(g_, segments_, uses_, budget).build(k, kept);
      const Schedule &steps = planOf(part, budget);
      if (steps.empty())
        return {};
      const auto rest = std::find(steps.begin(), steps.end(), part.rest);
      append(tasks, part, steps.begin(), rest);
      append(backward.emplace_back(), part, rest, steps.end());
      kept.clear();
      for (StorageId s : keptOf(part, rest, steps.end()))
        if (isRead(segments_.in[k], s))
          kept.push_back(s);
        else // it is held in the segments after this one, which know nothing of it
          held_ += g_.storages[s].bytes;
    }
    for (; !backward.empty(); backward.pop_back())
      tasks.insert(tasks.end(), backward.back().begin(), backward.back().end());
    return tasks;
  }

private:
  using Step = Schedule::const_iterator;

  static bool isRead(const std::vector<StorageId> &in, StorageId s) {
    return std::find(in.begin(), in.end(), s) != in.end();
  }

  // Without what is held beside it, in coarse steps, so that segments that are alike have the same.
  int64_t budgetOf(uint32_t segment) const {
    const int64_t step = std::max<int64_t>(1, budget_ / 512);
    return budget_ - (held_ + segments_.passing[segment] + step - 1) / step * step;
  }

  const Schedule &planOf(const Part &part, int64_t budget) {
    auto [known, isNew] = plans_.try_emplace({budget, textOf(part.problem)});
    if (isNew && (part.rest == Op::kNone || part.problem.ops[part.rest].workspace >= 0))
      known->second = plan_(part.problem, budget);
    return known->second;
  }

  static void append(std::vector<TaskId> &tasks, const Part &part, Step from, Step to) {
    for (; from != to; ++from)
      if (TaskId t = part.taskOf[*from])
        tasks.push_back(t);
  }

  // What these steps, the rest and those after it, read of what was made before.
  std::vector<StorageId> keptOf(const Part &part, Step from, Step to) const {
    std::vector<StorageId> kept;
    if (from == to)
      return kept;
    std::map<std::pair<OpIndex, uint32_t>, StorageId> made; // what is not made since
    for (auto [s, r] : part.madeBy)
      if (r.op != part.rest)
        made[{r.op, r.output}] = s;
    auto read = [&](const Read &r) {
      if (auto found = made.find({r.op, r.output}); found != made.end()) {
        kept.push_back(found->second);
        made.erase(found);
      }
    };
    for (++from; from != to; ++from) {
      for (const Read &r : part.problem.ops[*from].inputs)
        read(r);
      if (TaskId t = part.taskOf[*from])
        for (StorageId s : g_.tasks[t].made())
          if (auto r = part.madeBy.find(s); r != part.madeBy.end())
            made.erase({r->second.op, r->second.output});
    }
    for (const Read &r : part.problem.outputs)
      read(r);
    return kept;
  }

  const StorageGraph &g_;
  const Segments segments_;
  const int64_t budget_;
  const SegmentPlanner &plan_;
  const Uses uses_;
  int64_t held_ = 0; // for segments before, unread by those to come
  std::map<std::pair<int64_t, std::string>, Schedule> plans_; // by budget and problem
};

} // namespace

std::vector<TaskId> nestedSchedule(const StorageGraph &g, int64_t budget, uint32_t leastTasks,
                                   const SegmentPlanner &plan) {
  std::optional<Segments> segments = segmentsOf(g, leastTasks);
  if (!segments)
    return {};
  std::vector<TaskId> tasks = Composition(g, *std::move(segments), budget, plan).run();
  if (tasks.empty())
    return {};
  const Evaluation judged = evaluate(g.problem(), emitSchedule(g, tasks));
  return judged.error.empty() && judged.peakBytes <= budget ? tasks : std::vector<TaskId>();
}

} // namespace isthmus::plan
