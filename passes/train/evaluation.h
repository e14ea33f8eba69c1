// What is left of a training step where nothing is learned: the forward part, for inference.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// Of an original that is differentiated: its results, the loss among them, made by the forward
// nodes in inference mode, or as they are where `asWritten`. Inputs all stay.
enum class EvaluationMode : uint8_t { Inference, AsWritten };
Graph evaluationOf(const Graph &step, EvaluationMode mode);

} // namespace isthmus
