// The op table's row: everything that the rest of the project needs to know about an op.
//
// Passes ask the row; none of them switches on an op's name. How an op is computed is in kernels/.
#pragma once

#include "ir/attr.h"
#include "ir/diagnostics.h"
#include "ir/ids.h"
#include "ir/type.h"
#include "llvm/Support/Error.h"
#include <functional>
#include <optional>

namespace isthmus {

class Builder;
class Graph;
class ValueFacts;
struct AxisCut;
struct CallCuts;
struct CallPlace;
struct Factors;
struct Node;
struct OpDef;

// One use of an op, without a graph: the argument of cost functions and kernels. `attrs` points to
// the node's attributes.
struct OpCall {
  const OpDef *op = nullptr;
  const Attrs *attrs = nullptr;
  llvm::SmallVector<Type, 4> operands;
  llvm::SmallVector<Type, 2> results;
};

// The work of a node: flops, where a multiply-add counts as two, and bytes read and written.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// The argument of a shape rule.
class InferContext {
public:
  InferContext(const OpDef &op, const Attrs &attrs, llvm::ArrayRef<Type> operands)
      : op(op), attrs(attrs), operands(operands) {}

  const OpDef &op;
  const Attrs &attrs;
  llvm::ArrayRef<Type> operands;

  const Type &operand(size_t i) const { return operands[i]; }
  bool has(size_t i) const { return i < operands.size(); } // whether an optional operand was given

  // "'conv' expects ..., got ...": `format` continues after the op's name.
  template <typename... Args> llvm::Error error(const char *format, Args &&...args) const {
    return failed(llvm::formatv(format, std::forward<Args>(args)...).str());
  }
  // An error unless operand `i` has the expected rank or dtype.
  llvm::Error expectRank(size_t i, int64_t atLeast, int64_t atMost) const;
  llvm::Error expectSame(size_t i, size_t j) const; // equal types
  llvm::Error expectFloat(size_t i) const;
  llvm::Error expectInteger(size_t i) const; // i32 or i64
  // `axis` counted from the front; negative axes count from the end. An error if it is out of
  // range.
  llvm::Expected<int64_t> axis(int64_t axis, int64_t rank) const;
  llvm::Expected<Ints> axes(const Ints &axes,
                            int64_t rank) const; // sorted, unique; empty means all

private:
  llvm::Error failed(const std::string &rest) const;
};

// The argument of a gradient rule. `grad(i)` is the gradient with respect to result i.
class VjpContext {
public:
  VjpContext(Builder &b, NodeId node, llvm::ArrayRef<ValueId> grads, llvm::ArrayRef<bool> wanted);

  Builder &b;
  const Attrs &attrs;

  ValueId operand(size_t i) const { return operands_[i]; }
  size_t numOperands() const { return operands_.size(); }
  ValueId result(size_t i) const { return results_[i]; }
  const Type &type(ValueId v) const; // stays valid while nodes are added
  bool hasGrad(size_t i) const { return bool(grads_[i]); }
  ValueId grad(size_t i); // zeros if result i has no gradient
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; } // needs a gradient

private:
  llvm::SmallVector<ValueId, 4> operands_, results_;
  llvm::SmallVector<ValueId, 2> grads_;
  llvm::SmallVector<bool, 4> wanted_;
};

using ValueList = llvm::SmallVector<ValueId, 4>;

// The argument of an expansion.
struct ExpandContext {
  Builder &b;
  const Attrs &attrs;
  ValueList operands;
};

// The argument of an inverse rule. `results` are the node's results; the rule may also read other
// operands. Nodes of the rule that read weights alone (the inverse of a matrix) come first, so that
// one run of them can serve several inverses.
struct InverseContext {
  Builder &b;
  const Attrs &attrs;
  ValueList operands; // none for the operand being rebuilt
  ValueList results;
  Type want; // type of the operand being rebuilt
};

// How an attribute refers to axes. A row with an Axis or EachAxis attribute works on any order of
// axes: if the axes of all operands and results are permuted alike, and these attributes with them,
// the op computes the same.
enum class AxisRole : uint8_t {
  None,     // refers to no axes, or depends on their order
  Axis,     // an int: one axis; negative ones count from the end
  EachAxis, // a list with an entry for each axis; an empty list, where allowed, treats all axes
            // alike
  Limits,   // the same; the entry of an axis that has a factor (factors.h) is its size
  Sizes,    // the dims of result 0, whose axes are not those of the operands
  First,    // an int: the place of result 0's first element in a larger tensor
  Parts     // an int: the number of parts of axis 0 of result 0 (parts.h); chunks cut between them
};

struct AttrDef {
  std::string name;
  AttrKind kind;
  std::optional<Attr> byDefault; // none: the attribute must be given
  std::string doc;
  AxisRole axes = AxisRole::None;
};

