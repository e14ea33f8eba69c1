#include "passes/inspect/dot.h"

#include "passes/inspect/neighbourhood.h"
#include "passes/names.h"
#include "passes/rewrite/problem.h"
#include "tools/cli/compiled.h"
#include "tools/cli/devices.h"
#include "tools/cli/exit.h"
#include "tools/cli/model.h"
#include "tools/cli/output.h"
#include "tools/cli/unused_dims.h"
#include "tools/verbs/verbs.h"
#include "llvm/Support/FormatVariadic.h"
#include <variant>

namespace isthmus {
namespace {

// How modules are folded: not at all, to a depth that is chosen, or to one that is given.
struct NoFold {};
struct AutoFold {};
using Fold = std::variant<NoFold, AutoFold, unsigned>;

struct DotCall {
  ModelOptions model;
  Fold fold;
  std::string around; // names; empty: everything
  std::optional<unsigned> hops;
  std::string diff; // another model; empty: none
  std::string output;
  bool isFolded() const { return !std::holds_alternative<NoFold>(fold); }
};
constexpr unsigned kHops = 2;

llvm::Error checkDot(const DotCall &o) {
  if (llvm::Error e = checkOptions(o.model))
    return e;
  if (o.hops && o.around.empty())
    return usageError("--hops counts from the nodes that --around names, and that is not given");
  if (o.isFolded() && !o.around.empty())
    return usageError("--fold draws modules and --around draws nodes; give one of the two");
  if (o.isFolded() && !o.diff.empty())
    return usageError("--fold draws modules and --diff compares nodes; give one of the two");
  return checkPicturePath(o.output);
}

// Times are those of this machine's CPU, as `explain` estimates them.
llvm::Expected<std::string> foldedText(const Graph &g, const DotCall &o) {
  auto device = openDevice("cpu", deviceOptions(o.model));
  if (!device)
    return device.takeError();
  auto problem = extractProblem(g, (*device)->target());
  if (!problem)
    return problem.takeError();
  FoldOptions options;
  if (const auto *depth = std::get_if<unsigned>(&o.fold))
    options.depth = *depth;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    options.us.push_back(problem->problem.ops[problem->opOf(NodeId(i))].cost);
  return foldedDotText(g, options);
}

// `other` is the graph to compare with; null: none.
llvm::Expected<std::string> textOf(const Graph &g, const Graph *other, const DotCall &o) {
  constexpr size_t kReadable = 1000; // nodes
  if (o.isFolded())
    return foldedText(g, o);
  if (o.around.empty()) {
    if (g.numNodes() > kReadable)
      Console::get().note(llvm::formatv("the graph has {0} nodes: --fold=auto draws its modules, "
                                        "--around=NAME a part of it",
                                        g.numNodes())
                              .str());
    return dotText(g, {.other = other});
  }
  auto values = matchValues(g, o.around);
  if (!values)
    return values.takeError();
  DotOptions options;
  options.other = other;
  options.only = nodesAround(g, *values, o.hops.value_or(kHops));
  if (options.only.empty())
    return makeError("'{0}' names only graph inputs that no node reads; name others", o.around);
  return dotText(g, options);
}

// The graph of a file, differentiated if a loss is given and it is forward.
llvm::Expected<Graph> graphToDraw(const ModelOptions &model, bool mayBeStep, CommandPaths &paths,
                                  const GivenInputs &given) {
  auto g = loadModel(model, paths, given);
  if (!g)
    return g.takeError();
  auto options = compileOptions(model, {}, given);
  if (!options)
    return options.takeError();
  options->differentiates = !model.loss.empty();
  if (options->differentiates && !mayBeStep)
    if (llvm::Error e = checkDifferentiates(*g, model))
      return e;
  return prepared(std::move(*g), *options);
}

llvm::Error dot(const DotCall &o) {
  if (llvm::Error e = checkDot(o))
    return e;
  auto given = readInputs(o.model.inputs);
  if (!given)
    return given.takeError();
  CommandPaths paths;
  paths.reads("MODEL", o.model.model);
  paths.reads("--diff", o.diff);
  paths.writes("-o", o.output.empty() ? "-" : o.output);
  if (llvm::Error e = paths.check())
    return e;
  const bool compares = !o.diff.empty(); // --loss is for whichever is a forward graph
  ModelOptions model = o.model;
  if (compares)
    model.unusedDims = std::make_shared<UnusedDims>();
  auto g = graphToDraw(model, compares, paths, *given);
  if (!g)
    return g.takeError();
  std::optional<Graph> other;
  if (compares) {
    model.model = o.diff;
    auto loaded = graphToDraw(model, compares, paths, *given);
    if (!loaded)
      return loaded.takeError();
    other = std::move(*loaded);
    if (llvm::Error e = model.unusedDims->check())
      return e;
  }
  auto text = textOf(*g, other ? &*other : nullptr, o);
  if (!text)
    return text.takeError();
  return writePicture(*text, o.output);
}

// Takes "none", "auto" or a depth from 1 on.
void addFoldOption(CLI::App &app, Fold &fold) {
  app.add_option_function<std::string>(
         "--fold",
         [&fold](const std::string &text) {
           unsigned depth = 0;
           if (text == "none")
             fold = NoFold();
           else if (text == "auto")
             fold = AutoFold();
           else if (!llvm::StringRef(text).getAsInteger(10, depth) && depth > 0)
             fold = depth;
           else
             throw CLI::ValidationError(
                 "--fold", "expected auto, none or a depth from 1 on, got '" + text + "'");
         },
         "draws modules, by the prefixes of names, with counts, bytes and time: as deep as names "
         "of "
         "DEPTH parts, or auto for as deep as is readable; layers that are alike are drawn once")
      ->type_name("auto|DEPTH|none");
}

VerbBody setUpDot(CLI::App &app) {
  auto o = std::make_shared<DotCall>();
  addModelOptions(app, o->model);
  addFoldOption(app, o->fold);
  app.add_option("--around", o->around,
                 "draws only nodes near these: names with * and ?, separated by commas");
  app.add_option("--hops", o->hops,
                 "how near: how many reads away, in either direction; default: 2");
  addPathOption(app, "--diff", o->diff,
                "another model: frames nodes that it lacks or has otherwise, and draws those that "
                "it alone has");
  addPathOption(app, "-o,--output", o->output, "G.dot or G.svg; default: DOT on standard output");
  return [o] { return dot(*o); };
}

} // namespace

const Verb kDot = {"dot", "draws a graph",
                   "isthmus dot mlp.isth --loss=mean -o mlp.svg\n"
                   "  isthmus dot gpt2.isth --loss=cross_entropy --fold=auto -o gpt2.svg",
                   setUpDot};

} // namespace isthmus
