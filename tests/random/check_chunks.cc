// Checks training graphs whose regions run in chunks.

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/chunk/chunk.h"
#include "ir/rounded_values.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "tests/random/check_graph.h"
#include "tests/random/joint_graphs.h"
#include "tests/random/schedules.h"

namespace isthmus {

using llvm::toString;

namespace {

// The regions of a graph that grow from each value, along each of its axes and parts of them.
std::vector<ChunkRegion> regionsOf(const Graph &g, uint64_t seed) {
  const RegionGraph regions = regionGraphOf(g);
  RegionOptions o;
  o.leastShare = seed % 3 == 0 ? 1e-9 : seed % 3 == 1 ? .3 : 2; // all values, large ones, one
  std::vector<ChunkRegion> found;
  for (uint32_t i = 0; i < g.numNodes(); ++i)
    for (uint32_t r = 0; r < g.node(NodeId(i)).numResults; ++r)
      for (const AxisCut cut : cutsToGrowFrom(regions, g.node(NodeId(i)).result(r).index))
        if (auto region = growRegion(regions, g.node(NodeId(i)).result(r), cut, o))
          found.push_back(std::move(*region));
  return found;
}

// By the narrowest type of the outputs.
double toleranceOf(const Graph &g) {
  double tolerance = 1e-8;
  for (ValueId v : g.outputs())
    if (const DType type = g.type(v).dtype; isFloat(type) && type != DType::F64)
      tolerance = std::max(tolerance, dtypeBytes(type) == 2 ? 6e-2 : 1e-2);
  return tolerance;
}

// Differences at outputs that depend on sums whose parts were rounded, and bits of all others.
std::string differs(const Graph &g, llvm::ArrayRef<Tensor> got, llvm::ArrayRef<Tensor> want) {
  const llvm::BitVector rounds = roundedValues(g);
  Graph exact = g, rounded = g;
  exact.clearOutputs();
  rounded.clearOutputs();
  std::vector<Tensor> gotExact, wantExact, gotRounded, wantRounded;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const ValueId v = g.outputs()[i];
    const bool isRounded = rounds.test(v.index);
    (isRounded ? rounded : exact).addOutput(v);
    (isRounded ? gotRounded : gotExact).push_back(got[i]);
    (isRounded ? wantRounded : wantExact).push_back(want[i]);
  }
  if (std::string d = bitsDiffer(exact, gotExact, wantExact); !d.empty())
    return d;
  return valuesDiffer(rounded, gotRounded, wantRounded, toleranceOf(g));
}

} // namespace

// A graph in chunks is legal, reads back as it was printed, gives the bits of the whole where no
// sum is rounded in parts, and the graph can be recovered from it; so after a plan, too.
std::string GraphChecker::chunks(const Case &c) {
  const Graph whole = withUnreducedLosses(c.training);
  auto want = runner_.reference(whole, c.inputs);
  auto before = runner_.reference(c.training, c.inputs);
  if (!want || !before)
    return errorsOf(want, before);
  if (std::string d = bitsDiffer(whole, *want, *before); !d.empty())
    return "unreduced losses: " + d;
  std::vector<ChunkRegion> regions = regionsOf(whole, c.seed);
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < std::min(kMost, regions.size()); ++i) {
    const ChunkRegion &region = regions[(c.seed + i * 7) % regions.size()];
    const int64_t most = std::min<int64_t>(region.units, 5),
                  n = 2 + int64_t(c.seed + i) % (most - 1);
    const Graph g = chunked(whole, region, n);
    const std::string what = "from '" + whole.nodeName(region.nodes[0]).str() + "' in " +
                             std::to_string(n) + " chunks: ";
    if (std::string d = inChunks(whole, g, c, *want); !d.empty())
      return what + d;
    std::vector<ChunkRegion> more = regionsOf(g, c.seed + 1);
    if (i > 0 || more.empty())
      continue;
    const ChunkRegion &second = more[c.seed % more.size()];
    if (std::string d = inChunks(whole, chunked(g, second, 2), c, *want); !d.empty())
      return what + "and from '" + g.nodeName(second.nodes[0]).str() + "' in 2: " + d;
  }
  return "";
}

std::string GraphChecker::inChunks(const Graph &whole, const Graph &g, const Case &c,
                                   const std::vector<Tensor> &want) {
  if (llvm::Error e = verify(g))
    return toString(std::move(e)) + "\n" + graphText(g);
  std::string reason;
  auto parsed = parseGraph(graphText(g), "chunked.isth");
  if (!parsed)
    return toString(parsed.takeError());
  if (!equalGraphs(g, *parsed, &reason))
    return "printed and parsed it is another: " + reason;
  if (!equalGraphs(originalOf(g), whole, &reason))
    return "its original is not the graph: " + reason;
  auto got = runner_.execute(g, runner_.plain(), c.inputs);
  if (!got)
    return toString(got.takeError());
  if (std::string d = differs(g, *got, want); !d.empty())
    return d;
  ++counts.chunked;
  auto p = extractProblem(g, runner_.plain().target());
  if (!p)
    return toString(p.takeError());
  for (auto &[what, schedule] : schedulesOfAllWays(*p, c.seed)) {
    const Graph planned = rematerialize(g, *p, schedule);
    if (llvm::Error e = verify(planned))
      return what + ": " + toString(std::move(e));
    auto out = runner_.execute(planned, runner_.plain(), c.inputs,
                               plan::evaluate(p->problem, schedule).peakBytes);
    if (!out)
      return what + ": " + toString(out.takeError());
    if (std::string d = bitsDiffer(planned, *out, *got); !d.empty())
      return what + ": " + d;
    if (!equalGraphs(withoutDeadNodes(originalOf(planned)), withoutDeadNodes(whole), &reason))
      return what + ": its original is not the graph: " + reason;
  }
  return "";
}

} // namespace isthmus
