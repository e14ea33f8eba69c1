// Reduces a training step to its forward part, for inference.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// `step` is a differentiated original (no clones). Keeps its forward results, the loss among them,
// and the forward nodes that they need, in inference mode, or unchanged for AsWritten. All inputs
// stay.
enum class EvaluationMode : uint8_t { Inference, AsWritten };
Graph evaluationOf(const Graph &step, EvaluationMode mode);

} // namespace isthmus
