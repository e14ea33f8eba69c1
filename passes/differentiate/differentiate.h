// Reverse-mode differentiation: appends backward nodes to a graph.
//
// Griewank and Walther, Evaluating Derivatives (2008), chapter 3. The result is a plain graph, so
// the function applies to its own output. Of a rewritten graph, differentiate the original
// (original.h), so that boundaries do not cut gradients.
#pragma once

#include "ir/builder.h"

namespace isthmus {

// d(sum of ys, each seeded by its gradYs)/dxs. `gradYs` is empty or has one value for each y, of
// its type; a null value stands for ones. The result has one value for each x, null where no
// gradient reaches it. Errors: a y or x that is not floating-point; ops between them that have no
// gradient, all of them named.
llvm::Expected<ValueList> gradients(Graph &g, llvm::ArrayRef<ValueId> ys,
                                    llvm::ArrayRef<ValueId> xs,
                                    llvm::ArrayRef<ValueId> gradYs = {});

// Makes `grads` outputs called `grad.NAME`, where NAME is x's name; `grad2.NAME` for the second
// differentiation of a graph, and so on. A null gradient becomes zeros.
void addGradientOutputs(Graph &g, llvm::ArrayRef<ValueId> xs, llvm::ArrayRef<ValueId> grads);

} // namespace isthmus
