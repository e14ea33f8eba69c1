#include "passes/chunk/request.h"

#include "ir/parts.h"
#include "ir/spelling.h"
#include "passes/chunk/batch_axes.h"
#include "passes/names.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"
#include <numeric>

namespace isthmus {

llvm::Expected<ChunkRequest> parseChunkRequest(llvm::StringRef text) {
  auto expected = [&](llvm::StringRef what) {
    return makeError("expected {0}, as in '%logits:axis=0,chunks=8', got '{1}'", what, text);
  };
  auto [name, rest] = text.rsplit(':');
  ChunkRequest r;
  r.value = name.str();
  if (!r.value.empty() && r.value.front() == '%')
    r.value.erase(0, 1);
  if (r.value.empty() || rest.empty())
    return expected("a value's name, a colon, and chunks=N");
  llvm::SmallVector<llvm::StringRef, 2> items;
  rest.split(items, ',');
  for (llvm::StringRef item : items) {
    auto [key, number] = item.split('=');
    if (key == "rounding") {
      if (number != "in-place" && number != "beside")
        return expected("rounding=in-place or rounding=beside");
      r.rounding = number == "beside" ? Rounding::Beside : Rounding::InPlace;
      continue;
    }
    int64_t n = 0;
    if (number.getAsInteger(10, n) || n < 0)
      return expected("axis=N or chunks=N, with N from 0 on");
    if (key == "axis" && n <= UINT32_MAX)
      r.axis = uint32_t(n);
    else if (key == "chunks")
      r.chunks = n;
    else
      return expected("axis=N or chunks=N");
  }
  if (r.chunks < 2)
    return expected("two chunks or more");
  return r;
}

static llvm::Expected<Graph> withRequest(const Graph &g, const ChunkRequest &r) {
  const std::string name = "'" + valueText(r.value) + "'";
  const ValueId v = valueNamed(g, r.value);
  if (!v)
    return makeError("no value is called {0}, which was to be cut into chunks", name);
  const NodeId def = g.value(v).def;
  if (!def || Graph::isReplaced(def) || g.node(def).isStandIn())
    return makeError("{0} was to be cut into chunks, but {1}; name a value that a node makes", name,
                     def ? "it is in chunks already" : "it is a graph input");
  const Type &type = g.type(v);
  if (r.axis >= type.dims.size())
    return makeError("{0} is {1}: it has no axis {2} to cut", name, type.str(), r.axis);
  const auto region = growRegion(regionGraphOf(g), v, {r.axis});
  if (!region)
    return makeError("{0} cannot be cut along axis {1}: a node that makes or reads it needs all of "
                     "that axis, or it is an output; `isthmus ops` tells the factors of each op",
                     name, r.axis);
  if (r.chunks > region->units)
    return makeError("{0} can be cut along axis {1} into {2} chunks at most, got {3}", name, r.axis,
                     region->units, r.chunks);
  return chunked(g, *region, r.chunks, {}, r.rounding);
}

llvm::Expected<Graph> chunkedAsAsked(const Graph &g, llvm::ArrayRef<ChunkRequest> requests) {
  llvm::Expected<Graph> now = withUnreducedLosses(g);
  for (const ChunkRequest &r : requests) {
    now = withRequest(*now, r);
    if (!now)
      break;
  }
  return now;
}

int64_t examplesOf(const Graph &g, llvm::ArrayRef<BatchRequest> batch) {
  auto axes = batchAxes(withUnreducedLosses(g), batch);
  if (!axes)
    llvm::consumeError(axes.takeError()); // told where the step is divided
  return axes ? axes->examples : 0;
}

// " (axis 0 of %x and %labels)"
static std::string axesText(const Graph &g, const BatchAxes &axes) {
  std::string text;
  for (size_t i = 0; i < axes.ofInputs.size(); ++i)
    if (const auto &cut = axes.ofInputs[i])
      text += (text.empty() ? " (axis " : ", axis ") + std::to_string(cut->axis) + " of " +
              valueText(g.valueName(g.inputs()[i].value));
  return text.empty() ? text : text + ")";
}

std::optional<Remark> batchRemark(const Graph &g, llvm::ArrayRef<BatchRequest> batch) {
  auto axes = batchAxes(withUnreducedLosses(g), batch);
  if (!axes)
    llvm::consumeError(axes.takeError()); // told where the step is divided
  if (!axes || !axes->found)
    return std::nullopt;
  const std::string name = valueText(g.valueName(g.inputs()[*axes->found].value));
  return Remark("the batch has " + std::to_string(axes->examples) + " examples" +
                    axesText(g, *axes) + ": some nodes need all of axis 0 of " + name,
                {"batch", name + ":axis=0", "divide that axis none the less"});
}

static llvm::Error tooFew(const Graph &g, const BatchAxes &axes, int64_t number) {
  return addRemedy(makeError("micro-batches are parts of the batch, which has {0} examples{1}, so "
                             "there can be {0} at most, got {2}",
                             axes.examples, axesText(g, axes), number),
                   {"batch", "%NAME:axis=N", "say which axis of an input the examples are on"});
}

// By value: how it is cut between examples, as it follows from the inputs. A node that needs the
// whole batch, such as a norm, keeps the axis where a result has its operand's sizes. None for
// values that depend on no example, or have none.
static std::vector<std::optional<AxisCut>>
cutsOfExamples(const Graph &g, llvm::ArrayRef<std::optional<AxisCut>> ofInputs) {
  std::vector<std::optional<AxisCut>> cuts(g.numValues());
  for (size_t i = 0; i < ofInputs.size(); ++i)
    cuts[g.inputs()[i].value.index] = ofInputs[i];
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.isStandIn())
      continue;
    const auto first =
        llvm::find_if(n.operands, [&](ValueId v) { return cuts[v.index].has_value(); });
    if (first == n.operands.end())
      continue;
    const AxisCut cut = *cuts[first->index];
    const auto ofCall =
        cutsOf(g.call(NodeId(i)), {CallPlace::Operand, size_t(first - n.operands.begin())}, cut);
    for (uint32_t r = 0; r < n.numResults; ++r)
      if (ofCall && ofCall->results[r])
        cuts[n.result(r).index] = ofCall->results[r]->cut;
      else if (!ofCall && g.type(n.result(r)).dims == g.type(*first).dims)
        cuts[n.result(r).index] = cut;
  }
  return cuts;
}

