// Functions of one number, rounding and remainders.

#include "ir/onnx/op_table.h"

namespace isthmus::onnx_import {
namespace {

// Integers are already whole.
void rounded(NodeContext &n, const char *row) {
  n.result(0, isFloat(n.in(0).type.dtype) ? n.emit(row, {n.in(0)}) : n.in(0));
}
void convertFloor(NodeContext &n) { rounded(n, "floor"); }
void convertCeil(NodeContext &n) { rounded(n, "ceil"); }
void convertRound(NodeContext &n) { rounded(n, "round"); }

void convertMod(NodeContext &n) {
  bool asC = n.intAttr("fmod", 0) != 0;
  if (!asC && isFloat(n.in(0).type.dtype))
    return n.fail("expects fmod = 1 with floats, got '{0}'", n.in(0).type.str());
  n.result(0, n.emit("mod", {n.in(0), n.in(1)}, {{"fmod", asC}}));
}

void convertIsInf(NodeContext &n) {
  bool positive = n.intAttr("detect_positive", 1) != 0,
       negative = n.intAttr("detect_negative", 1) != 0;
  n.result(0, n.emit("is_inf", {n.in(0)}, {{"positive", positive}, {"negative", negative}}));
}

constexpr OnnxOp kOps[] = {
    unary("Exp", "exp"),
    unary("Log", "log"),
    unary("Sqrt", "sqrt"),
    unary("Reciprocal", "reciprocal"),
    unary("Neg", "neg"),
    unary("Abs", "abs"),
    unary("Sign", "sign", kAllOperands),
    unary("Sin", "sin"),
    unary("Cos", "cos"),
    unary("Tan", "tan"),
    unary("Asin", "asin"),
    unary("Acos", "acos"),
    unary("Atan", "atan"),
    unary("Sinh", "sinh"),
    unary("Cosh", "cosh"),
    unary("Asinh", "asinh"),
    unary("Acosh", "acosh"),
    unary("Atanh", "atanh"),
    unary("Erf", "erf"),
    unary("IsNaN", "is_nan", kAllOperands),
    {"IsInf", 10, 1, 1, 1, convertIsInf, kAllOperands},
    {"Floor", 1, 1, 1, 1, convertFloor, kAllOperands},
    {"Ceil", 1, 1, 1, 1, convertCeil, kAllOperands},
    {"Round", 11, 1, 1, 1, convertRound, kAllOperands},
    {"Mod", 10, 2, 2, 1, convertMod},
};

} // namespace

OpRows mathOps() { return kOps; }

} // namespace isthmus::onnx_import
