// The planner's problem of one device of a graph with messages, as a part of the problem of the
// whole.
#pragma once

#include "ir/place.h"
#include "passes/rewrite/problem.h"

namespace isthmus {

struct PlaceProblem {
  plan::Problem problem;
  // By op: the op of the whole problem. A send is here a view of what it sends, so that the wait
  // which reads it holds that instance. kStarted: no op of the whole; it stands for the start of a
  // send, which later messages come after.
  static constexpr plan::OpIndex kStarted = ~0u;
  std::vector<plan::OpIndex> whole;
};

// One problem for each place of `g`, whose problem is `p`. Starts of messages keep the order that
// they have in `g`, and no wait for a send comes before the messages that come before it in `g`:
// with this, schedules of the places, whatever they are, do not wait for one another for ever
// (docs/stages.md).
std::vector<PlaceProblem> placeProblems(const Graph &g, const GraphProblem &p,
                                        const Places &places);

// One schedule of the whole problem, of valid schedules of its places' problems: each place's steps
// in their order, and every wait for a message behind both of its ends.
plan::Schedule joined(const Graph &g, const GraphProblem &p,
                      const std::vector<PlaceProblem> &problems,
                      const std::vector<plan::Schedule> &schedules);

} // namespace isthmus
