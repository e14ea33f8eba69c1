#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/compile/compile.h"
#include "passes/inspect/dot.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tools/c/handles.h"

using namespace isthmus;
using namespace isthmus::c;

static isthmus_status given(llvm::Expected<Graph> g, isthmus_graph **graph, isthmus_error **error) {
  if (!g)
    return fail(g.takeError(), error);
  return give(graph, std::move(*g));
}

isthmus_status isthmus_graph_from_text(const char *text, size_t length, isthmus_graph **graph,
                                       isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(text);
    return given(parseGraph(llvm::StringRef(text, length), "the text"), graph, error);
  });
}

isthmus_status isthmus_graph_load(const char *path, isthmus_graph **graph, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(path);
    return given(loadIsth(path), graph, error);
  });
}

void isthmus_graph_free(isthmus_graph *graph) { delete graph; }

isthmus_status isthmus_graph_differentiate(const isthmus_graph *graph, const char *loss,
                                           const char *wrt, isthmus_graph **step,
                                           isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(step);
    *step = nullptr;
    ISTHMUS_NOT_NULL(graph);
    CompileOptions o;
    if (loss) {
      auto parsed = parseLoss(loss);
      if (!parsed)
        return fail(parsed.takeError(), error);
      o.step.loss = std::move(*parsed);
    }
    if (wrt)
      o.step.wrt = {Wrt::Kind::Named, wrt};
    return given(prepared(graph->graph, o), step, error);
  });
}

isthmus_status isthmus_problem_of_graph(const isthmus_graph *graph, isthmus_problem **problem,
                                        isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(graph);
    auto original = std::make_shared<const Graph>(withoutDeadNodes(originalOf(graph->graph)));
    auto p = extractProblem(*original, Target());
    if (!p)
      return fail(p.takeError(), error);
    return give(problem, std::move(*p), std::move(original));
  });
}

isthmus_status isthmus_graph_rematerialize(const isthmus_problem *problem, const isthmus_plan *plan,
                                           isthmus_graph **graph, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(plan);
    if (!problem->graph)
      return fail(ISTHMUS_BAD_CALL, "the problem was not made of a graph", error);
    const plan::Schedule &s = plan->result.schedule;
    if (plan::Evaluation e = plan::evaluate(problem->problem(), s); !e.error.empty())
      return fail(ISTHMUS_BAD_CALL, "the plan is of another problem: " + e.error, error);
    return given(rematerialize(*problem->graph, problem->of, s), graph, error);
  });
}

isthmus_status isthmus_graph_print(const isthmus_graph *graph, isthmus_form form,
                                   isthmus_text **text, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    *text = nullptr;
    ISTHMUS_NOT_NULL(graph);
    switch (form) {
    case ISTHMUS_TEXT:
      return give(text, graphText(graph->graph));
    case ISTHMUS_DOT:
      return give(text, dotText(graph->graph));
    }
    return fail(ISTHMUS_BAD_CALL, "'form' is none of isthmus_form", error);
  });
}
