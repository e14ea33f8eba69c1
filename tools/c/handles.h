// What is behind the handles of isthmus.h, and how its functions fail.
#pragma once

#include "ir/diagnostics.h"
#include "passes/plan/planner.h"
#include "passes/rewrite/problem.h"
#include "tools/c/isthmus.h"
#include <memory>
#include <new>

struct isthmus_error {
  std::string message;
};

struct isthmus_text {
  std::string data;
};

struct isthmus_graph {
  isthmus::Graph graph;
};

struct isthmus_problem {
  isthmus::GraphProblem of;                    // its `problem` alone, where there is no graph
  std::shared_ptr<const isthmus::Graph> graph; // that it was made of, an original; or null

  const isthmus::plan::Problem &problem() const { return of.problem; }
};

struct isthmus_plan {
  isthmus::plan::PlanResult result;
};

namespace isthmus::c {

isthmus_status fail(isthmus_status status, std::string message, isthmus_error **error);
isthmus_status fail(llvm::Error e, isthmus_error **error); // its kind says the status

// A bug of ours, on its way to the function that was called.
struct FoundBug {
  std::string text;
};
void expectBugs(); // from here on they are thrown

// Runs a function's body; nothing is thrown beyond it.
template <typename Body> isthmus_status guarded(isthmus_error **error, Body body) {
  if (error)
    *error = nullptr;
  expectBugs();
  try {
    return body();
  } catch (const FoundBug &bug) {
    return fail(ISTHMUS_INTERNAL, bug.text, error);
  } catch (const std::bad_alloc &) {
    return fail(ISTHMUS_INTERNAL, "there is no memory left", error);
  } catch (const std::exception &e) {
    return fail(ISTHMUS_INTERNAL, std::string("internal: ") + e.what(), error);
  }
}

// Gives a new handle to the caller.
template <typename Handle, typename... Args> isthmus_status give(Handle **to, Args &&...args) {
  *to = new Handle{std::forward<Args>(args)...};
  return ISTHMUS_OK;
}

isthmus_status isNull(const char *name, isthmus_error **error);

} // namespace isthmus::c

// A function's first line: what it is given, and where it puts what it makes, may not be null.
#define ISTHMUS_NOT_NULL(pointer)                                                                  \
  do {                                                                                             \
    if (!(pointer))                                                                                \
      return isthmus::c::isNull(#pointer, error);                                                  \
  } while (false)
