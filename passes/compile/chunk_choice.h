// Chooses regions to run chunk by chunk, so that a plan meets a budget, or costs less.
#pragma once

#include "passes/chunk/batch_axes.h"
#include "passes/compile/within_budget.h"

namespace isthmus {

struct ChunkedPlan {
  Graph graph;          // what was planned: with chunks, before the rewrite
  GraphProblem problem; // of `graph`
  PlannedGraph planned;
};

// Whether the smallest plan, with `o.smallest`, is the smallest of those that add no more than
// `o.mostAdded`, a share of the cost of `p` in its source order, or the smallest of all.
enum class Price { Limited, Any };

// The whole step is tried in micro-batches, and regions grow from the largest values that are live
// at the peak of the best plan so far, along each of their axes, and are judged by planning the
// graph with 2, 4, 8, ... chunks. The best is kept, and so on while plans get better. `g` is an
// original, `whole` its plan without chunks. None if no chunks are better than that. After CHUNK
// section 3.
llvm::Expected<std::optional<ChunkedPlan>> planInChunks(const Graph &g, const GraphProblem &p,
                                                        const PlannedGraph &whole,
                                                        const Target &target, const Ways &ways,
                                                        llvm::ArrayRef<BatchRequest> batch,
                                                        const plan::SearchOptions &o, Price price);

} // namespace isthmus
