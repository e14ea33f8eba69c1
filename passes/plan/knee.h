// The knee of the price curve: down to which budget memory is cheap to save.
#pragma once

#include "passes/plan/planner.h"

namespace isthmus::plan {

// A plan on the curve: its peak, and what it costs in microseconds.
struct PricePoint {
  int64_t peakBytes = 0;
  double cost = 0;
};

// The point that lies farthest below the straight line between the ends of the curve. Above it a
// byte less costs less than on average over the whole curve, and below it more.
struct Knee {
  PricePoint at;
  double above = 0, below = 0; // microseconds for a byte less, on average, 0 or more
};

// The knee of the lower convex hull of these points. None if a byte below it costs less than twice
// as much as above it: such a curve bends nowhere. None also if the whole curve adds no more than a
// thousandth to its least cost: all of it is cheap.
std::optional<Knee> kneeOf(std::vector<PricePoint> curve);

// The knee of a problem's curve, from no recomputation to the lowest peak that short searches reach
// within `options.mostAdded`, or `known`, if that is the smallest plan that was found. Takes about
// a third of the effort. None also if the search was stopped.
std::optional<Knee> findKnee(const Problem &p, const SearchOptions &options,
                             const PlanResult &known);

} // namespace isthmus::plan
