#include "ir/onnx/parameters/readers.h"

#include "ir/onnx/op_table.h"
#include "ir/onnx/tensor_data.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"
#include <utility>

namespace isthmus::onnx_import {
namespace {

// The names of the model's graph whose values depend on model inputs of the element types that
// `isWanted` accepts. A size does not count as a dependency.
template <typename IsWanted> llvm::StringSet<> decidedByInputs(const Model &m, IsWanted isWanted) {
  llvm::StringSet<> decided;
  llvm::StringSet<> initializers;
  for (const onnx::TensorProto &t : m.graph().initializer())
    initializers.insert(t.name());
  for (const onnx::ValueInfoProto &v : m.graph().input())
    if (!initializers.count(v.name()) && isWanted(v.type().tensor_type().elem_type()))
      decided.insert(v.name());
  for (const onnx::NodeProto &n : m.graph().node()) {
    if (n.op_type() == "Shape" || n.op_type() == "Size")
      continue;
    bool is = llvm::any_of(n.input(), [&](const std::string &in) { return decided.count(in); }) ||
              llvm::any_of(m.readsOutside(n), [&](llvm::StringRef s) { return decided.count(s); });
    if (is)
      decided.insert(n.output().begin(), n.output().end());
  }
  return decided;
}

// RMS norms that are written out as x / sqrt(mean(x^2) + epsilon), which exporters do below opset
// 23.
class WrittenOutNorms {
public:
  // Whether the node computes the result of such a norm. Call it for the nodes in order.
  bool isResult(const onnx::NodeProto &n) {
    llvm::StringRef op = n.op_type();
    if (n.input_size() == 0 || n.output_size() == 0)
      return false;
    const std::string &a = n.input(0), &b = n.input(n.input_size() - 1);
    if (op == "Mul" && a == b)
      note(n, Part::Square, &a);
    else if (op == "Mul")
      return isOf(Part::Inverse, a, b) || isOf(Part::Inverse, b, a);
    else if (op == "Pow") // mean^(-1/2), otherwise x^2
      note(n, xOf(Part::Mean, a) ? Part::Inverse : Part::Square,
           xOf(Part::Mean, a) ? xOf(Part::Mean, a) : &a);
    else if (op == "ReduceMean")
      note(n, Part::Mean, xOf(Part::Square, a));
    else if (op == "Add")
      note(n, Part::Mean, xOf(Part::Mean, a) ? xOf(Part::Mean, a) : xOf(Part::Mean, b));
    else if (op == "Sqrt")
      note(n, Part::Root, xOf(Part::Mean, a));
    else if (op == "Reciprocal")
      note(n, Part::Inverse, xOf(Part::Root, a));
    else if (op == "Div" && isOf(Part::Root, b, a))
      return true;
    else if (op == "Div") // 1 / root
      note(n, Part::Inverse, xOf(Part::Root, b));
    return false;
  }

private:
  enum class Part : uint8_t { Square, Mean, Root, Inverse };

  void note(const onnx::NodeProto &n, Part part, const std::string *x) {
    if (x)
      made_[n.output(0)] = {part, *x};
  }
  // The x of which `value` is that part; null if it is not.
  const std::string *xOf(Part part, const std::string &value) const {
    auto found = made_.find(value);
    return found != made_.end() && found->second.first == part ? &found->second.second : nullptr;
  }
  bool isOf(Part part, const std::string &value, const std::string &x) const {
    const std::string *found = xOf(part, value);
    return found && *found == x;
  }

