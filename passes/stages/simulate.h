// The time of a step over several devices, by the costs of its nodes.
#pragma once

#include "ir/graph.h"
#include "ir/target.h"
#include "passes/stages/machine.h"
#include "llvm/ADT/DenseMap.h"
#include <vector>

namespace isthmus {

// What one device does in a step, in seconds from its beginning.
struct PlaceTimes {
  double begin = 0; // when it first computes
  double busy = 0;  // computing
  double end = 0;   // when its last node is done
};
// When a device runs a node, in seconds from the beginning of the step. Sends, receives and views
// take no time of it; a wait ends when its message is there.
struct NodeTime {
  double begin = 0, end = 0;
};
// A message on its link.
struct MessageTime {
  NodeId send;
  uint32_t from = 0, to = 0; // places
  int64_t bytes = 0;
  double begin = 0, end = 0;
};
struct StepTimes {
  std::vector<PlaceTimes> places;
  double seconds = 0;
  // Of a graph that was simulated node by node; else empty.
  std::vector<NodeTime> nodes;
  std::vector<MessageTime> messages; // in the order of their sends
  // The share of the devices' time in which they wait.
  double bubble() const;
};

// The clocks of devices and of the links between them.
class StepClock {
public:
  StepClock(const std::vector<std::string> &devices, const Machine &machine);

  double now(uint32_t place) const { return places_[place].end; }
  // `seconds` are those of the target.
  void compute(uint32_t place, double seconds);
  // When the message takes the link, behind those before it.
  NodeTime send(uint32_t from, uint32_t to, int64_t bytes);
  void wait(uint32_t place, double until);

  StepTimes times() const;

private:
  struct Link {
    LinkTimes times;
    double free = 0;
  };
  const std::vector<std::string> &devices_;
  const Machine &machine_;
  std::vector<double> speeds_; // by place
  std::vector<PlaceTimes> places_;
  llvm::DenseMap<std::pair<uint32_t, uint32_t>, Link> links_; // from, to
};

// `g` has messages; each device runs its nodes in their order. A message takes the link from the
// moment at which it is sent; it is received once both ends have come to it.
StepTimes simulateStep(const Graph &g, const Target &t, const Machine &machine);

} // namespace isthmus