// The row that adds to a partial result, and goes on from what stands there, so that a sum in parts
// has the bits of the whole: it takes the operands and attributes of a call, and what it adds to as
// operand `operand`, over which it may write.
struct Accumulation {
  std::string op;
  uint32_t operand = 0;
};

enum Trait : uint32_t {
  kElementwise =
      1 << 0,     // every result element depends on the operand elements at its own index alone
  kView = 1 << 1, // result 0 lies in the bytes of operand 0: no storage, no work
  kContraction = 1 << 2, // convolution or matrix product: the policy `speed` keeps its results
  kNotACheckpoint =
      1 << 3, // the policy `memory` does not keep its results (losses, norms, dropout, casts)
  kStopsGradient = 1 << 4,   // gradients of every order end here
  kDependsOnMode = 1 << 5,   // has a bool attribute `training`
  kIndexTuples = 1 << 6,     // one operand holds indices into several axes: `indexBound` is the
                             // smallest of their sizes, and larger indices may be valid
  kTransfer = 1 << 7,        // copies operand 0 into another memory while later nodes run: result 0
                             // is complete after a wait for result 1, a token
  kWait = 1 << 8,            // waits for operand 1, the token of a node that makes or reads operand 0
  kTellsResultBits = 1 << 9, // its gradient tests which result elements equal a bound that many of
                             // them have, such as zero: an inverse, which rounds, must not rebuild
                             // the result
  kSend = 1 << 10,    // sends operand 0 to another device while later nodes run; result 0 is a token
  kReceive = 1 << 11, // receives result 0 from another device while later nodes run: it is complete
                      // after a wait for result 1, a token
};

// What is known about the signs of a value's elements, NaN apart. Each case implies the one before.
enum class Sign : uint8_t { Any, NonZero, Positive };

// Side effects of a node. Whatever the effect, reordering nodes never changes a result: all order
// constraints follow from operands.
enum class Effect : uint8_t {
  Pure,
  Draws,  // draws from the generator keyed by seed, step and the int attribute `stream`: a clone
          // draws the same numbers
  Ordered // starts work that goes on while later nodes run, or outside of the graph, or waits for
          // it. A token stands for the work, and nodes that depend on the work read the token. Only
          // such rows take or give tokens, or values in host memory.
};

// Whether a row has gradients. ZeroGradient: the op is integer or discontinuous, and rightly has
// none. Missing: nobody wrote the rule.
enum class Differentiable : uint8_t { Yes, ZeroGradient, Missing };

struct InPlace {
  uint32_t result;
  uint32_t operand;
};

// Operand `operand` may be replaced by the result of `op` on it, which keeps all that the row reads
// of the operand. `op` takes one operand, and no attributes.
struct Encoding {
  uint32_t operand;
  std::string op;
};

struct OpDef {
  std::string name;
  std::string doc; // one sentence, or a few

  // Names, separated by spaces. A trailing `?` marks an operand that may be left out (only at the
  // end), `...` a variadic operand or result (only the last).
  std::string operands;
  std::string results;
  std::vector<AttrDef> attrs;
  uint32_t traits = 0;
  Effect effect = Effect::Pure;
  // A second run would be visible outside of the graph (a message sent twice), so no plan repeats
  // the op. Repeated draws and copies are not visible.
  bool runsOnce = false;

  // The types of the results. Attributes are complete (defaults filled in) and of the right kinds.
  llvm::Expected<TypeList> (*infer)(const InferContext &) = nullptr;

  // Builds one gradient per operand; none for an operand that has no gradient or does not want one.
  // Null with `differentiable == ZeroGradient`: the op is piecewise constant or takes and gives
  // integers.
  ValueList (*vjp)(VjpContext &) = nullptr;
  Differentiable differentiable =
      Differentiable::Missing; // the registry sets Yes if vjp or expand is set

  // Builds the results from simpler ops. Where `vjp` is null, autodiff differentiates these nodes
  // instead: backward rows, whose own gradients are rare, get them so without a rule of their own.
  ValueList (*expand)(ExpandContext &) = nullptr;

  // Builds the sum of `other` and result 0 of node `n`, a node of this op, cheaper than by an add;
  // `n` may then become dead. Null: there is no cheaper form. It keeps gradients sparse until a
  // dense one is added.
  ValueId (*sumWith)(Builder &, NodeId n, ValueId other) = nullptr;

