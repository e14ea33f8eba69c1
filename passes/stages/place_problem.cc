#include "passes/stages/place_problem.h"

#include "ir/check.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr uint32_t kNone = ~0u;

class Dividing {
public:
  Dividing(const Graph &g, const GraphProblem &p, const Places &places)
      : g_(g), p_(p), places_(places) {}

  std::vector<PlaceProblem> run() {
    findPlaces();
    out_.resize(places_.count());
    now_.assign(p_.problem.ops.size(), kNone);
    inputs_.resize(places_.count());
    lastStart_.resize(places_.count());
    for (PlaceProblem &out : out_) {
      out.problem.alignment = p_.problem.alignment;
      out.problem.order = p_.problem.order;
    }
    for (plan::OpIndex i = 0; i < p_.problem.ops.size(); ++i)
      if (!isInput(i))
        addInputs(i);
    // Numbers first, because alternatives may come before their operands.
    for (plan::OpIndex i = 0; i < p_.problem.ops.size(); ++i)
      if (!isInput(i))
        number(i);
    for (plan::OpIndex i = 0; i < p_.problem.ops.size(); ++i)
      if (!isInput(i))
        fill(i);
    for (const plan::Read &r : p_.problem.outputs)
      if (!isInput(r.op))
        out_[placeOf_[r.op]].problem.outputs.push_back({now_[r.op], r.output});
    return std::move(out_);
  }

private:
  bool isInput(plan::OpIndex op) const { return op < p_.numInputs; }

  // Alternatives run where the node is for which they stand.
  void findPlaces() {
    placeOf_.assign(p_.problem.ops.size(), 0);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      placeOf_[p_.opOf(NodeId(i))] = places_.of(NodeId(i));
    for (plan::OpIndex i = p_.numInputs + p_.numNodes; i < p_.problem.ops.size(); ++i) {
      const Derivation d = p_.derivationOf(i);
      const NodeId of = d.value && g_.value(d.value).def ? g_.value(d.value).def
                        : d.kind == Derivation::FromEncoded ? d.node
                                                            : NodeId();
      placeOf_[i] = of ? places_.of(of) : 0;
      if (d.kind == Derivation::FromEncoded)
        placeOf_[i] = places_.of(d.node);
    }
  }

  void addInputs(plan::OpIndex i) {
    for (const plan::Read &r : p_.problem.ops[i].inputs)
      if (isInput(r.op) && now(placeOf_[i], r.op) == kNone)
        inputs_[placeOf_[i]][r.op] = add(placeOf_[i], r.op);
  }

  void number(plan::OpIndex i) {
    now_[i] = add(placeOf_[i], i);
    const Node *n = nodeOf(i);
    if (!n || !n->op->is(kSend))
      return;
    PlaceProblem &out = out_[placeOf_[i]];
    plan::Op started;
    started.name = p_.problem.ops[i].name + " (started)";
    started.phase = p_.problem.ops[i].phase;
    started.inputs = {{now_[i], 0}};
    started.outputBytes = {0};
    started.recomputable = false;
    startedOf_[i] = uint32_t(out.problem.ops.size());
    out.problem.ops.push_back(std::move(started));
    out.whole.push_back(PlaceProblem::kStarted);
  }

  uint32_t add(uint32_t place, plan::OpIndex op) {
    PlaceProblem &out = out_[place];
    out.problem.ops.push_back(p_.problem.ops[op]);
    out.whole.push_back(op);
    return uint32_t(out.whole.size() - 1);
  }

  // The op of the place's part; kNone if it is not there.
  uint32_t now(uint32_t place, plan::OpIndex op) const {
    if (!isInput(op))
      return placeOf_[op] == place ? now_[op] : kNone;
    const auto it = inputs_[place].find(op);
    return it == inputs_[place].end() ? kNone : it->second;
  }

  const Node *nodeOf(plan::OpIndex op) const {
    return p_.isNode(op) ? &g_.node(p_.nodeOf(op)) : nullptr;
  }

