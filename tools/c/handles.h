// What is behind the handles of isthmus.h, and how its functions fail.
#pragma once

#include "ir/diagnostics.h"
#include "passes/place/place_schedule.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"
#include "tools/c/guarded.h"
#include "tools/c/isthmus.h"
#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>

struct isthmus_error {
  std::string message;
};

struct isthmus_text {
  std::string data;
};

struct isthmus_graph {
  isthmus::Graph graph;
  std::string notes = {}; // of its import, a line each
};

struct isthmus_problem {
  isthmus::GraphProblem of;                    // its `problem` alone, where there is no graph
  std::shared_ptr<const isthmus::Graph> graph; // that it was made of, an original; or null

  const isthmus::plan::Problem &problem() const { return of.problem; }
};

struct isthmus_plan {
  isthmus::plan::PlanResult result;
  bool isGiven = false; // by somebody's schedule
  double seconds = 0;   // that the search took
  std::optional<isthmus::ScheduleLayout> layout;
  std::vector<isthmus_block> blocks; // of the layout
};

namespace isthmus::c {

// Gives a new handle to the caller.
template <typename Handle, typename... Args> isthmus_status give(Handle **to, Args &&...args) {
  *to = new Handle{std::forward<Args>(args)...};
  return ISTHMUS_OK;
}

// OK if the plan is one of the problem.
isthmus_status checkFits(const isthmus_problem &problem, const isthmus_plan &plan,
                         isthmus_error **error);

isthmus_status isNull(const char *name, isthmus_error **error);

// The library's form of a struct that a program gave: what the program's smaller one lacks is as in
// `all`. Nothing where its size is below `least`, that of the first form, or above this library's.
template <typename Struct>
std::optional<Struct> grown(const Struct &given, size_t least, Struct all = {}) {
  if (given.size < least || given.size > sizeof(Struct))
    return std::nullopt;
  std::memcpy(&all, &given, given.size);
  all.size = sizeof all;
  return all;
}
isthmus_status wrongSize(const char *structure, size_t size, size_t least, size_t most,
                         isthmus_error **error);

} // namespace isthmus::c

// A function's first line: what it is given, and where it puts what it makes, may not be null.
#define ISTHMUS_NOT_NULL(pointer)                                                                  \
  do {                                                                                             \
    if (!(pointer))                                                                                \
      return isthmus::c::isNull(#pointer, error);                                                  \
  } while (false)
