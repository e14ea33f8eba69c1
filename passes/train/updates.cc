#include "passes/train/updates.h"

#include "ir/builder.h"
#include "passes/rebuild.h"
#include "passes/simplify/dce.h"
#include "passes/simplify/late_updates.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr llvm::StringRef kNames[] = {"sgd", "adam", "adamw"};

// A parameter and its gradient, both values of the given graph.
struct Learned {
  ValueId param, gradient;
  uint32_t place; // index of the node after the one that makes the gradient
};

uint32_t placeBehind(const Graph &g, ValueId v) {
  const NodeId def = g.value(v).def;
  return def ? def.index + 1 : 0;
}

std::vector<Learned> learnedBy(const Graph &g) {
  std::vector<Learned> out;
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const OutputRole &role = g.role(i);
    if (role.kind != OutputKind::Gradient || role.order != 1)
      continue;
    if (const Input *of = g.inputOf(role.of); of && of->kind == InputKind::Param)
      out.push_back({role.of, g.outputs()[i], placeBehind(g, g.outputs()[i])});
  }
  return out;
}

// The op that updates a parameter, its attributes, and the names of its states.
struct Row {
  const char *op;
  Attrs attrs;
  std::vector<const char *> states;
};

Row rowOf(const OptimizerOptions &o) {
  if (o.kind == OptimizerOptions::Sgd && o.momentum == 0)
    return {"sgd", {{"weight_decay", o.weightDecay}}, {}};
  if (o.kind == OptimizerOptions::Sgd)
    return {"momentum",
            {{"momentum", o.momentum}, {"nesterov", o.nesterov}, {"weight_decay", o.weightDecay}},
            {"velocity"}};
  return {o.kind == OptimizerOptions::Adam ? "adam" : "adamw",
          {{"beta1", o.beta1},
           {"beta2", o.beta2},
           {"epsilon", o.epsilon},
           {"weight_decay", o.weightDecay}},
          {"mean", "square"}};
}

class Updating {
public:
  Updating(const Graph &g, const OptimizerOptions &o)
      : g_(g), o_(o), r_(g), b_(r_.to(), Phase::Update), learned_(learnedBy(g)) {}

  llvm::Expected<UpdatedGraph> run() {
    if (llvm::Error e = check())
      return e;
    llvm::stable_sort(learned_,
                      [](const Learned &a, const Learned &b) { return a.place < b.place; });
    r_.copyInputs();
    addInputs();
    copyWithUpdates();
    finish();
    return std::move(out_);
  }

private:
  llvm::Error check() const {
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (const OutputRole &role = g_.role(i); role.kind == OutputKind::NextState)
        if (const Input *of = g_.inputOf(role.of); of && of->kind == InputKind::Param)
          return locate(makeError("the graph updates its parameter '%{0}' itself; expected one "
                                  "that gives gradients and has no optimizer",
                                  g_.valueName(role.of)),
                        g_.sourceFile);
    if (learned_.empty())
      return addRemedy(locate(makeError("there is nothing to learn: no output of the graph is the "
                                        "gradient of a parameter"),
                              g_.sourceFile),
                       {"wrt", "params", "differentiate by them"});
    return llvm::Error::success();
  }

  // --- Inputs

  ValueId addInput(InputKind kind, const std::string &name, const Type &type,
                   Initializer init = {}) {
    return llvm::cantFail(r_.to().addInput(kind, r_.freshName(name), type, std::move(init)));
  }

  ValueId addZeros(const std::string &name, const Type &type) {
    Initializer zeros;
    zeros.kind = Initializer::Kind::Fill;
    zeros.args = {{"value", 0.0}};
    out_.optimizerBytes += type.bytes();
    return addInput(InputKind::State, "optimizer." + name, type, std::move(zeros));
  }

  void addInputs() {
    rate_ = addInput(InputKind::Input, "learning_rate", Type(DType::F64, {}));
    if (o_.kind != OptimizerOptions::Sgd)
      step_ = addZeros("step", Type(DType::I64, {}));
    for (const Learned &l : learned_)
      for (const char *state : row_.states) {
        const Type &param = g_.type(l.param);
        Type type = param.dtype == DType::F64 ? param : param.with(DType::F32);
        states_.push_back(addZeros((state + ("." + g_.valueName(l.param))).str(), type));
      }
  }

  // --- Nodes