  void fill(plan::OpIndex i) {
    const uint32_t place = placeOf_[i];
    plan::Op &op = out_[place].problem.ops[now_[i]];
    const Node *n = nodeOf(i);
    if (n && n->op->is(kReceive))
      op.inputs.clear(); // the token comes from another place
    // It reads the send alone, which holds what is sent. Nothing reads it, and it has to run: it is
    // an output, of no bytes and no view.
    if (n && isWaitForSend(g_, *n)) {
      op.inputs.erase(op.inputs.begin());
      op.viewOf = plan::Op::kNoView;
      op.outputBytes = {0};
      out_[place].problem.outputs.push_back({now_[i], 0});
    }
    for (plan::Read &r : op.inputs) {
      r.op = now(place, r.op);
      ISTHMUS_CHECK(r.op != kNone, "an op reads what another place has");
    }
    if (op.of != plan::Op::kNone)
      op.of = now(place, op.of);
    if (!n || !(n->op->isMessage() || isWaitForSend(g_, *n)))
      return;
    if (n->op->is(kSend)) {
      op.viewOf = 0;
      op.outputBytes.clear();
      op.donations.clear();
    }
    std::optional<plan::Read> &last = lastStart_[place];
    if (last)
      op.inputs.push_back(*last);
    if (n->op->is(kSend))
      last = plan::Read{startedOf_[i], 0};
    else if (n->op->is(kReceive))
      last = plan::Read{now_[i], 1};
  }

  const Graph &g_;
  const GraphProblem &p_;
  const Places &places_;
  std::vector<uint32_t> placeOf_; // by op
  std::vector<PlaceProblem> out_;
  std::vector<uint32_t> now_; // by op of the whole that is no input: the op of the part
  std::vector<llvm::DenseMap<plan::OpIndex, uint32_t>> inputs_; // by place: the same for inputs
  llvm::DenseMap<plan::OpIndex, uint32_t> startedOf_; // by send
  std::vector<std::optional<plan::Read>> lastStart_; // by place: the token of its last message
};

} // namespace

std::vector<PlaceProblem> placeProblems(const Graph &g, const GraphProblem &p,
                                        const Places &places) {
  return Dividing(g, p, places).run();
}

plan::Schedule joined(const Graph &g, const GraphProblem &p,
                      const std::vector<PlaceProblem> &problems,
                      const std::vector<plan::Schedule> &schedules) {
  plan::Schedule out;
  std::vector<size_t> at(schedules.size(), 0);
  std::vector<bool> hasRun(g.numNodes(), false);
  // Ends of messages: by send, its receive.
  std::vector<NodeId> receiveOf(g.numNodes());
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (const Node &n = g.node(NodeId(i)); n.op->is(kReceive))
      receiveOf[g.value(n.operands[0]).def.index] = NodeId(i);
  auto isBlocked = [&](plan::OpIndex op) {
    if (!p.isNode(op))
      return false;
    const Node &n = g.node(p.nodeOf(op));
    if (n.op->is(kReceive))
      return !hasRun[g.value(n.operands[0]).def.index];
    if (!n.op->is(kWait))
      return false;
    const NodeId start = g.value(n.operands[1]).def;
    return g.node(start).op->is(kSend) && receiveOf[start.index] &&
           !hasRun[receiveOf[start.index].index];
  };
  for (bool isMoving = true; isMoving;) {
    isMoving = false;
    for (size_t place = 0; place < schedules.size(); ++place)
      while (at[place] < schedules[place].size()) {
        const plan::OpIndex op = problems[place].whole[schedules[place][at[place]]];
        if (op == PlaceProblem::kStarted) {
          ++at[place];
          continue;
        }
        if (isBlocked(op))
          break;
        if (p.isNode(op))
          hasRun[p.nodeOf(op).index] = true;
        out.push_back(op);
        ++at[place];
        isMoving = true;
      }
  }
  for (size_t place = 0; place < schedules.size(); ++place)
    ISTHMUS_CHECK(at[place] == schedules[place].size(), "schedules of two places wait for ever");
  return out;
}

} // namespace isthmus
