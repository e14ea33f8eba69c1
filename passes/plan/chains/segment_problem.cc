#include "passes/plan/chains/segment_problem.h"

#include <algorithm>
#include <utility>

namespace isthmus::plan {
namespace {

// The storages that must be held while the rest runs, beside its operands: those that the segment
// needs afterwards and cannot rematerialize from the storages available then. An example is the
// operand of a stage's first op, in networks whose blocks are invertible but whose stages are not.
class Holding {
public:
  explicit Holding(const SegmentProblem &s) : p_(s.problem), rest_(s.rest), has_(p_.ops.size()) {
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

  // Marks the storages that can be made from the available ones.
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

  // Holds the storages that earlier segments have made if that makes `r` possible, or else `r`
  // itself.
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

class Builder {
public:
  Builder(const StorageGraph &g, const Segments &segments, int64_t budget)
      : g_(g), segments_(segments), budget_(budget) {}

  SegmentProblem build(uint32_t segment, const std::vector<StorageId> &kept) {
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
      addOutput(made_.madeBy.at(s));
    for (StorageId s : kept)
      addOutput(made_.madeBy.at(s));
    for (StorageId s : restorable)
      addAlternatives(s);
    addOverwritten();
    if (made_.rest != Op::kNone)
      made_.problem.ops[made_.rest].workspace -= Holding(made_).bytes() + bytesEarly_;
    return std::move(made_);
  }

private:
  OpIndex add(Op op, TaskId t = TaskId()) {
    made_.problem.ops.push_back(std::move(op));
    made_.taskOf.push_back(t);
    return OpIndex(made_.problem.ops.size() - 1);
  }

  void addOutput(Read r) {
    std::vector<Read> &outputs = made_.problem.outputs;
    if (std::find(outputs.begin(), outputs.end(), r) == outputs.end())
      outputs.push_back(r);
  }

  // Adds an op for a storage that an earlier segment has made.
  void addGiven(StorageId s) {
    Op op;
    op.recomputable = false;
    op.outputBytes = {g_.storages[s].bytes};
    made_.madeBy[s] = {add(std::move(op)), 0};
  }

  Op opOf(TaskId t) const {
    const Storages::Task &task = g_.tasks[t];
    Op op;
    op.phase = task.isBackward ? OpPhase::Backward : OpPhase::Forward;
    op.cost = task.cost;
    op.workspace = task.workspace;
    op.recomputable = task.mayRepeat;
    for (StorageId s : task.reads)
      op.inputs.push_back(made_.madeBy.at(s));
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
      made_.madeBy[s] = {i, s.index - g_.tasks[t].firstMade.index};
      if (g_.storages[s].lives)
        addOutput(made_.madeBy[s]);
    }
  }

  void addRest(uint32_t segment) {
    Op op;
    op.phase = OpPhase::Backward;
    op.recomputable = false;
    op.workspace = budget_;
    for (StorageId s : segments_.in[segment]) {
      op.inputs.push_back(made_.madeBy.at(s));
      op.workspace -= g_.storages[s].bytes;
    }
    for (StorageId s : segments_.out[segment]) {
      op.outputBytes.push_back(g_.storages[s].bytes);
      op.workspace -= g_.storages[s].bytes;
    }
    op.outputBytes.push_back(0); // makes it run even if it returns nothing else
    made_.rest = add(std::move(op));
    addOutput({made_.rest, uint32_t(segments_.out[segment].size())});
    for (uint32_t i = 0; i < segments_.out[segment].size(); ++i) {
      const StorageId s = segments_.out[segment][i];
      made_.madeBy[s] = {made_.rest, i};
      if (g_.storages[s].lives)
        addOutput({made_.rest, i});
    }
  }

  // Tasks that overwrite parameters come last, after an op that reads the kept storages:
  // rematerializing those takes the parameters.
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
      op.inputs.push_back(made_.madeBy.at(s));
    addOutput({add(std::move(op)), 0});
    for (TaskId t : tasks)
      if (comesLast(t)) {
        addTask(t);
        for (StorageId s : g_.tasks[t].made()) // the task may also run early
          bytesEarly_ += g_.storages[s].bytes;
      }
  }

