#include "tests/random/schedules.h"

#include "passes/checkpoint/policy.h"
#include "passes/plan/checkpoint_schedule.h"
#include "passes/plan/planner.h"
#include "tools/random/random_graph.h"

namespace isthmus {
namespace {

plan::Schedule randomKeeping(const plan::Problem &p, Random &random) {
  std::vector<std::vector<bool>> keep;
  size_t share = 1 + random.below(5);
  for (const plan::Op &op : p.ops) {
    keep.emplace_back(std::max<size_t>(1, op.outputBytes.size()));
    for (size_t o = 0; o < keep.back().size(); ++o)
      keep.back()[o] = random.oneIn(share);
  }
  return plan::checkpointSchedule(p, keep);
}

// Ops that may run again run at random places, any number of times.
plan::Schedule randomRecomputing(const plan::Problem &p, Random &random) {
  plan::Schedule s;
  for (plan::OpIndex op : plan::sourceOrder(p)) {
    s.push_back(op);
    while (random.oneIn(4)) {
      plan::OpIndex again = s[random.below(s.size())];
      if (p.ops[again].recomputable)
        s.push_back(again);
    }
  }
  return s;
}

// The source order with alternatives at random places where they can run. Forms that read encoded
// operands also run in place of their ops.
class RandomWays {
public:
  RandomWays(const plan::Problem &p, Random &random)
      : p_(p), random_(random), hasRun_(p.ops.size(), false), isUnderWay_(p.ops.size(), false) {
    for (plan::OpIndex i = 0; i < p.ops.size(); ++i)
      if (p.ops[i].isAlternative)
        alternatives_.push_back(i);
      else
        hasRun_[i] = p.ops[i].isPinned;
  }

  plan::Schedule schedule() {
    for (plan::OpIndex op : plan::sourceOrder(p_)) {
      if (!runInPlaceOf(op))
        run(op);
      for (size_t k = 0; !alternatives_.empty() && k < 4; ++k)
        tryRun(alternatives_[random_.below(alternatives_.size())]);
    }
    for (plan::OpIndex op : alternatives_) // the waits for transfers that are under way
      if (p_.ops[op].waitsForTransfer() && isUnderWay_[p_.ops[op].inputs[0].op])
        run(op);
    return std::move(out_);
  }

private:
  bool canRun(plan::OpIndex i) const {
    const plan::Op &op = p_.ops[i];
    for (const plan::Read &r : op.inputs)
      if (!hasRun_[r.op])
        return false;
    return op.waitsForTransfer() ? isUnderWay_[op.inputs[0].op] : !isUnderWay_[i];
  }

  void run(plan::OpIndex i) {
    const plan::Op &op = p_.ops[i];
    out_.push_back(i);
    hasRun_[i] = true;
    if (op.startsTransfer())
      isUnderWay_[i] = true;
    if (op.waitsForTransfer())
      isUnderWay_[op.inputs[0].op] = false;
  }

  bool tryRun(plan::OpIndex i) {
    const plan::Op &op = p_.ops[i];
    const bool isNew = op.of != plan::Op::kNone && !hasRun_[op.of]; // the op itself comes later
    if (isNew || !canRun(i) || (op.of != plan::Op::kNone && !op.recomputable))
      return false;
    run(i);
    return true;
  }

  bool runInPlaceOf(plan::OpIndex op) {
    for (plan::OpIndex form : alternatives_) {
      if (p_.ops[form].of != op || p_.ops[form].transfer != plan::Op::Transfer::None ||
          random_.oneIn(2))
        continue;
      for (const plan::Read &r : p_.ops[form].inputs)
        if (p_.ops[r.op].isAlternative && !hasRun_[r.op] && canRun(r.op))
          run(r.op);
      if (!canRun(form))
        continue;
      run(form);
      hasRun_[op] = true;
      return true;
    }
    return false;
  }

  const plan::Problem &p_;
  Random &random_;
  std::vector<plan::OpIndex> alternatives_;
  std::vector<bool> hasRun_, isUnderWay_; // by op: it has a result; by start
  plan::Schedule out_;
};

// A random list of names of forward values. Values whose names a list cannot hold are left out.
std::string randomCheckpoints(const Graph &g, Random &random) {
  std::string list;
  size_t share = 1 + random.below(5);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    for (uint32_t r = 0; n.phase == Phase::Forward && r < n.numResults; ++r)
      if (llvm::StringRef name = g.valueName(n.result(r)); random.oneIn(share))
        if (!name.contains('"'))
          list += (list.empty() ? "\"" : ",\"") + name.str() + "\"";
  }
  return list;
}

} // namespace

llvm::Expected<std::vector<NamedSchedule>> schedulesOf(const Graph &g, const GraphProblem &p,
                                                       uint64_t seed) {
  Random random(seed);
  std::vector<NamedSchedule> out;
  out.push_back({"random keeping", randomKeeping(p.problem, random)});
  out.push_back({"random recomputing", randomRecomputing(p.problem, random)});
  for (const PolicyOptions &o : {PolicyOptions{Policy::None, ""},
                                 {Policy::Speed, ""},
                                 {Policy::Memory, ""},
                                 {Policy::Collection, ""},
                                 {Policy::Collection, randomCheckpoints(g, random)}}) {
    const std::string name =
        policyName(o.policy).str() + (o.checkpoints.empty() ? "" : " of ") + o.checkpoints;
    auto plan = planPolicy(g, p, o);
    if (!plan) { // for example, there is no matrix product or no mark
      llvm::consumeError(plan.takeError());
      continue;
    }
    if (plan->planned.peakBytes > plan->baseline.peakBytes)
      return makeError("policy {0} needs more than no policy", name);
    out.push_back({"policy " + name, plan->schedule});
  }
  return out;
}

std::vector<NamedSchedule> schedulesOfAllWays(const GraphProblem &p, uint64_t seed) {
  Random random(seed);
  std::vector<NamedSchedule> out;
  out.push_back({"random ways", RandomWays(p.problem, random).schedule()});
  plan::SearchOptions o;
  o.effort = 0.01;
  o.seed = seed;
  const int64_t peak = plan::evaluate(p.problem, plan::sourceOrder(p.problem)).peakBytes;
  o.budgetBytes = peak / 10 * int64_t(4 + random.below(6));
  out.push_back({"a plan", plan::planWithin(p.problem, o).schedule});
  return out;
}

} // namespace isthmus
