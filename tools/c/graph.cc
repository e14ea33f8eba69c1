#include "ir/onnx/export/exporter.h"
#include "ir/onnx/import.h"
#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include "passes/compile/compile.h"
#include "passes/inspect/dot.h"
#include "passes/plan/sizes.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tools/c/handles.h"
#include "tools/cli/default_input.h"

using namespace isthmus;
using namespace isthmus::c;

static isthmus_status given(llvm::Expected<Graph> g, isthmus_graph **graph, isthmus_error **error,
                            std::string notes = {}) {
  if (!g)
    return fail(g.takeError(), error);
  if (llvm::Error e = verify(*g))
    return fail(std::move(e), error);
  return give(graph, std::move(*g), std::move(notes));
}

isthmus_status isthmus_graph_from_text(const char *text, size_t length, isthmus_graph **graph,
                                       isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(text);
    if (isthmus_status s = checkCount("length", length, PTRDIFF_MAX, error))
      return s;
    return given(parseGraph(llvm::StringRef(text, length), "the text"), graph, error);
  });
}

// "batch=32,length=128"
static llvm::Expected<std::map<std::string, int64_t>> sizesOf(llvm::StringRef text) {
  std::map<std::string, int64_t> sizes;
  llvm::SmallVector<llvm::StringRef> items;
  text.split(items, ',', -1, /*KeepEmpty=*/false);
  for (llvm::StringRef item : items) {
    auto [name, size] = item.trim().rsplit('=');
    int64_t value = 0;
    if (name.empty() || size.getAsInteger(10, value) || value <= 0)
      return makeError("expected sizes as NAME=SIZE with commas between, such as "
                       "\"batch=32,length=128\", found '{0}'",
                       item);
    sizes[name.str()] = value;
  }
  return sizes;
}

static llvm::Expected<Graph> loadOnnx(const std::string &path, const char *sizes,
                                      std::string &notes) {
  OnnxOptions options;
  options.note = [&](const Remark &r) { notes += r.text + "\n"; };
  if (sizes) {
    auto dims = sizesOf(sizes);
    if (!dims)
      return dims.takeError();
    options.dims = std::move(*dims);
  }
  options.fold = foldWithPlainKernels;
  auto g = importOnnx(path, options);
  if (!g)
    return g.takeError();
  return withoutDeadNodes(*g);
}

static llvm::Error neitherSuffix(llvm::StringRef path) {
  return makeError("'{0}' is neither an .onnx nor an .isth file; the name tells the format", path);
}

isthmus_status isthmus_graph_load(const char *path, const char *sizes, isthmus_graph **graph,
                                  isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(path);
    const llvm::StringRef name = path;
    if (name.endswith(".onnx")) {
      std::string notes;
      auto g = loadOnnx(path, sizes, notes);
      return given(std::move(g), graph, error, std::move(notes));
    }
    if (!name.endswith(".isth"))
      return fail(neitherSuffix(name), error);
    if (sizes)
      return fail(ISTHMUS_BAD_CALL, "the sizes of an .isth file are constant: none can be bound",
                  error);
    return given(loadIsth(name), graph, error);
  });
}

static llvm::Error saved(const Graph &g, llvm::StringRef path) {
  if (path.endswith(".isth"))
    return saveIsth(g, path);
  if (!path.endswith(".onnx"))
    return neitherSuffix(path);
  OnnxExportOptions options;
  options.draw = [&](const Input &input) { return defaultInput(g, input, /*seed=*/0); };
  return saveOnnx(g, path, options);
}

isthmus_status isthmus_graph_save(const isthmus_graph *graph, const char *path,
                                  isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    ISTHMUS_NOT_NULL(path);
    llvm::Error e = saved(graph->graph, path);
    return e ? fail(std::move(e), error) : ISTHMUS_OK;
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
    if (graph->graph.hasBackward())
      return fail(ISTHMUS_BAD_INPUT, "the graph is differentiated already", error);
    CompileOptions o;
    o.step.keepsOutputs = true; // as the verb `grad` does
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

// Sets the workspaces of the ops to those of the machine.
static llvm::Error setWorkspaces(plan::Problem &p, const isthmus_target &target) {
  if (!target.workspace)
    return llvm::Error::success();
  if (target.num_ops != p.ops.size())
    return makeError("the target has workspaces of {0} ops, and the problem of the graph has {1}",
                     target.num_ops, p.ops.size());
  plan::SizeLimit sizes(p);
  for (size_t i = 0; i < p.ops.size(); ++i) {
    plan::Op &op = p.ops[i];
    op.workspace = target.workspace[i];
    if (op.workspace < 0 || !sizes.allows(op))
      return makeError("the target's workspace of op {0}, '{1}', is {2} bytes: expected 0 or more, "
                       "and no more than 2^62 with all tensors",
                       i, op.name, op.workspace);
    if (op.workspace > 0 && (op.isPinned || op.isView()))
      return makeError("the target has a workspace for op {0}, '{1}', which is {2} and runs no "
                       "kernel",
                       i, op.name, op.isPinned ? "an input" : "a view");
  }
  return llvm::Error::success();
}

isthmus_status isthmus_problem_of_graph(const isthmus_graph *graph, const isthmus_target *target,
                                        isthmus_problem **problem, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    *problem = nullptr;
    ISTHMUS_NOT_NULL(graph);
    auto original = std::make_shared<const Graph>(withoutDeadNodes(originalOf(graph->graph)));
    auto p = extractProblem(*original, Target());
    if (!p)
      return fail(p.takeError(), error);
    if (target) {
      if (target->size != sizeof *target)
        return wrongSize("isthmus_target", target->size, sizeof *target, sizeof *target, error);
      if (llvm::Error e = setWorkspaces(p->problem, *target))
        return fail(std::move(e), error);
    }
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
    if (isthmus_status status = checkFits(*problem, *plan, error))
      return status;
    return given(rematerialize(*problem->graph, problem->of, plan->result.schedule), graph, error);
  });
}

isthmus_status isthmus_graph_print(const isthmus_graph *graph, int32_t form, isthmus_text **text,
                                   isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(text);
    *text = nullptr;
    ISTHMUS_NOT_NULL(graph);
    switch (form) {
    case ISTHMUS_TEXT:
      return give(text, graphText(graph->graph));
    case ISTHMUS_DOT:
      return give(text, dotText(graph->graph));
    case ISTHMUS_NOTES:
      return give(text, graph->notes);
    }
    return fail(ISTHMUS_BAD_CALL,
                llvm::formatv("'form' is {0}, which is none of isthmus_form", form).str(), error);
  });
}