  void copyWithUpdates() {
    size_t done = 0;
    auto useUpTo = [&](uint32_t place) {
      for (; done < learned_.size() && learned_[done].place <= place; ++done)
        if (o_.clipNorm)
          addSquares(learned_[done]);
        else
          update(learned_[done], done);
    };
    const auto numNodes = static_cast<uint32_t>(g_.numNodes());
    for (uint32_t i = 0; i < numNodes; ++i) {
      useUpTo(i);
      r_.copyNode(NodeId(i));
    }
    useUpTo(numNodes);
    if (!o_.clipNorm)
      return;
    clip_ = clipFactor(*o_.clipNorm);
    for (size_t i = 0; i < learned_.size(); ++i)
      update(learned_[i], i);
  }

  void addSquares(const Learned &l) {
    ValueId g = r_.map(l.gradient);
    ValueId wide = b_.cast(g, b_.type(g).dtype == DType::F64 ? DType::F64 : DType::F32);
    ValueId squares = b_.sum(b_.create("square", {wide}), {}, /*keepDims=*/false);
    squares_ = squares_ ? b_.add(squares_, b_.cast(squares, b_.type(squares_).dtype)) : squares;
  }

  // The factor for all gradients, as in torch.nn.utils.clip_grad_norm_: 1 if their norm is below
  // the limit.
  ValueId clipFactor(double limit) {
    ValueId norm = b_.create("sqrt", {squares_}, {}, r_.freshName("gradient_norm"));
    ValueId factor = b_.scale(b_.create("reciprocal", {b_.shift(norm, 1e-6)}), limit);
    return b_.create("clamp", {factor}, {{"max", 1.0}}, r_.freshName("clip_factor"));
  }

  std::string nextName(ValueId of) { return r_.freshName("state." + r_.to().valueName(of).str()); }

  // The number of this step, counted from 1.
  ValueId stepNow() {
    if (next_.empty()) {
      ValueId one = b_.full(b_.type(step_), 1);
      next_.push_back({b_.create("add", {step_, one}, {}, nextName(step_)), step_});
    }
    return next_.front().now;
  }

  void update(const Learned &l, size_t index) {
    if (NodeId maker = g_.value(l.gradient).def)
      b_.device = g_.node(maker).device;
    ValueList operands = {r_.map(l.param), r_.map(l.gradient)};
    if (clip_)
      operands[1] = b_.mul(operands[1], b_.cast(clip_, b_.type(operands[1]).dtype));
    const size_t numStates = row_.states.size();
    for (size_t i = 0; i < numStates; ++i)
      operands.push_back(states_[index * numStates + i]);
    operands.push_back(rate_);
    if (step_)
      operands.push_back(stepNow());
    const Node &n =
        r_.to().node(b_.createNode(row_.op, operands, row_.attrs, nextName(operands[0])));
    next_.push_back({n.result(0), operands[0]});
    for (size_t i = 0; i < numStates; ++i) {
      const ValueId now = n.result(static_cast<uint32_t>(i + 1));
      r_.to().rename(now, nextName(operands[i + 2]));
      next_.push_back({now, operands[i + 2]});
    }
    out_.gradientBytes += g_.type(l.gradient).bytes();
  }

  void finish() {
    std::vector<Rebuilder::OldOutput> kept;
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (g_.role(i).kind != OutputKind::Gradient)
        kept.push_back({g_.outputs()[i], g_.role(i)});
    Graph g = r_.finish(kept);
    for (const Next &next : next_)
      g.addOutput(next.now, {OutputKind::NextState, next.of});
    out_.rate = rate_;
    out_.parameters = learned_.size();
    out_.graph = withLateUpdates(withoutDeadNodes(g)); // these keep all inputs
  }

  // The next value of an input; both are values of the new graph.
  struct Next {
    ValueId now, of;
  };

  const Graph &g_;
  const OptimizerOptions &o_;
  Rebuilder r_;
  Builder b_;
  const Row row_ = rowOf(o_);
  std::vector<Learned> learned_;
  ValueId rate_, step_;    // the inputs; `step_` is null for sgd
  ValueId squares_, clip_; // sum of squares of all gradients, clip factor; null without clipping
  std::vector<ValueId> states_; // the states of learned_[0], then of learned_[1], ...
  std::vector<Next> next_;
  UpdatedGraph out_;
};

} // namespace

llvm::ArrayRef<llvm::StringRef> optimizerNames() { return kNames; }
llvm::StringRef optimizerName(OptimizerOptions::Kind k) { return kNames[k]; }
std::optional<OptimizerOptions::Kind> parseOptimizer(llvm::StringRef name) {
  const auto *found = llvm::find(kNames, name);
  if (found == std::end(kNames))
    return std::nullopt;
  return static_cast<OptimizerOptions::Kind>(found - std::begin(kNames));
}

llvm::Expected<UpdatedGraph> withUpdates(const Graph &g, const OptimizerOptions &o) {
  return Updating(g, o).run();
}

} // namespace isthmus
