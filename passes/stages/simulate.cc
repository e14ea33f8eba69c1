#include "passes/stages/simulate.h"

#include "ir/place.h"
#include "llvm/ADT/DenseMap.h"

namespace isthmus {

double StepTimes::bubble() const {
  double busy = 0;
  for (const PlaceTimes &p : places)
    busy += p.busy;
  return seconds > 0 ? 1 - busy / (seconds * double(places.size())) : 0;
}

// The list has every send before its receive, and every wait behind both ends: one pass suffices.
StepTimes simulateStep(const Graph &g, const Target &t, const Machine &machine) {
  const Places places(g);
  StepTimes times;
  times.places.resize(places.count());
  std::vector<double> clock(places.count(), 0);
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, double> linkFree;
  std::vector<double> complete(g.numNodes(), 0); // by send: when its message has arrived
  std::vector<double> taken(g.numNodes(), 0);    // by send: when it was received
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const uint32_t place = places.of(NodeId(i));
    double &now = clock[place];
    if (n.op->is(kSend)) {
      const uint32_t to = places.find(n.attrs.getString("to")).value_or(place);
      double &free = linkFree[{place, to}];
      free = std::max(free, now) + machine.linkOf(places.name(place), n.attrs.getString("to"))
                                       .secondsOf(g.type(n.operands[0]).bytes());
      complete[i] = free;
    } else if (n.op->is(kReceive)) {
      if (!n.operands.empty())
        taken[g.value(n.operands[0]).def.index] = now;
    } else if (n.op->is(kWait)) {
      NodeId start = g.value(n.operands[1]).def;
      if (g.node(start).op->is(kReceive) && !g.node(start).operands.empty())
        start = g.value(g.node(start).operands[0]).def;
      if (g.node(start).op->is(kSend))
        now = std::max({now, complete[start.index], taken[start.index]});
    } else {
      const double seconds =
          t.seconds(g.call(NodeId(i))) / machine.speedOf(places.name(place));
      now += seconds;
      times.places[place].busy += seconds;
    }
    times.places[place].end = now;
  }
  for (const PlaceTimes &p : times.places)
    times.seconds = std::max(times.seconds, p.end);
  return times;
}

} // namespace isthmus
