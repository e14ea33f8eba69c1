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
struct Node;
struct OpDef;

// One use of an op, without a graph: what costs and kernels are asked about. `attrs` belong to the
// node.
struct OpCall {
  const OpDef *op = nullptr;
  const Attrs *attrs = nullptr;
  llvm::SmallVector<Type, 4> operands;
  llvm::SmallVector<Type, 2> results;
};

// The operations that a node stands for: multiply-adds count as two; bytes are those read and
// written.
struct Cost {
  double flops = 0;
  double bytes = 0;
};

// Handed to a shape rule.
class InferContext {
public:
  InferContext(const OpDef &op, const Attrs &attrs, llvm::ArrayRef<Type> operands)
      : op(op), attrs(attrs), operands(operands) {}

  const OpDef &op;
  const Attrs &attrs;
  llvm::ArrayRef<Type> operands;

  const Type &operand(size_t i) const { return operands[i]; }
  bool has(size_t i) const { return i < operands.size(); } // an optional operand was given

  // "'conv' expects ..., got ...": `format` continues after the op's name.
  template <typename... Args> llvm::Error error(const char *format, Args &&...args) const {
    return failed(llvm::formatv(format, std::forward<Args>(args)...).str());
  }
  // Errors unless operand `i` has one of the ranks, or the dtype, asked for.
  llvm::Error expectRank(size_t i, int64_t atLeast, int64_t atMost) const;
  llvm::Error expectSame(size_t i, size_t j) const; // equal types
  llvm::Error expectFloat(size_t i) const;
  llvm::Error expectInteger(size_t i) const; // i32 or i64
  // The axis with negative ones counted from the end; an error if it is outside [-rank, rank).
  llvm::Expected<int64_t> axis(int64_t axis, int64_t rank) const;
  llvm::Expected<Ints> axes(const Ints &axes,
                            int64_t rank) const; // sorted, unique; empty means all

private:
  llvm::Error failed(const std::string &rest) const;
};

// Handed to a gradient rule. `grad(i)` is the gradient that flows into result i.
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
  ValueId grad(size_t i); // zeros if nothing flows into result i
  bool wants(size_t i) const { return i < wanted_.size() && wanted_[i]; } // operand i needs one

private:
  llvm::SmallVector<ValueId, 4> operands_, results_;
  llvm::SmallVector<ValueId, 2> grads_;
  llvm::SmallVector<bool, 4> wanted_;
};

using ValueList = llvm::SmallVector<ValueId, 4>;

// Handed to an expansion.
struct ExpandContext {
  Builder &b;
  const Attrs &attrs;
  ValueList operands;
};

// Handed to an inverse rule: `results` are the node's results, other operands may be read. A rule
// that reads weights alone in some of its nodes (the inverse of a matrix) has them first, so that
// they may run once for all.
struct InverseContext {
  Builder &b;
  const Attrs &attrs;
  ValueList operands; // the one being rebuilt is none
  ValueList results;
  Type want; // type of the operand being rebuilt
};

// What an attribute says of axes. A row with an attribute that does works on any order of axes:
// with those of all operands and results permuted alike, and such attributes with them, it does the
// same.
enum class AxisRole : uint8_t {
  None,    // nothing, or what depends on the order of axes
  Axis,    // an int: the one axis that is meant; negative ones count from the end
  EachAxis // a list with an entry for each axis; where it may be empty, alike for all
};

struct AttrDef {
  std::string name;
  AttrKind kind;
  std::optional<Attr> byDefault; // none: the attribute must be given
  std::string doc;
  AxisRole axes = AxisRole::None;
};

enum Trait : uint32_t {
  kElementwise =
      1 << 0,     // every result element depends on the operand elements at its own index alone
  kView = 1 << 1, // result 0 has the bytes of operand 0: no storage, no work
  kContraction = 1 << 2, // convolution or matrix product: what the policy `speed` keeps
  kNotACheckpoint =
      1 << 3, // the policy `memory` does not keep its results (losses, norms, dropout, casts)
  kStopsGradient = 1 << 4, // gradients of every order end here
  kDependsOnMode = 1 << 5, // has a bool attribute `training`
  kIndexTuples = 1 << 6,   // reads indices into several axes from one operand: `indexBound` is the
                           // least of their sizes, and an index beyond it may be right
  kTransfer = 1 << 7,      // copies operand 0 into another memory, beside the nodes that follow:
                           // result 0 is complete where result 1, a token, was waited for
  kWait = 1 << 8,          // waits for operand 1, a token, which came with operand 0
  kTellsResultBits = 1 << 9, // its gradient asks which elements of the result are the one bound
                             // that many are: a result that was rounded again is not the same
};

// What is known of the elements of a value, NaN apart. Each says more than the one before.
enum class Sign : uint8_t { Any, NonZero, Positive };

// What a node does beside giving its results. Whatever it is, order alone never changes a result:
// who must come before whom follows from what they read.
enum class Effect : uint8_t {
  Pure,
  Draws,  // from the generator keyed by seed, step and the int attribute `stream`: a clone draws
          // the same numbers
  Ordered // something goes on beside the nodes that follow, or outside of the graph. The row's
          // results say so by a token, and whoever depends on it reads that. Only such rows take
          // or give tokens, or what is not in the device's memory.
};

// What gradients of integer or discontinuous ops are: none, and that is right, not missing.
enum class Differentiable : uint8_t { Yes, ZeroGradient, Missing };

struct InPlace {
  uint32_t result;
  uint32_t operand;
};

