// Regions of other frameworks' graphs, and the search for those that run in chunks.

#include "ir/factors.h"
#include "ir/rank.h"
#include "passes/chunk/chunk_search.h"
#include "passes/chunk/region_graph.h"
#include "tools/c/search.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/FormatVariadic.h"

using namespace isthmus;
using namespace isthmus::c;

struct isthmus_region_graph {
  RegionGraph graph;
  struct Cutting { // by op
    Factors factors;
    bool isReshape = false;
  };
  std::vector<Cutting> cutting;
};

struct isthmus_region {
  GrownRegion grown;
  std::vector<isthmus_cut> cuts;
  std::vector<isthmus_total> totals;
};

struct isthmus_chunk_search {
  ChunkSearch search;
};

namespace {

// An op's operands and results, as far as cuts depend on them.
OpCall callOf(const isthmus_region_graph &g, uint32_t id) {
  OpCall call;
  for (uint32_t v : g.graph.ops[id].operands)
    call.operands.push_back({DType::F32, g.graph.values[v].dims});
  for (uint32_t v : g.graph.ops[id].results)
    call.results.push_back({DType::F32, g.graph.values[v].dims});
  return call;
}

std::optional<CallCuts> cutsOfOp(const isthmus_region_graph &g, uint32_t id, CallPlace place,
                                 AxisCut cut) {
  const auto &[factors, isReshape] = g.cutting[id];
  const OpCall call = callOf(g, id);
  return isReshape ? cutsOfReshape(call, place, cut) : cutsOf(call, factors, place, cut);
}

template <typename... Args>
isthmus_status badCall(isthmus_error **error, const char *format, Args &&...args) {
  return fail(ISTHMUS_BAD_CALL, llvm::formatv(format, std::forward<Args>(args)...).str(), error);
}

isthmus_status checkValues(const isthmus_region_graph &g, llvm::ArrayRef<uint32_t> values,
                           const char *what, isthmus_error **error) {
  for (uint32_t v : values)
    if (v >= g.graph.values.size())
      return badCall(error, "{0} {1}: there are {2} values", what, v, g.graph.values.size());
  return ISTHMUS_OK;
}

isthmus_status setFactor(const isthmus_region_graph &g, const RegionGraph::Op &op,
                         const isthmus_factor &f, Factors &to, isthmus_error **error) {
  const bool isOperand = f.place >= 0;
  const size_t index = size_t(isOperand ? f.place : -1 - int64_t(f.place));
  const auto values = isOperand ? llvm::makeArrayRef(op.operands) : llvm::makeArrayRef(op.results);
  if (index >= values.size())
    return badCall(error, "a factor is of {0} {1}, of {2}", isOperand ? "operand" : "result", index,
                   values.size());
  Factors::Axes &axes = isOperand ? to.operands[index] : to.results[index];
  if (f.axis >= axes.size() || f.factor == Factors::kWhole)
    return badCall(error, "a factor is of axis {0} of a value of rank {1}", f.axis, axes.size());
  const int64_t size = g.graph.values[values[index]].dims[f.axis];
  if (f.block < 1 || size % f.block != 0)
    return badCall(error, "a factor has blocks of {0}, which do not divide an axis of {1}", f.block,
                   size);
  if (axes[f.axis].factor != Factors::kWhole || Factors::axisOf(axes, f.factor))
    return badCall(error, "axis {0} of a value has two factors, or two of its axes have one",
                   f.axis);
  axes[f.axis] = {.factor = f.factor, .block = f.block};
  return ISTHMUS_OK;
}

isthmus_status setFactors(const isthmus_region_graph &g, const RegionGraph::Op &op,
                          llvm::ArrayRef<isthmus_factor> given, Factors &to,
                          isthmus_error **error) {
  for (uint32_t v : op.operands)
    to.operands.emplace_back(g.graph.values[v].dims.size());
  for (uint32_t v : op.results)
    to.results.emplace_back(g.graph.values[v].dims.size());
  for (const isthmus_factor &f : given)
    if (isthmus_status s = setFactor(g, op, f, to, error))
      return s;
  return ISTHMUS_OK;
}

isthmus_status checkFlags(const isthmus_region_graph &g, const RegionGraph::Op &op, uint32_t flags,
                          isthmus_error **error) {
  auto dimsOf = [&](uint32_t v) -> const Dims & { return g.graph.values[v].dims; };
  if (flags & ~unsigned(ISTHMUS_IS_WHOLE | ISTHMUS_IS_RESHAPE | ISTHMUS_IS_ADDITION))
    return badCall(error, "an op's flags are {0}, some of which mean nothing", flags);
  if ((flags & ISTHMUS_IS_RESHAPE) &&
      (op.operands.size() != 1 || op.results.size() != 1 ||
       Type{DType::F32, dimsOf(op.operands[0])}.elements() !=
           Type{DType::F32, dimsOf(op.results[0])}.elements()))
    return badCall(error, "a reshape has one operand and one result of as many elements");
  if ((flags & ISTHMUS_IS_ADDITION) &&
      (op.operands.size() != 2 || op.results.size() != 1 ||
       !llvm::all_of(op.operands, [&](uint32_t v) { return dimsOf(v) == dimsOf(op.results[0]); })))
    return badCall(error, "an addition has two operands of the dims of its result");
  return ISTHMUS_OK;
}

ChunkScore scoreOf(const isthmus_chunk_score &s) {
  return {s.is_within != 0, s.is_too_dear != 0, s.cost, s.bytes};
}

ChunkGoal goalOf(const isthmus_chunk_goal &g) { return {g.is_smallest != 0, g.bytes_for_time}; }

} // namespace