  llvm::StringMap<std::pair<Part, std::string>> made_;
};

// The results of norms without learned factors, and these results scaled or reshaped. Exporters
// write a group norm as an InstanceNormalization between two Reshapes, followed by the scale and
// shift. A written-out RMS norm is followed by a single factor: Gemma's is 1 + weight, which
// exporters fold.
llvm::StringSet<> normalized(const Model &m) {
  llvm::StringSet<> normed, writtenOut;
  WrittenOutNorms norms;
  for (const onnx::NodeProto &n : m.graph().node()) {
    llvm::StringRef op = n.op_type();
    bool isNorm = op == "InstanceNormalization" || op == "LayerNormalization" ||
                  op == "RMSNormalization" || op == "MeanVarianceNormalization";
    bool keeps = (op == "Reshape" || op == "Mul" || op == "Identity") &&
                 llvm::any_of(n.input(), [&](const std::string &in) { return normed.count(in); });
    if ((isNorm || keeps) && n.output_size() > 0)
      normed.insert(n.output(0));
    if (norms.isResult(n))
      writtenOut.insert(n.output(0));
  }
  for (const auto &result : writtenOut)
    normed.insert(result.first());
  return normed;
}

// --- Names that gradients reach, and names that weight operands read

// The element type to which the node casts; 0 if it is no cast.
int castType(const onnx::NodeProto &n) {
  if (n.op_type() == "Cast")
    for (const onnx::AttributeProto &a : n.attribute())
      if (a.name() == "to" && a.ref_attr_name().empty())
        return int(a.i());
  return 0;
}

// Whether the node casts to integers or bool, which blocks gradients.
bool castsToOther(const onnx::NodeProto &n) { return castType(n) && !isFloatType(castType(n)); }

// Whether the result is a number for each element of the operands, constant between jumps, so that
// networks put it in place of the operand: quantisation, signs, masks of comparisons.
bool isStep(const onnx::NodeProto &n) {
  constexpr llvm::StringLiteral kOps[] = {
      "Round", "Floor",   "Ceil",           "Sign",        "Hardmax", "ArgMax", "ArgMin", "Equal",
      "Less",  "Greater", "GreaterOrEqual", "LessOrEqual", "And",     "Or",     "Xor",    "Not"};
  return llvm::is_contained(kOps, llvm::StringRef(n.op_type())) ||
         (castsToOther(n) && castType(n) != onnx::TensorProto::BOOL);
}

// Whether the result depends on the operand's sizes alone.
bool readsSizes(llvm::StringRef op) {
  constexpr llvm::StringLiteral kOps[] = {
      "Shape", "Size", "EyeLike", "RandomUniformLike", "RandomNormalLike", "SequenceLength"};
  return llvm::is_contained(kOps, op);
}

// In x + (q - x), in (q - x) + x and in x - (x - q), the gradients by x cancel. Finds the sums and
// their q. Where q is x behind a step, the sum is a straight-through estimator that lost its
// detach() at export.
class StraightThroughs {
public:
  explicit StraightThroughs(const NodeList &nodes) {
    for (const onnx::NodeProto &n : nodes) {
      for (const std::string &out : n.output())
        makers_[out] = &n;
      if (n.input_size() != 2 || n.output_size() != 1)
        continue;
      const std::string &a = n.input(0), &b = n.input(1);
      if (n.op_type() == "Add")
        note(n, of(b, a, /*isNegative=*/false), a) || note(n, of(a, b, false), b);
      else if (n.op_type() == "Sub" && !note(n, of(b, a, /*isNegative=*/true), a))
        differences_[n.output(0)] = {a, b};
    }
  }

  struct Sum {
    std::string q, x;
  };
  const Sum *find(const onnx::NodeProto &n) const { // null if it is no such sum
    auto found = sums_.find(&n);
    return found == sums_.end() ? nullptr : &found->second;
  }

  // Whether a step is among the nodes that compute q from x.
  bool isBehindStep(const Sum &sum) const {
    constexpr size_t kMost = 64; // quantisation takes a few nodes
    llvm::SetVector<llvm::StringRef> from;
    from.insert(sum.q);
    for (size_t i = 0; i < from.size() && i < kMost; ++i) {
      const onnx::NodeProto *maker = from[i] == sum.x ? nullptr : makers_.lookup(from[i]);
      if (maker && isStep(*maker))
        return true;
      if (maker)
        from.insert(maker->input().begin(), maker->input().end());
    }
    return false;
  }

private:
  // The q if `difference` is q - x, or x - q if it is negative; null if it is neither.
  const std::string *of(const std::string &difference, const std::string &x,
                        bool isNegative) const {
    auto found = differences_.find(difference);
    if (found == differences_.end())
      return nullptr;
    const auto &[from, less] = found->second;
    return isNegative ? (from == x ? &less : nullptr) : (less == x ? &from : nullptr);
  }
  bool note(const onnx::NodeProto &sum, const std::string *q, const std::string &x) {
    if (q && *q != x)
      sums_[&sum] = {*q, x};
    return q != nullptr;
  }

  llvm::StringMap<const onnx::NodeProto *> makers_; // by result
  llvm::StringMap<std::pair<std::string, std::string>> differences_;
  llvm::DenseMap<const onnx::NodeProto *, Sum> sums_;
};

// Whether the first result holds the elements of the first operand in another form.
bool onlyRearranges(llvm::StringRef op) {
  constexpr llvm::StringLiteral kOps[] = {"Identity", "Cast",      "Transpose", "Reshape",
                                          "Squeeze",  "Unsqueeze", "Flatten"};
  return llvm::is_contained(kOps, op);
}

// Walks one list of nodes from its end to its beginning. Each function body is visited once.
class Search {
public:
  // `fed`: values of the model's graph that depend on its inputs; `normed`: results of norms.
  Search(const Model &m, const llvm::StringSet<> &fed, const llvm::StringSet<> &normed)
      : m_(m), fed_(fed), normed_(normed) {}