// Operand `operand` may be what `op` gives of it, where that says all that is asked of it. `op`
// takes one operand, and no attributes.
struct Encoding {
  uint32_t operand;
  std::string op;
};

struct OpDef {
  std::string name;
  std::string doc; // one sentence, or a few

  // Names, separated by spaces. A trailing `?` marks an operand that may be left out (only at the
  // end), `...` operands or results of any number (only the last).
  std::string operands;
  std::string results;
  std::vector<AttrDef> attrs;
  uint32_t traits = 0;
  Effect effect = Effect::Pure;
  // A second run would be felt outside (a message sent twice): no plan repeats it. Drawing again
  // and copying again are not felt.
  bool runsOnce = false;

  // The types of the results. Attributes are complete (defaults filled in) and of the right kinds.
  llvm::Expected<TypeList> (*infer)(const InferContext &) = nullptr;

  // One gradient per operand, as new nodes; none where nothing flows or none is wanted. Null with
  // `differentiable == ZeroGradient`: the op is piecewise constant or takes and gives integers.
  ValueList (*vjp)(VjpContext &) = nullptr;
  Differentiable differentiable =
      Differentiable::Missing; // set to Yes by the registry where vjp or expand is there

  // The results in terms of simpler ops. Where `vjp` is null, gradients are taken through this: the
  // way for backward rows, whose own gradients are rare, to have them without a rule by hand.
  ValueList (*expand)(ExpandContext &) = nullptr;

  // The sum of `other` and result 0 of node `n`, of this op, cheaper than by adding the two up; `n`
  // is then needed no more. Null: there is no such way. How gradients stay sparse until they must
  // not.
  ValueId (*sumWith)(Builder &, NodeId n, ValueId other) = nullptr;

  // Operand i rebuilt from the results and the other operands; null where there is no inverse. None
  // where there is none for this operand, these attributes or these types.
  ValueId (*inverse)(InverseContext &, size_t operand) = nullptr;
  // Whether a graph promises what the inverse in operand i takes for granted of the node's other
  // operands: a factor that is never zero, a matrix that is a weight. Null: it takes nothing for
  // granted.
  bool (*inverseHolds)(const ValueFacts &, const Node &, size_t operand) = nullptr;
  // Whether operands come back bit for bit, -0 and NaN included. Otherwise they are rounded:
  // elements of f32, drawn as the row's examples are, come back within `inverseError` (1 + |x|).
  bool inverseKeepsBits = false;
  double inverseError = 1e-6;

  // What is known of all results, by what is known of each operand; null: nothing.
  Sign (*sign)(const Attrs &, llvm::ArrayRef<Sign> operands) = nullptr;

  // Null: one flop for each result element, and the bytes of all operands and results.
  Cost (*cost)(const OpCall &) = nullptr;

  // Results that a kernel may write over an operand of the same size.
  std::vector<InPlace> inPlace;

  // Smaller values that may stand in place of an operand: every result keeps its bits (the lossless
  // encodings of Gist, Jain et al., ISCA 2018).
  std::vector<Encoding> encodings;

  // Operands of which it asks which elements are equal: these must be what the first runs of their
  // nodes gave, to the last bit.
  std::vector<uint32_t> comparedOperands;

  // Exclusive upper bound of the values that integer operand i may hold (an index), for drawing
  // inputs.
  std::optional<int64_t> (*indexBound)(const OpCall &, size_t operand) = nullptr;

  // Whether operand i, which has a bound, may hold this index. Null: one in [-bound, bound),
  // negative ones counting from the end.
  bool (*takesIndex)(const OpCall &, size_t operand, int64_t index) = nullptr;

  // For tests and docs: calls in the text form on operand types, such as
  // "matmul(f64[2,3], f64[3,4])" or "sum(f64[2,3]) {axes = [0]}"; and the interval inputs are drawn
  // from.
  std::vector<std::string> examples;
  double low = -2, high = 2;

  // Derived from `operands` and `results` by the registry.
  std::vector<std::string> operandNames, resultNames;
  unsigned minOperands = 0;
  bool variadic = false, variadicResults = false;

  bool is(Trait t) const { return traits & t; }
  unsigned maxOperands() const { return variadic ? ~0u : unsigned(operandNames.size()); }
  std::string resultName(unsigned i) const; // "mean"; numbered where results are variadic
  const AttrDef *attr(llvm::StringRef name) const;
};

// Converts `value`, meant for the attribute `name` of `what` (an op), to its kind. Errors name
// unknown and mistyped attributes, and numbers that are none.
llvm::Error checkAttr(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, llvm::StringRef name,
                      Attr &value);
// checkAttr on each of `attrs`, then the defaults of those that are missing, or an error where
// there is none.
llvm::Error completeAttrs(llvm::StringRef what, llvm::ArrayRef<AttrDef> defs, Attrs &attrs);

// Fills defaults into `attrs`, converts kinds; errors name unknown, missing and mistyped
// attributes.
llvm::Error completeAttrs(const OpDef &op, Attrs &attrs);

// Shape rule with all checks around it: operand count, attributes, validity of what came out.
// `attrs` must be complete.
llvm::Expected<TypeList> inferTypes(const OpDef &op, const Attrs &attrs,
                                    llvm::ArrayRef<Type> operands);

Cost costOf(const OpCall &call);

// Equal for calls that do the same to tensors of the same types: networks repeat their layers, and
// those share a kernel, and the time that it takes. "relu(f32[2, 3]) : (f32[2, 3])".
std::string callKey(const OpCall &call);

} // namespace isthmus
