// Checks rewritten training graphs of first and second order.

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tests/random/check_graph.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/schedules.h"
#include "tests/testing/interpret.h"
#include <cmath>

namespace isthmus {

using llvm::toString;

// Marks all sums as contractions, whether they are or not: the iteration gives finite numbers in
// both cases.
static Graph withMarkedSums(Graph g) {
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    if (Node &n = g.editNode(NodeId(i)); n.op->name == "add")
      n.marks.push_back("contraction");
  return g;
}

// Each rewritten graph must give the bits of `g` with the predicted peak, and `g` must be
// recoverable from it. Some have transfers and encoded operands; those with inverses must give the
// interpreter's bits.
std::string GraphChecker::rewritesOf(const Graph &g, const NamedTensors &inputs, uint64_t seed,
                                     RewriteCounts &counts) {
  const bool useFast = seed % 4 == 3;
  Device &device = useFast ? runner_.fast() : runner_.plain();
  auto want = useFast ? runner_.execute(g, device, inputs) : runner_.reference(g, inputs);
  if (!want)
    return toString(want.takeError());
  auto p = extractProblem(g, device.target());
  if (!p)
    return toString(p.takeError());
  auto schedules = schedulesOf(g, *p, seed);
  if (!schedules)
    return toString(schedules.takeError());
  Ways ways{.fetch = true, .encode = true};
  auto exact = extractProblem(g, device.target(), ways);
  ways = {.encode = true, .invert = true}; // the interpreter does not run transfers
  ways.iterations = Ways::kLeastIterations + seed % 2;
  const Graph marked = withMarkedSums(g);
  auto all = extractProblem(marked, runner_.plain().target(), ways);
  if (!exact || !all)
    return toString(llvm::joinErrors(exact.takeError(), all.takeError()));
  for (auto &[problem, list] :
       {std::pair(&*p, *schedules), {&*exact, schedulesOfAllWays(*exact, seed)}})
    for (auto &[what, schedule] : list)
      if (std::string why = rewriteOf(g, *problem, schedule, device, inputs, &*want, counts);
          !why.empty())
        return what + ": " + why;
  for (auto &[what, schedule] : schedulesOfAllWays(*all, seed))
    if (std::string why =
            rewriteOf(marked, *all, schedule, runner_.plain(), inputs, nullptr, counts);
        !why.empty())
      return what + ", inverses too: " + why;
  return "";
}

std::string GraphChecker::rewriteOf(const Graph &g, const GraphProblem &p,
                                    const plan::Schedule &schedule, Device &device,
                                    const NamedTensors &inputs, const std::vector<Tensor> *want,
                                    RewriteCounts &counts) {
  plan::Evaluation predicted = plan::evaluate(p.problem, schedule);
  if (!predicted.error.empty())
    return predicted.error;
  Graph rewritten = rematerialize(g, p, schedule);
  if (llvm::Error e = verify(rewritten))
    return toString(std::move(e));
  auto got = runner_.execute(rewritten, device, inputs, predicted.peakBytes);
  if (!got)
    return toString(got.takeError());
  // Inverses round, and some of them strongly, so the expected results are the interpreter's on the
  // same graph.
  auto said = want ? *want : runner_.reference(rewritten, inputs);
  if (!said)
    return toString(said.takeError());
  if (std::string d = bitsDiffer(rewritten, *got, *said); !d.empty())
    return d;
  Graph needed = g; // a plan omits what no output needs
  if (!rewritten.loss)
    needed.loss = {};
  if (!equalGraphs(withoutDeadNodes(originalOf(rewritten)), withoutDeadNodes(needed), nullptr))
    return "the original of the rewritten graph is not the graph";
  // A problem of the rewritten graph, in its own order, must have the predicted peak and cost.
  auto asItIs = extractProblem(rewritten, device.target());
  if (!asItIs)
    return toString(asItIs.takeError());
  const plan::Evaluation again =
      plan::evaluate(asItIs->problem, plan::sourceOrder(asItIs->problem));
  if (again.peakBytes != predicted.peakBytes || std::abs(again.cost - predicted.cost) > 1e-6)
    return "the rewritten graph is to take " + std::to_string(again.peakBytes) + " bytes and " +
           std::to_string(again.cost) + " us, and was predicted to take " +
           std::to_string(predicted.peakBytes) + " and " + std::to_string(predicted.cost);
  ++counts.rewrites;
  for (plan::OpIndex op : schedule)
    counts.fixedPoints += bool(p.derivationOf(op).firstOfRun);
  counts.clones += rewritten.countNodes([](const Node &n) { return n.isClone(); });
  counts.transfers += rewritten.countNodes([](const Node &n) { return n.op->is(kTransfer); });
  counts.encodings += rewritten.countNodes([](const Node &n) { return n.is(StandIn::Encoding); });
  counts.inverses += rewritten.countNodes(
      [](const Node &n) { return n.is(StandIn::Inverse) || n.is(StandIn::Helper); });
  return "";
}

std::string GraphChecker::rewrites(const Case &c) {
  return rewritesOf(c.training, c.inputs, c.seed, counts.firstOrder);
}

// --- Second order

std::string GraphChecker::twice(const Case &c) {
  // For some graphs only the newest gradients are outputs, so that older ones may be recomputed.
  Graph first = c.training;
  if (c.seed / 8 % 2)
    setOutputs(first, gradientOutputs(c.training));
  auto second = secondOrder(first);
  if (!second)
    return "no second gradient: " + toString(second.takeError());
  if (llvm::Error e = verify(*second))
    return toString(std::move(e));
  const NamedTensors inputs = drawInputs(*second, c.seed);
  ++counts.twice;
  if (std::string d = again(first, *second, inputs, c.seed); !d.empty())
    return d;
  Graph g = *second;
  if (c.seed / 4 % 2)
    setOutputs(g, second->outputs().take_back(gradientOutputs(first).size()));
  if (c.seed % 2)
    g = withoutDeadNodes(g);
  counts.twiceNodes += g.numNodes();
  return rewritesOf(g, inputs, c.seed, counts.secondOrder);
}

// The rewritten `first` must have the second gradients that `first` itself has: those of `second`.
// It is printed and parsed, as between `isthmus opt` and `isthmus grad`.
std::string GraphChecker::again(const Graph &first, const Graph &second, const NamedTensors &inputs,
                                uint64_t seed) {
  auto want = runner_.reference(second, inputs);
  if (!want)
    return toString(want.takeError());
  if (std::string d = notFinite(second, *want); !d.empty())
    return d;
  auto p = extractProblem(first, runner_.plain().target());
  if (!p)
    return toString(p.takeError());
  auto schedules = schedulesOf(first, *p, seed + 1);
  if (!schedules)
    return toString(schedules.takeError());
  for (auto &[name, schedule] : *schedules) {
    const std::string what = "second gradients after " + name + ": ";
    Graph rewritten = rematerialize(first, *p, schedule);
    auto parsed = parseGraph(graphText(rewritten), "rewritten.isth");
    if (!parsed)
      return what + toString(parsed.takeError());
    std::string reason;
    if (!equalGraphs(rewritten, *parsed, &reason))
      return what + "printed and parsed the rewritten graph is another: " + reason;
    auto g = secondOrder(originalOf(*parsed));
    if (!g)
      return what + toString(g.takeError());
    auto got = runner_.reference(*g, inputs);
    if (!got)
      return what + toString(got.takeError());
    if (std::string d = bitsDiffer(second, *got, *want); !d.empty())
      return what + d;
    ++counts.again;
  }
  return "";
}

} // namespace isthmus
