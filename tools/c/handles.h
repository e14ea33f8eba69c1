// The structs behind the handles of isthmus.h, and helpers for failing calls.
#pragma once

#include "ir/diagnostics.h"
#include "passes/compile/compile.h"
#include "passes/place/place_schedule.h"
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
  isthmus::plan::Problem problem;
  std::string name;
};

struct isthmus_compiled {
  isthmus::Compiled compiled; // without a graph if the budget could not be met
  bool hasGraph = false;
  std::string notes;              // of the graph that was compiled, and of compiling; a line each
  std::vector<int64_t> liveBytes; // by node
  std::vector<isthmus_placed> placed;
  std::vector<isthmus_device_figures> devices; // if there are several
};

struct isthmus_plan {
  isthmus::plan::PlanResult result;
  bool isGiven = false; // by a caller's schedule
  double seconds = 0;   // of the search
  std::optional<isthmus::ScheduleLayout> layout;
  std::vector<isthmus_block> blocks; // of the layout
};

namespace isthmus::c {

// Makes a new handle, which the caller owns.
template <typename Handle, typename... Args> isthmus_status give(Handle **to, Args &&...args) {
  *to = new Handle{std::forward<Args>(args)...};
  return ISTHMUS_OK;
}

// OK if the plan is one of the problem.
isthmus_status checkFits(const isthmus_problem &problem, const isthmus_plan &plan,
                         isthmus_error **error);

isthmus_status isNull(const char *name, isthmus_error **error);

// The library's form of a struct that a program passed: fields that the program's smaller struct
// lacks are taken from `all`. Nothing if its size is below `least`, the size of the first form, or
// above this library's.
template <typename Struct>
std::optional<Struct> grown(const Struct &given, size_t least, Struct all = {}) {
  if (given.size < least || given.size > sizeof(Struct))
    return std::nullopt;
  std::memcpy(&all, &given, given.size);
  all.size = sizeof all;
  return all;
}
// Sets a program's struct of `size` bytes to the part of `all` that it has.
template <typename Struct> void initialize(Struct *options, size_t size, const Struct &all) {
  if (!options || size < sizeof options->size)
    return;
  constexpr size_t kMost = 1 << 16; // no version of a struct is larger: functions refuse it
  if (size <= kMost) {
    std::memset(options, 0, size);
    std::memcpy(options, &all, std::min(size, sizeof all));
  }
  options->size = size;
}

isthmus_status wrongSize(const char *structure, size_t size, size_t least, size_t most,
                         isthmus_error **error);

} // namespace isthmus::c

// The first lines of a function: its arguments and result pointers may not be null.
#define ISTHMUS_NOT_NULL(pointer)                                                                  \
  do {                                                                                             \
    if (!(pointer))                                                                                \
      return isthmus::c::isNull(#pointer, error);                                                  \
  } while (false)
