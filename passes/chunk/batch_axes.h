// Which axes of a step's inputs count its examples.
#pragma once

#include "ir/axis_cut.h"
#include "ir/graph.h"
#include <optional>

namespace isthmus {

// By input of the graph: the axis on which it has the examples, perhaps inside of an outer part;
// none for parameters, and for others without examples.
//
// The first input with a first size of two or more has them on axis 0. From there cuts
// (ir/axis_cut.h) tell the axes of the others, on whichever axis they come. An input that they do
// not reach has the examples on axis 0 if it has as many, or a multiple, and that axis is no other
// one: neither a parameter, a state or a constant nor an input with examples shares it. So the
// inputs of two towers have examples that only meet in a loss; a mask of all positions, one row for
// all, a scalar, and a vector by which the gradients of parameters are multiplied have none.
std::vector<std::optional<AxisCut>> batchAxes(const Graph &g);

} // namespace isthmus