  void look(const NodeList &nodes, int64_t opset, Readers &r);

private:
  const Readers &inside(const onnx::FunctionProto &f);
  void lookAtNode(const onnx::NodeProto &n, int64_t opset, Readers &r);
  void lookAtSum(const onnx::NodeProto &n, const std::string &q, const std::string &x, Readers &r);
  static const Readers::Stop *stopAfter(const onnx::NodeProto &n, const Readers &r);
  void lookAtUse(const onnx::NodeProto &n, const std::string &in, bool isReached, bool isClosed,
                 const Readers::Stop *inner, Readers &r);

  static constexpr int kDeepest = 100; // the translation refuses deeper ones
  const Model &m_;
  const llvm::StringSet<> &fed_, &normed_;
  llvm::DenseMap<const onnx::FunctionProto *, std::unique_ptr<Readers>> functions_;
  int depth_ = 0;
  bool isWithin_ = false; // in a graph that a node holds, or in a function
};

const Readers &Search::inside(const onnx::FunctionProto &f) {
  std::unique_ptr<Readers> &slot = functions_[&f];
  if (slot)
    return *slot;
  slot = std::make_unique<Readers>();
  Readers &r = *slot; // its address is stable when the map grows
  r.learned.insert(f.output().begin(), f.output().end());
  if (depth_ >= kDeepest)
    return r;
  int64_t opset = 0;
  for (const onnx::OperatorSetIdProto &o : f.opset_import())
    if (isDefaultDomain(o.domain()))
      opset = std::max(opset, o.version());
  ++depth_;
  bool wasWithin = std::exchange(isWithin_, true);
  look(f.node(), opset ? opset : m_.opset, r);
  isWithin_ = wasWithin;
  --depth_;
  return r;
}

void Search::look(const NodeList &nodes, int64_t opset, Readers &r) {
  const StraightThroughs straight(nodes);
  for (int i = nodes.size() - 1; i >= 0; --i)
    if (const StraightThroughs::Sum *sum = straight.find(nodes[i])) {
      lookAtSum(nodes[i], sum->q, sum->x, r);
      if (r.isUsed(nodes[i].output(0)) && straight.isBehindStep(*sum))
        r.lostDetach.push_back(nodes[i].output(0));
    } else {
      lookAtNode(nodes[i], opset, r);
    }
}

// A sum in which the gradients by `x` cancel, so that it hands them to `q` alone.
void Search::lookAtSum(const onnx::NodeProto &n, const std::string &q, const std::string &x,
                       Readers &r) {
  const bool isReached = r.learned.count(n.output(0)) != 0;
  const Readers::Stop *after = stopAfter(n, r);
  if (isReached)
    r.learned.insert(q);
  else if (after)
    r.stopped.try_emplace(q, *after);
  if (isReached || after)
    r.stopped.try_emplace(x, Readers::Stop{"in x + (q - x) it cancels"});
}

// What stops gradients after the node; null if they reach it or no output depends on it.
const Readers::Stop *Search::stopAfter(const onnx::NodeProto &n, const Readers &r) {
  const Readers::Stop *after = nullptr;
  for (const std::string &out : n.output())
    if (auto found = r.stopped.find(out); found != r.stopped.end() && (!after || !after->isNumber))
      after = &found->second;
  return after;
}

// Notes that the outputs depend on an operand to which no gradient flows. `isClosed`: the node
// stops gradients; `inner`: what stops them in the function that the node calls.
void Search::lookAtUse(const onnx::NodeProto &n, const std::string &in, bool isReached,
                       bool isClosed, const Readers::Stop *inner, Readers &r) {
  const Readers::Stop *after = stopAfter(n, r);
  if (!isReached && !after)
    return;
  const bool isNumber = isReached || after->isNumber;
  if (inner) {
    r.stopped.try_emplace(in, Readers::Stop{inner->why, inner->isNumber && isNumber});
  } else if (!isClosed) {
    r.stopped.try_emplace(in, *after);
  } else if (!readsSizes(n.op_type()) && ((isStep(n) && isNumber) || fed_.count(in))) {
    // Other sizes, masks and tables select by constants: what they are made of is no weight.
    r.stopped.try_emplace(in,
                          Readers::Stop{"'" + n.op_type() + "' has none", isStep(n) && isNumber});
  }
}

void Search::lookAtNode(const onnx::NodeProto &n, int64_t opset, Readers &r) {
  const OnnxOp *op = findOp(opName(n), opset);
  const onnx::FunctionProto *f = op ? nullptr : m_.functionOf(n);
  const Readers *body = f ? &inside(*f) : nullptr;
  bool isReached =
      llvm::any_of(n.output(), [&](const std::string &out) { return r.learned.count(out) != 0; });
  const Readers::Stop *after = stopAfter(n, r);
  for (const onnx::GraphProto *g : graphsIn(n)) {
    for (const onnx::ValueInfoProto &v : g->output())
      if (isReached)
        r.learned.insert(v.name());
      else if (after)
        r.stopped.try_emplace(v.name(), *after);
    bool wasWithin = std::exchange(isWithin_, true);
    look(g->node(), opset, r);
    isWithin_ = wasWithin;
  }

  bool isFed = isWithin_ || llvm::any_of(n.output(), [&](const std::string &out) {
                 return fed_.count(out) != 0;
               });
  uint32_t weights = op ? op->weights : 0;
  if (n.op_type() == "Mul" || n.op_type() == "Add")
    for (int j = 0; j < std::min(2, n.input_size()); ++j)
      if (normed_.count(n.input(j)))
        weights |= 1u << (1 - j);
  uint32_t closed = op && castsToOther(n) ? kAllOperands : op ? op->notLearned : 0;
  bool rearranges = op && onlyRearranges(n.op_type()) && n.output_size() == 1;
  for (int j = 0; j < n.input_size(); ++j) {
    const std::string &in = n.input(j);
    uint32_t bit = 1u << std::min(j, 31);
    const std::string *inner = body && j < f->input_size() ? &f->input(j) : nullptr;
    const bool isInnerClosed = inner && !body->learned.count(*inner);
    if (isReached && !(closed & bit) && !isInnerClosed)
      r.learned.insert(in);
    else if (!isInnerClosed)
      lookAtUse(n, in, isReached, closed & bit, nullptr, r);
    else if (const Readers::Stop *stop = body->stopOf(*inner))
      lookAtUse(n, in, isReached, false, stop, r);
    auto passes = [&](llvm::StringSet<> Readers::*set) {
      return (j == 0 && rearranges && (r.*set).count(n.output(0))) ||
             (inner && (body->*set).count(*inner));
    };
    if (weights & bit || passes(&Readers::weights))
      r.weights.insert(in);
    if ((isFed && weights & bit) || passes(&Readers::weightsOfFed))
      r.weightsOfFed.insert(in);
    if ((op && n.op_type() == "BatchNormalization" && (j == 3 || j == 4)) ||
        (inner && body->averaged.count(*inner)))
      r.averaged.insert(in);
  }
}

// --- Frequencies

bool keepsFrequencies(llvm::StringRef op) {
  constexpr llvm::StringLiteral kOps[] = {"MatMul", "Mul",   "Div",    "Expand", "Concat",
                                          "Einsum", "Slice", "Gather", "Tile"};
  return onlyRearranges(op) || llvm::is_contained(kOps, op);
}

void findFrequencies(const Model &m, llvm::StringSet<> &frequencies) {
  llvm::StringSet<> decided = decidedByInputs(m, isFloatType), others;
  for (const onnx::ValueInfoProto &v : m.graph().output())
    others.insert(v.name());
  const NodeList &nodes = m.graph().node();
  for (int i = nodes.size() - 1; i >= 0; --i) {
    const onnx::NodeProto &n = nodes[i];
    bool turns = n.op_type() == "Sin" || n.op_type() == "Cos";
    // All readers of the result have been visited.
    bool keeps = keepsFrequencies(n.op_type()) && n.output_size() == 1 &&
                 frequencies.count(n.output(0)) && !others.count(n.output(0)) &&
                 !decided.count(n.output(0));
    for (const std::string &in : n.input())
      (turns || keeps ? frequencies : others).insert(in);
    for (llvm::StringRef in : m.readsOutside(n))
      others.insert(in);
  }
  for (const auto &other : others)
    frequencies.erase(other.first());
}

} // namespace

Readers readersOf(const Model &m) {
  Readers r;
  for (const onnx::ValueInfoProto &v : m.graph().output())
    r.learned.insert(v.name());
  llvm::StringSet<> fed = decidedByInputs(m, [](int) { return true; });
  llvm::StringSet<> normed = normalized(m);
  Search(m, fed, normed).look(m.graph().node(), m.opset, r);
  findFrequencies(m, r.frequencies);
  return r;
}

} // namespace isthmus::onnx_import
