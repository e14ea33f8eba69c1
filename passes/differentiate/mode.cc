#include "passes/differentiate/mode.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/ops/averages.h"
#include "passes/rebuild.h"
#include "passes/simplify/dce.h"
#include "passes/simplify/drawn_masks.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

NodeId copyWithMode(Rebuilder &r, NodeId id, Mode mode) {
  const Node &n = r.from().node(id);
  if (!n.op->is(kDependsOnMode))
    return r.copyNode(id);
  Attrs attrs = n.attrs;
  attrs.set("training", mode == Mode::Training);
  auto copy = r.copyNodeWith(id, std::move(attrs));
  if (!copy)
    ISTHMUS_CHECK(false, "the mode changed a type: " + llvm::toString(copy.takeError()));
  return *copy;
}

Graph inEval(const Graph &g) {
  std::vector<ValueId> kept;
  std::vector<Rebuilder::OldOutput> outputs;
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (g.role(i).kind != OutputKind::NextState) {
      kept.push_back(g.outputs()[i]);
      outputs.push_back({g.outputs()[i], g.role(i)});
    }
  llvm::BitVector live = liveNodes(g, kept);
  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (live.test(i))
      copyWithMode(r, NodeId(i), Mode::Eval);
  return r.finish(outputs);
}

// Updates the running averages that `from` reads but does not update.
class Averages {
public:
  explicit Averages(Rebuilder &r) : r_(r) {
    for (size_t i = 0; i < r.from().outputs().size(); ++i)
      if (r.from().role(i).kind == OutputKind::NextState)
        moved_.insert(r.from().role(i).of);
  }

  // Updates the averages that node `id` reads. Call it after `id` was copied.
  void moveBy(NodeId id) {
    const Node &n = r_.from().node(id);
    if (n.phase != Phase::Forward || n.isClone())
      return;
    for (AveragedStatistic s : averagedStatistics(*n.op)) {
      ValueId old = n.operands[s.old], now = r_.map(n.result(s.now));
      const Input *input = r_.from().inputOf(old);
      if (input && input->kind == InputKind::State && !moved_.count(old))
        move(n, old, now);
    }
  }

  // Names the final averages and makes them outputs.
  void finish(Graph &g) const {
    for (auto [old, latest] : latest_) {
      g.rename(latest, g.uniqueName("state." + r_.from().valueName(old).str()));
      g.addOutput(latest, {OutputKind::NextState, r_.map(old)});
    }
  }

private:
  // A layer that is used twice updates its averages twice, so each update starts from the latest
  // value.
  void move(const Node &n, ValueId old, ValueId now) {
    ValueId &latest = latest_.insert({old, r_.map(old)}).first->second;
    Builder b(r_.to(), Phase::Update);
    b.device = n.device;
    b.loc = n.loc;
    std::string name = r_.freshName(r_.from().valueName(n.firstResult).str() + ".running_average");
    latest = b.create("running_average", {latest, now},
                      {{"momentum", n.attrs.getFloat("momentum")}}, name);
  }

  Rebuilder &r_;
  llvm::DenseSet<ValueId> moved_;
  llvm::MapVector<ValueId, ValueId> latest_; // in order of the first update
};

Graph inTraining(const Graph &g) {
  Rebuilder r(g);
  r.copyInputs();
  Averages averages(r);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    copyWithMode(r, NodeId(i), Mode::Training);
    averages.moveBy(NodeId(i));
  }
  Graph out = r.finish();
  averages.finish(out);
  return out;
}

// Whether the node draws only in training and is not training, so that its result equals its
// operand, and its result is neither the loss nor an output.
bool isIdleDrop(const Graph &g, NodeId id) {
  const Node &n = g.node(id);
  return n.op->is(kDependsOnMode) && n.op->effect == Effect::Draws &&
         !n.attrs.getBool("training") && !n.isClone() && n.firstResult != g.loss &&
         !llvm::is_contained(g.outputs(), n.firstResult);
}

} // namespace

bool dependsOnMode(const Graph &g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (g.node(NodeId(i)).op->is(kDependsOnMode))
      return true;
  return false;
}

Graph withMode(const Graph &g, Mode mode) {
  return mode == Mode::Eval ? inEval(withoutDrawnMasks(g)) : inTraining(g);
}

Graph withoutIdleDrops(Graph g) {
  std::vector<bool> isIdle(g.numNodes());
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    isIdle[i] = isIdleDrop(g, NodeId(i));
  if (!llvm::is_contained(isIdle, true))
    return g;
  Rebuilder r(g);
  r.copyInputs();
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (isIdle[i])
      r.setMap(n.firstResult, r.map(n.operands[0]));
    else
      r.copyNode(NodeId(i));
  }
  return r.finish();
}

} // namespace isthmus
