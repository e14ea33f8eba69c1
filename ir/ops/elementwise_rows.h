// Shared by the files of elementwise ops: shape rules, and rows with most cells filled in.
#pragma once

#include "ir/ops/families.h"

namespace isthmus {

// --- Shape rules
llvm::Expected<TypeList> inferUnary(const InferContext &c);     // a float; the result is alike
llvm::Expected<TypeList> inferNumber(const InferContext &c);    // not bool, likewise
llvm::Expected<TypeList> inferBinary(const InferContext &c);    // two numbers that broadcast
llvm::Expected<TypeList> inferCompare(const InferContext &c);   // operands broadcast; bool result
llvm::Expected<TypeList> inferGradPair(const InferContext &c);  // `f_grad(g, v)`: equal types
llvm::Expected<Dims> broadcastDims(const InferContext &c);      // of all operands
llvm::Error expectOneDType(const InferContext &c, size_t from); // operands `from` and on

// --- Gradients and costs
ValueId reduced(VjpContext &c, size_t i, ValueId g); // `g` summed back to operand i's shape
Cost costTranscendental(const OpCall &c);            // several flops per element

// --- Rows
std::vector<InPlace> overFirst();
std::vector<InPlace> overEither();
OpDef unary(const char *name, const char *doc, ValueList (*vjp)(VjpContext &), double low = -2,
            double high = 2, Cost (*cost)(const OpCall &) = costTranscendental);
OpDef binary(const char *name, const char *doc, ValueList (*vjp)(VjpContext &), double low = -2,
             double high = 2);
OpDef compare(const char *name, const char *doc);
// f_grad(g, v): the gradient of an activation, from the gradient of its result and its operand or
// result.
OpDef gradRow(const char *name, const char *doc, ValueList (*vjp)(VjpContext &),
              ValueList (*expand)(ExpandContext &), std::vector<AttrDef> attrs = {});
OpDef with(OpDef row, std::vector<AttrDef> attrs, std::vector<std::string> examples = {});
OpDef withInverse(OpDef row, ValueId (*inverse)(InverseContext &, size_t));
OpDef withSign(OpDef row, Sign (*sign)(const Attrs &, llvm::ArrayRef<Sign>));

// An inverse that applies another row of one operand to the result.
template <const char *row> ValueId inverseBy(InverseContext &c, size_t) {
  return c.b.create(row, {c.results[0]});
}

// --- Parts of the family in files of their own
void registerMathOps(OpRegistry &r);       // math.cc: functions of one number, rounding, remainders
void registerActivationOps(OpRegistry &r); // activation.cc: all but relu, tanh and the like
void registerBitOps(OpRegistry &r);        // bits.cc: logic, shifts, bitcast

} // namespace isthmus
