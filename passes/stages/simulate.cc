#include "passes/stages/simulate.h"

#include "ir/place.h"

namespace isthmus {

double StepTimes::bubble() const {
  double busy = 0;
  for (const PlaceTimes &p : places)
    busy += p.busy;
  return seconds > 0 ? 1 - busy / (seconds * double(places.size())) : 0;
}

StepClock::StepClock(const std::vector<std::string> &devices, const Machine &machine)
    : devices_(devices), machine_(machine), places_(devices.size()) {
  for (const std::string &device : devices)
    speeds_.push_back(machine.speedOf(device));
}

void StepClock::compute(uint32_t place, double seconds) {
  PlaceTimes &p = places_[place];
  if (p.busy == 0)
    p.begin = p.end;
  p.end += seconds / speeds_[place];
  p.busy += seconds / speeds_[place];
}

NodeTime StepClock::send(uint32_t from, uint32_t to, int64_t bytes) {
  const auto [it, isNew] = links_.try_emplace({from, to});
  if (isNew)
    it->second.times = machine_.linkOf(devices_[from], devices_[to]);
  const double begin = std::max(it->second.free, now(from));
  it->second.free = begin + it->second.times.secondsOf(bytes);
  return {begin, it->second.free};
}

void StepClock::wait(uint32_t place, double until) {
  places_[place].end = std::max(places_[place].end, until);
}

StepTimes StepClock::times() const {
  StepTimes out;
  out.places = places_;
  for (const PlaceTimes &p : places_)
    out.seconds = std::max(out.seconds, p.end);
  return out;
}

// The list has every send before its receive, and every wait behind both ends: one pass suffices.
StepTimes simulateStep(const Graph &g, const Target &t, const Machine &machine) {
  const Places places(g);
  StepClock clock(places.names(), machine);
  std::vector<double> complete(g.numNodes(), 0); // by send: when its message has arrived
  std::vector<double> taken(g.numNodes(), 0);    // by send: when it was received
  std::vector<NodeTime> nodes(g.numNodes());
  std::vector<MessageTime> messages;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const uint32_t place = places.of(NodeId(i));
    nodes[i].begin = clock.now(place);
    if (n.op->is(kSend)) {
      const uint32_t to = places.find(n.attrs.getString("to")).value_or(place);
      const int64_t bytes = g.type(n.operands[0]).bytes();
      const NodeTime onLink = clock.send(place, to, bytes);
      messages.push_back({NodeId(i), place, to, bytes, onLink.begin, onLink.end});
      complete[i] = onLink.end;
    } else if (n.op->is(kReceive)) {
      if (!n.operands.empty())
        taken[g.value(n.operands[0]).def.index] = clock.now(place);
    } else if (n.op->is(kWait)) {
      NodeId start = g.value(n.operands[1]).def;
      if (g.node(start).op->is(kReceive) && !g.node(start).operands.empty())
        start = g.value(g.node(start).operands[0]).def;
      if (g.node(start).op->is(kSend))
        clock.wait(place, std::max(complete[start.index], taken[start.index]));
    } else {
      clock.compute(place, t.seconds(g.call(NodeId(i))));
    }
    nodes[i].end = clock.now(place);
  }
  StepTimes out = clock.times();
  out.nodes = std::move(nodes);
  out.messages = std::move(messages);
  return out;
}

} // namespace isthmus