  // Other tasks also come last if all their results are outputs that nothing reads, and they read
  // no more bytes than they make: running averages, once the statistics are rematerialized.
  bool comesLast(TaskId t) const {
    int64_t made = 0, read = 0;
    for (StorageId s : g_.tasks[t].made()) {
      made += g_.storages[s].bytes;
      if (segments_.lastRead[s] > 0 || !g_.storages[s].lives)
        return false;
    }
    for (StorageId s : g_.tasks[t].reads)
      read += g_.storages[s].bytes;
    return read <= made || (made == 0 && !g_.readersOfOverwritten(t).empty());
  }

  void addAlternatives(StorageId s) {
    for (TaskId t : g_.alternatives(s))
      if (g_.tasks[t].transfer == Storages::Task::Transfer::None && g_.tasks[t].firstMade == s)
        addAlternative(t);
  }

  // Adds the alternative if its operands and all its results are in the problem.
  void addAlternative(TaskId t) {
    const Storages::Task &task = g_.tasks[t];
    const Read own = made_.madeBy.at(task.firstMade);
    const size_t numOwn = made_.problem.ops[own.op].outputBytes.size();
    if ((task.numMade != 1 && task.numMade != numOwn) || !hasReads(t))
      return;
    Op op = opOf(t);
    op.isAlternative = true;
    op.of = own.op;
    op.ofOutput = task.numMade == numOwn ? Op::kAllOutputs : own.output;
    add(std::move(op), t);
  }

  // Whether the task's operands are in the problem; adds missing helpers.
  bool hasReads(TaskId t) {
    for (StorageId s : g_.tasks[t].reads) {
      if (made_.madeBy.count(s))
        continue;
      const TaskId maker = g_.storages[s].maker;
      if (!g_.isAlternative(maker) || !hasReads(maker))
        return false;
      Op helper = opOf(maker);
      helper.isAlternative = true;
      const OpIndex i = add(std::move(helper), maker);
      for (StorageId made : g_.tasks[maker].made())
        made_.madeBy[made] = {i, made.index - g_.tasks[maker].firstMade.index};
    }
    return true;
  }

  // The bytes that a task overwrites are one pinned op, which all tasks that must run before it
  // read. (Only alternatives may come before their operands, but the judge does not check the
  // places of pinned ops.)
  void addOverwritten() {
    std::map<TaskId, OpIndex> opOf;
    for (OpIndex i = 0; i < made_.taskOf.size(); ++i)
      if (made_.taskOf[i])
        opOf[made_.taskOf[i]] = i;
    for (auto [t, i] : opOf) {
      const std::vector<TaskId> &readers = g_.readersOfOverwritten(t);
      if (readers.empty())
        continue;
      Op pinned;
      pinned.isPinned = true;
      pinned.outputBytes = {0};
      const Read read{add(std::move(pinned)), 0};
      Op &by = made_.problem.ops[i];
      by.overwrites = {uint32_t(by.inputs.size())};
      by.inputs.push_back(read);
      for (TaskId reader : readers)
        if (auto at = opOf.find(reader); reader != t && at != opOf.end())
          made_.problem.ops[at->second].inputs.push_back(read);
    }
  }

  const StorageGraph &g_;
  const Segments &segments_;
  const int64_t budget_;
  int64_t bytesEarly_ = 0;
  SegmentProblem made_;
};

} // namespace

SegmentProblem problemOf(uint32_t segment, const StorageGraph &g, const Segments &segments,
                         const std::vector<StorageId> &kept, int64_t budget) {
  return Builder(g, segments, budget).build(segment, kept);
}

} // namespace isthmus::plan