isthmus_status isthmus_region_graph_new(isthmus_region_graph **graph, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    *graph = new isthmus_region_graph;
    (*graph)->graph.cutsOf = [g = *graph](uint32_t op, CallPlace place, AxisCut cut) {
      return cutsOfOp(*g, op, place, cut);
    };
    return ISTHMUS_OK;
  });
}

void isthmus_region_graph_free(isthmus_region_graph *graph) { delete graph; }

isthmus_status isthmus_region_graph_add_value(isthmus_region_graph *graph, const int64_t *dims,
                                              size_t rank, int64_t bytes, uint32_t flags,
                                              isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    if (rank > 0)
      ISTHMUS_NOT_NULL(dims);
    if (isthmus_status s = checkCount("rank", rank, kMaxRankInside, error))
      return s;
    if (flags & ~unsigned(ISTHMUS_IS_FLOAT | ISTHMUS_IS_KEPT | ISTHMUS_IS_LATE))
      return badCall(error, "a value's flags are {0}, some of which mean nothing", flags);
    RegionGraph::Value value;
    for (int64_t d : llvm::makeArrayRef(dims, rank)) {
      if (d < 0)
        return badCall(error, "dims are to be from 0 on, got {0}", d);
      value.dims.push_back(d);
    }
    value.bytes = bytes;
    value.isFloat = flags & ISTHMUS_IS_FLOAT;
    value.isKept = flags & ISTHMUS_IS_KEPT;
    value.isLate = flags & ISTHMUS_IS_LATE;
    graph->graph.values.push_back(std::move(value));
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_region_graph_add_op(isthmus_region_graph *graph, const uint32_t *operands,
                                           size_t num_operands, const uint32_t *results,
                                           size_t num_results, const isthmus_factor *factors,
                                           size_t num_factors, uint32_t flags,
                                           isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    const auto reads = llvm::makeArrayRef(operands, operands ? num_operands : 0),
               makes = llvm::makeArrayRef(results, results ? num_results : 0);
    if (isthmus_status s = checkValues(*graph, reads, "operand", error))
      return s;
    if (isthmus_status s = checkValues(*graph, makes, "result", error))
      return s;
    for (uint32_t v : makes)
      if (const RegionGraph::Value &value = graph->graph.values[v];
          value.def != RegionGraph::kNone || !value.readers.empty())
        return badCall(error, "value {0} was made or read before this op makes it", v);
    RegionGraph::Op op;
    op.operands.assign(reads.begin(), reads.end());
    op.results.assign(makes.begin(), makes.end());
    op.mayBeCut = !(flags & ISTHMUS_IS_WHOLE);
    op.isAddition = flags & ISTHMUS_IS_ADDITION;
    isthmus_region_graph::Cutting cutting;
    cutting.isReshape = flags & ISTHMUS_IS_RESHAPE;
    if (isthmus_status s = checkFlags(*graph, op, flags, error))
      return s;
    if (isthmus_status s =
            setFactors(*graph, op, llvm::makeArrayRef(factors, factors ? num_factors : 0),
                       cutting.factors, error))
      return s;
    graph->graph.addOp(std::move(op));
    graph->cutting.push_back(std::move(cutting));
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_region_graph_cuts(const isthmus_region_graph *graph, uint32_t value,
                                         isthmus_cut *cuts, size_t room, size_t *count,
                                         isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(graph);
    ISTHMUS_NOT_NULL(count);
    if (room > 0)
      ISTHMUS_NOT_NULL(cuts);
    if (isthmus_status s = checkValues(*graph, value, "value", error))
      return s;
    const auto found = cutsToGrowFrom(graph->graph, value);
    *count = found.size();
    for (size_t i = 0; i < std::min(room, found.size()); ++i)
      cuts[i] = {value, found[i].axis, found[i].outer};
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_region_grow(const isthmus_region_graph *graph, isthmus_cut cut,
                                   isthmus_region **region, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(region);
    *region = nullptr;
    ISTHMUS_NOT_NULL(graph);
    const auto &[value, axis, outer] = cut;
    if (isthmus_status s = checkValues(*graph, value, "value", error))
      return s;
    const Dims &dims = graph->graph.values[value].dims;
    if (axis >= dims.size() || outer < 1 || dims[axis] % outer != 0)
      return badCall(error, "value {0} has no axis {1} of {2} parts", value, axis, outer);
    RegionOptions options;
    options.mostOps = graph->graph.ops.size();
    isthmus_region made{grownRegion(graph->graph, value, {axis, outer}, options), {}, {}};
    for (const auto &[v, its] : made.grown.cuts)
      made.cuts.push_back({v, its.axis, its.outer});
    for (const auto &[sum, total] : made.grown.totals)
      made.totals.push_back({sum, total});
    llvm::sort(made.cuts, [](const auto &a, const auto &b) { return a.value < b.value; });
    llvm::sort(made.totals, [](const auto &a, const auto &b) { return a.sum < b.sum; });
    return give(region, std::move(made));
  });
}

void isthmus_region_free(isthmus_region *region) { delete region; }

isthmus_status isthmus_region_get_parts(const isthmus_region *region, isthmus_region_parts *parts,
                                        isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(region);
    ISTHMUS_NOT_NULL(parts);
    constexpr size_t kLeast = sizeof(isthmus_region_parts);
    if (parts->size != kLeast)
      return wrongSize("isthmus_region_parts", parts->size, kLeast, kLeast, error);
    const GrownRegion &grown = region->grown;
    *parts = {.size = kLeast,
              .units = grown.isWhole ? 0 : grown.units,
              .num_ops = grown.ops.size(),
              .num_stops = grown.stops.size(),
              .num_cuts = region->cuts.size(),
              .num_totals = region->totals.size(),
              .ops = grown.ops.data(),
              .stops = grown.stops.data(),
              .cuts = region->cuts.data(),
              .totals = region->totals.data()};
    return ISTHMUS_OK;
  });
}

