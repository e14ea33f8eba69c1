// Messages between the devices of a graph.
#pragma once

#include "ir/graph.h"

namespace isthmus {

// The graph with a message for each value that a node reads on another device than that which makes
// it, one for each device that reads it. The send stands right behind the node that makes the
// value, the receive and its wait right before the first reader, and the wait of the send before
// the next node of its device that comes after the receive. The order of the other nodes stays, so
// the messages are in one order and no device waits for ever.
//
// Inputs of kind `input` and `const` are there on every device. Those of kind `param` and `state`
// are on the device of the node that makes their next value, else on that of their first reader,
// and are sent to others.
Graph withMessages(const Graph &g);

} // namespace isthmus