  // Builds operand i from the results and the other operands. Null: the op has no inverse. Returns
  // none if this operand, these attributes or these types allow no inverse.
  ValueId (*inverse)(InverseContext &, size_t operand) = nullptr;
  // Whether the graph guarantees what the inverse in operand i assumes about the node's other
  // operands: a factor that is never zero, a matrix that is a weight. Null: it assumes nothing.
  bool (*inverseHolds)(const ValueFacts &, const Node &, size_t operand) = nullptr;
  // Whether the inverse rebuilds operands bit for bit, -0 and NaN included. Otherwise it rounds:
  // f32 elements, drawn like inputs of the row's examples, are rebuilt within (1 + |x|)
  // `inverseError`.
  bool inverseKeepsBits = false;
  double inverseError = 1e-6;

  // The sign of all results, given the sign of each operand; null: nothing is known.
  Sign (*sign)(const Attrs &, llvm::ArrayRef<Sign> operands) = nullptr;

  // Null: one flop for each result element, and the bytes of all operands and results.
  Cost (*cost)(const OpCall &) = nullptr;

  // Results that a kernel may write over an operand of the same size.
  std::vector<InPlace> inPlace;

  // Smaller forms that may replace an operand: every result keeps its bits (the lossless encodings
  // of Gist, Jain et al., ISCA 2018).
  std::vector<Encoding> encodings;

  // Of a view: where result 0 begins in operand 0, in bytes. Null: at its beginning.
  int64_t (*viewOffset)(const OpCall &) = nullptr;

  // Which axes may be cut (factors.h). Null: those of an elementwise row by broadcasting, none of
  // another.
  Factors (*factors)(const OpCall &) = nullptr;
  // How a cut of one operand or result cuts the others (axis_cut.h), for a row that divides axes or
  // merges them. Null: as the factors say.
  std::optional<CallCuts> (*cuts)(const OpCall &, CallPlace, AxisCut) = nullptr;
  // How partial results over a factor that no result has are added; no op: by `add`, which rounds.
  Accumulation accumulation;
  // Builds the results, bit for bit, from rows that have factors where this one has none: a mean
  // loss from a loss for each label. Null, or an empty list: there is no such form.
  ValueList (*unreduced)(ExpandContext &) = nullptr;

  // Operands whose elements the op compares for equality. No inverse may rebuild them, because it
  // rounds: they must have the bits of their nodes' first runs.
  std::vector<uint32_t> comparedOperands;

  // Exclusive upper bound of the elements of integer operand i, if they are indices; used to draw
  // inputs.
  std::optional<int64_t> (*indexBound)(const OpCall &, size_t operand) = nullptr;

  // Whether operand i, which has an index bound, may hold `index`. Null: any index in [-bound,
  // bound), where negative ones count from the end.
  bool (*takesIndex)(const OpCall &, size_t operand, int64_t index) = nullptr;

  // For tests and docs: calls in the text form on operand types, such as "matmul(f64[2,3],
  // f64[3,4])" or "sum(f64[2,3]) {axes = [0]}", and the interval that inputs are drawn from.
  std::vector<std::string> examples;
  double low = -2, high = 2;

  // Derived from `operands` and `results` by the registry.
  std::vector<std::string> operandNames, resultNames;
  unsigned minOperands = 0;
  bool variadic = false, variadicResults = false;

  bool is(Trait t) const { return traits & t; }
  bool isMessage() const { return traits & (kSend | kReceive); }
  unsigned maxOperands() const { return variadic ? ~0u : unsigned(operandNames.size()); }
  std::string resultName(unsigned i) const; // "mean"; numbered where results are variadic
  const AttrDef *attr(llvm::StringRef name) const;
};

// Converts `value` to the kind of the attribute `name` of `what` (an op). Errors: an unknown
// attribute, a value of another kind, NaN.
llvm::Error checkAttr(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, llvm::StringRef name,
                      Attr &value);
// Runs checkAttr on each of `attrs`, then sets the defaults of missing attributes. An error if a
// missing attribute has no default.
llvm::Error completeAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs);

// The same for the attributes of `op`.
llvm::Error completeAttrs(const OpDef &op, Attrs &attrs);

// Runs the shape rule with the checks around it: operand count, memory of the operands, validity of
// the result types. `attrs` must be complete.
llvm::Expected<TypeList> inferTypes(const OpDef &op, const Attrs &attrs,
                                    llvm::ArrayRef<Type> operands);

Cost costOf(const OpCall &call);

// Where result 0 of a view begins in operand 0, in bytes.
inline int64_t viewOffset(const OpCall &call) {
  return call.op->viewOffset ? call.op->viewOffset(call) : 0;
}

// A key that is equal for calls of one op with equal attributes and types: repeated layers of a
// network share a kernel and its measured time. Example: "relu(f32[2, 3]) : (f32[2, 3])".
std::string callKey(const OpCall &call);
// The key without the results' types, which follow: as parseCall (text/parser.h) takes it.
std::string callText(const OpCall &call);

} // namespace isthmus