int32_t isthmus_chunk_score_is_better(const isthmus_chunk_goal *goal, const isthmus_chunk_score *a,
                                      const isthmus_chunk_score *b) {
  return goalOf(*goal).isBetter(scoreOf(*a), scoreOf(*b));
}

isthmus_status isthmus_chunk_search_new(const isthmus_chunk_goal *goal,
                                        const isthmus_chunk_score *whole,
                                        isthmus_chunk_search **search, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(search);
    *search = nullptr;
    ISTHMUS_NOT_NULL(goal);
    ISTHMUS_NOT_NULL(whole);
    if (isthmus_status s = checkNumbers({{"bytes_for_time", goal->bytes_for_time}}, error))
      return s;
    return give(search, ChunkSearch(goalOf(*goal), scoreOf(*whole)));
  });
}

void isthmus_chunk_search_free(isthmus_chunk_search *search) { delete search; }

isthmus_status isthmus_chunk_search_begin(isthmus_chunk_search *search, const int64_t *most,
                                          size_t num_regions, int32_t *begins,
                                          isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(search);
    ISTHMUS_NOT_NULL(begins);
    if (num_regions > 0)
      ISTHMUS_NOT_NULL(most);
    std::vector<ChunkSearch::Candidate> candidates;
    for (int64_t each : llvm::makeArrayRef(most, num_regions))
      candidates.push_back({each});
    *begins = search->search.begin(std::move(candidates));
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_chunk_search_next(isthmus_chunk_search *search, size_t *region,
                                         int64_t *chunks, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(search);
    ISTHMUS_NOT_NULL(region);
    ISTHMUS_NOT_NULL(chunks);
    const auto trial = search->search.next();
    *region = trial ? trial->candidate : 0;
    *chunks = trial ? trial->number : 0;
    return ISTHMUS_OK;
  });
}

isthmus_status isthmus_chunk_search_tell(isthmus_chunk_search *search,
                                         const isthmus_chunk_score *score, int32_t *is_best,
                                         isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(search);
    ISTHMUS_NOT_NULL(is_best);
    if (!search->search.next())
      return fail(ISTHMUS_BAD_CALL, "there is no trial to tell of", error);
    *is_best = search->search.tell(score ? std::optional(scoreOf(*score)) : std::nullopt);
    return ISTHMUS_OK;
  });
}
