#include "ir/default_input.h"
#include "ir/onnx/export/exporter.h"
#include "ir/onnx/import.h"
#include "ir/text/isth_file.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "kernels/fold.h"
#include "passes/compile/compile.h"
#include "passes/inspect/dot.h"
#include "passes/simplify/dce.h"
#include "tools/c/handles.h"

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

// The options for an ONNX model.
static llvm::Expected<OnnxOptions> onnxOptions(const isthmus_load_options &given,
                                               std::string &notes) {
  OnnxOptions o;
  o.note = [&](const Remark &r) { notes += r.text + "\n"; };
  o.fold = foldWithPlainKernels;
  o.outside = given.allow_outside ? Outside::Allowed : Outside::Refused;
  for (const isthmus_dim &dim : llvm::makeArrayRef(given.dims, given.num_dims)) {
    if (!dim.name || dim.size <= 0)
      return makeError("expected sizes with a name, from 1 on; got {0} for '{1}'", dim.size,
                       dim.name ? dim.name : "");
    o.dims[dim.name] = dim.size;
  }
  for (const isthmus_tie &tie : llvm::makeArrayRef(given.ties, given.num_ties)) {
    if (!tie.a || !tie.b)
      return makeError("expected ties with two names each");
    o.ties.push_back({tie.a, tie.b});
  }
  o.untie = parseNameList(given.untie ? given.untie : "");
  o.learn = parseNameList(given.learn ? given.learn : "");
  return o;
}

static llvm::Expected<Graph> loadOnnx(const std::string &path, const isthmus_load_options &given,
                                      std::string &notes) {
  auto options = onnxOptions(given, notes);
  if (!options)
    return options.takeError();
  auto g = importOnnx(path, *options);
  if (!g)
    return g.takeError();
  return withoutDeadNodes(*g);
}

static llvm::Error neitherSuffix(llvm::StringRef path) {
  return makeError("'{0}' is neither an .onnx nor an .isth file; the name tells the format", path);
}

static isthmus_load_options loadDefaults() {
  isthmus_load_options all = {};
  all.size = sizeof all;
  return all;
}

void isthmus_load_options_init(isthmus_load_options *options, size_t size) {
  initialize(options, size, loadDefaults());
}

// Whether options are given that an .isth file has no use for.
static bool concernsOnnx(const isthmus_load_options &o) {
  return o.num_dims || o.num_ties || o.untie || o.learn;
}

static isthmus_status checkLoadOptions(const isthmus_load_options &o, isthmus_error **error) {
  if (o.size != sizeof o)
    return wrongSize("isthmus_load_options", o.size, sizeof o, sizeof o, error);
  if (o.num_dims)
    ISTHMUS_NOT_NULL(o.dims);
  if (o.num_ties)
    ISTHMUS_NOT_NULL(o.ties);
  if (isthmus_status s = checkCount("num_dims", o.num_dims, kMostItems, error))
    return s;
  return checkCount("num_ties", o.num_ties, kMostItems, error);
}

isthmus_status isthmus_graph_load(const char *path, const isthmus_load_options *options,
                                  isthmus_graph **graph, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = nullptr;
    ISTHMUS_NOT_NULL(path);
    const isthmus_load_options all = loadDefaults(), &o = options ? *options : all;
    if (isthmus_status s = checkLoadOptions(o, error))
      return s;
    const llvm::StringRef name = path;
    if (name.endswith(".onnx")) {
      std::string notes;
      auto g = loadOnnx(path, o, notes);
      return given(std::move(g), graph, error, std::move(notes));
    }
    if (!name.endswith(".isth"))
      return fail(neitherSuffix(name), error);
    if (concernsOnnx(o))
      return fail(ISTHMUS_BAD_CALL,
                  "a file .isth leaves nothing open: its sizes are constant, and every parameter "
                  "has one name",
                  error);
    return given(loadIsth(name, o.allow_outside ? Outside::Allowed : Outside::Refused), graph,
                 error);
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
