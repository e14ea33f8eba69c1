// Runs a kernel that is a template on one element type: K::run<T>, where T is the type of the first
// operand.
#pragma once

#include "kernels/plain/dispatch.h"

namespace isthmus::plain {

template <typename K> void runFloat(const OpCall &call, const KernelArgs &args) {
  dispatchFloat(call.operands[0].dtype,
                [&](auto tag) { K::template run<typename decltype(tag)::type>(call, args); });
}

} // namespace isthmus::plain