// Names the first node that needs all examples at once.
static llvm::Error nothingIsCut(const Graph &g, const BatchAxes &axes, int64_t number) {
  const std::vector<std::optional<AxisCut>> cuts = cutsOfExamples(g, axes.ofInputs);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    if (n.isStandIn() || n.op->is(kView))
      continue;
    for (size_t k = 0; k < n.operands.size(); ++k)
      if (const auto &cut = cuts[n.operands[k].index];
          cut && !cutsOf(g.call(NodeId(i)), {CallPlace::Operand, k}, *cut))
        return locate(makeError("the step cannot run in {0} micro-batches: '{1}' ({2}) needs the "
                                "whole batch, and no other node can run on a part of it",
                                number, g.nodeName(NodeId(i)), n.op->name),
                      g.whereIs(NodeId(i)));
  }
  return makeError("the step cannot run in {0} micro-batches: no node can run on a part of the "
                   "batch{1}",
                   number, axesText(g, axes));
}

// Whether chunks that are cut at so many places are the parts of an axis.
static bool areParts(int64_t length, int64_t number, int64_t units) {
  for (int64_t k = 0; k < number; ++k)
    if (beginOfPart(units, number, k) * (length / units) != beginOfPart(length, number, k))
      return false;
  return true;
}

llvm::Expected<Graph> inMicroBatches(const Graph &given, int64_t number,
                                     llvm::ArrayRef<BatchRequest> requests,
                                     llvm::ArrayRef<int64_t> only) {
  Graph g = withUnreducedLosses(given);
  auto axes = batchAxes(g, requests); // those of chunked graphs, whose inputs are the same
  if (!axes)
    return axes.takeError();
  if (axes->examples < number)
    return tooFew(g, *axes, number);
  const int64_t batch = axes->examples;
  RegionOptions all;
  all.leastShare = 0;
  all.mostOps = SIZE_MAX;
  bool isCut = false;
  all.unevenParts = batch % number == 0 ? 0 : number;
  llvm::StringSet<> tried;
  std::vector<std::optional<AxisCut>> cuts = cutsOfExamples(g, axes->ofInputs);
  RegionGraph regions = regionGraphOf(g);
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const Node &n = g.node(NodeId(i));
    const ValueId v = n.firstResult;
    const std::optional<AxisCut> cut = cuts[v.index];
    const int64_t examples = cut ? cut->innerOf(g.type(v)) : 0;
    if (n.isStandIn() || examples == 0 || examples % batch != 0 ||
        !tried.insert(g.valueName(v)).second)
      continue;
    auto region = growRegion(regions, v, *cut, all);
    if (!region)
      continue;
    region->units = std::gcd(region->units, batch); // whole examples
    if (region->units < number || !llvm::all_of(region->parted, [&](int64_t length) {
          return areParts(length, number, region->units);
        }))
      continue;
    g = chunked(g, *region, number, only);
    isCut = true;
    cuts = cutsOfExamples(g, axes->ofInputs);
    regions = regionGraphOf(g);
    i = uint32_t(-1); // other nodes have other places now
  }
  if (!isCut)
    return nothingIsCut(g, *axes, number);
  return g;
}

} // namespace isthmus
