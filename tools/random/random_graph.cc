#include "tools/random/random_graph.h"

#include "ir/builder.h"
#include "ir/check.h"
#include <algorithm>
#include <cmath>

namespace isthmus {
namespace {

constexpr double kBound = 8; // of the magnitude of kept values

class Generator {
public:
  explicit Generator(const RandomGraphOptions &o)
      : o_(o), random_(o.seed), g_("random" + std::to_string(o.seed)), b_(g_) {}

  Graph run() {
    for (size_t i = 0, n = 1 + random_.below(3); i < n; ++i)
      keep(input(InputKind::Input, "x", randomDims()), 6);
    for (unsigned i = 0; i < o_.steps; ++i)
      step();
    finish();
    return std::move(g_);
  }

private:
  // --- Values, each with a bound of its magnitude. Later steps may read those in `kept_`.
  struct Kept {
    ValueId v;
    double bound;
  };

  const Type &type(ValueId v) const { return g_.type(v); }
  const Dims &dims(ValueId v) const { return g_.type(v).dims; }
  Type typeOf(llvm::ArrayRef<int64_t> d) const { return Type(o_.dtype, d); }

  void keep(ValueId v, double bound) {
    if (type(v).elements() > 0 && type(v).dtype == o_.dtype)
      kept_.push_back(bound <= kBound ? Kept{v, bound} : Kept{make("tanh", {v}), 1});
  }
  void keepResults(NodeId n, std::initializer_list<double> bounds) {
    uint32_t i = 0;
    for (double b : bounds)
      keep(g_.node(n).result(i++), b);
  }
  // Mostly one of the last values, so that graphs grow deep; sometimes any, for skips and fan-out.
  Kept pick() {
    size_t recent = std::min<size_t>(kept_.size(), 4);
    return random_.oneIn(4) ? random_.of(kept_) : kept_[kept_.size() - 1 - random_.below(recent)];
  }
  // Another value of the same type, or `k` itself.
  Kept pickLike(Kept k) {
    for (int tries = 0; tries < 8; ++tries)
      if (Kept other = random_.of(kept_); type(other.v) == type(k.v))
        return other;
    return k;
  }

  std::string name(llvm::StringRef op) {
    if (o_.oddNames && random_.oneIn(8))
      return "block/" + std::to_string(random_.below(4)) + ":" + op.str() +
             (random_.oneIn(3) ? " \"\\\n" : "");
    return op.str();
  }
  NodeId node(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs = {}) {
    NodeId n = b_.createNode(op, operands, std::move(attrs), name(op));
    if (o_.marks && b_.phase == Phase::Forward && random_.oneIn(6))
      g_.editNode(n).marks.push_back("checkpoint");
    return n;
  }
  ValueId make(llvm::StringRef op, llvm::ArrayRef<ValueId> operands, Attrs attrs = {}) {
    return g_.node(node(op, operands, std::move(attrs))).firstResult;
  }

  ValueId input(InputKind kind, llvm::StringRef base, llvm::ArrayRef<int64_t> d,
                Initializer init = {}) {
    return llvm::cantFail(g_.addInput(kind, name(base), typeOf(d), std::move(init)));
  }
  // A parameter within [-1, 1]; half the time one that exists already.
  ValueId param(llvm::ArrayRef<int64_t> d) {
    for (const Input &i : g_.inputs())
      if (i.kind == InputKind::Param && llvm::makeArrayRef(dims(i.value)) == d && random_.oneIn(2))
        return i.value;
    Initializer init;
    init.kind = Initializer::Kind::Uniform;
    init.args = {{"low", -1.0}, {"high", 1.0}, {"seed", int64_t(random_.below(100))}};
    return input(InputKind::Param, "w", d, init);
  }
  ValueId filled(InputKind kind, llvm::StringRef base, llvm::ArrayRef<int64_t> d, double value) {
    Initializer init;
    init.kind = Initializer::Kind::Fill;
    init.args = {{"value", value}};
    return input(kind, base, d, init);
  }

  Dims randomDims() {
    Dims d;
    for (size_t i = 0, n = 1 + random_.below(3); i < n; ++i)
      d.push_back(1 + int64_t(random_.below(4)));
    return d;
  }
  bool fits(int64_t elements) const { return elements <= o_.mostElements; }
  static int64_t product(llvm::ArrayRef<int64_t> d) { return Type(DType::U8, d).elements(); }

  // --- Steps
  void step() {
    using Step = void (Generator::*)(Kept);
    static constexpr Step steps[] = {&Generator::unary,   &Generator::unary,    &Generator::binary,
                                     &Generator::binary,  &Generator::biased,   &Generator::matmul,
                                     &Generator::matmul,  &Generator::reduce,   &Generator::shape,
                                     &Generator::shape,   &Generator::several,  &Generator::norm,
                                     &Generator::softmax, &Generator::positive, &Generator::drawn};
    (this->*random_.of(steps))(pick());
  }

  void unary(Kept k) {
    static constexpr const char *bounded[] = {"tanh", "sigmoid", "sin", "cos", "erf"};
    static constexpr const char *growing[] = {"silu",       "gelu", "softplus", "relu",
                                              "leaky_relu", "neg",  "abs",      "identity"};
    if (random_.oneIn(2))
      return keep(make(random_.of(bounded), {k.v}), 1);
    switch (random_.below(6)) {
    case 0:
      return keep(make("square", {k.v}), k.bound * k.bound);
    case 1:
      return keep(make("clamp", {k.v}, {{"min", -0.5}, {"max", 1.5}}), 1.5);
    case 2:
      return keep(make("affine", {k.v}, {{"scale", -0.5}, {"shift", 0.25}}), k.bound / 2 + 0.25);
    case 3:
      return keep(make("gelu", {k.v}, {{"approximate", std::string("tanh")}}), k.bound);
    default:
      return keep(make(random_.of(growing), {k.v}), k.bound + 1);
    }
  }

  void binary(Kept k) {
    Kept other = pickLike(k);
    double larger = std::max(k.bound, other.bound);
    switch (random_.below(6)) {
    case 0:
      return keep(make("mul", {k.v, other.v}), k.bound * other.bound);
    case 1:
      return keep(make("sub", {k.v, other.v}), k.bound + other.bound);
    case 2:
      return keep(make("maximum", {k.v, other.v}), larger);
    case 3:
      return keep(make("minimum", {k.v, other.v}), larger);
    case 4:
      return keep(make("where", {make("less", {k.v, other.v}), k.v, other.v}), larger);
    default:
      return keep(make("add", {k.v, other.v}), k.bound + other.bound);
    }
  }

  // Adds a parameter that is broadcast.
  void biased(Kept k) {
    Dims d = dims(k.v);
    for (int64_t &each : d)
      if (random_.oneIn(3))
        each = 1;
    d.erase(d.begin(), d.begin() + random_.below(d.size() + 1));
    ValueId w = param(d);
    if (random_.oneIn(2))
      keep(make("mul", {k.v, w}), k.bound);
    else
      keep(make("add", {k.v, w}), k.bound + 1);
  }

  void matmul(Kept k) {
    if (dims(k.v).size() < 2)
      return unary(k);
    int64_t inner = dims(k.v).back(), outer = 1 + int64_t(random_.below(4));
    if (!fits(type(k.v).elements() / inner * outer))
      return reduce(k);
    bool transposed = random_.oneIn(2);
    ValueId w = param(transposed ? Dims{outer, inner} : Dims{inner, outer});
    ValueId y = make("matmul", {k.v, w}, {{"transpose_b", transposed}});
    keep(y, k.bound * double(inner));
  }

  void reduce(Kept k) {
    if (dims(k.v).size() < 2) // scalar results make later steps trivial
      return unary(k);
    static constexpr const char *ops[] = {"sum", "mean", "max"};
    int64_t axis = int64_t(random_.below(dims(k.v).size()));
    const char *op = random_.of(ops);
    ValueId y = make(op, {k.v}, {{"axes", Ints{axis}}, {"keepdims", random_.oneIn(2)}});
    keep(y, op == ops[0] ? k.bound * double(dims(k.v)[axis]) : k.bound);
  }

  void shape(Kept k) {
    const Dims d = dims(k.v);
    const size_t rank = d.size(), axis = rank ? random_.below(rank) : 0;
    if (rank == 0)
      return unary(k);
    Ints whole(d.begin(), d.end()), zeros(rank, 0);
    switch (random_.below(7)) {
    case 0:
      return keep(make("reshape", {k.v}, {{"dims", Ints{type(k.v).elements()}}}), k.bound);
    case 1: {
      Ints perm(rank);
      for (size_t i = 0; i < rank; ++i)
        perm[i] = int64_t((i + 1) % rank);
      return keep(make("transpose", {k.v}, {{"perm", perm}}), k.bound);
    }
    case 2: {
      if (!fits(2 * type(k.v).elements()) || rank > 3)
        return unary(k);
      whole.insert(whole.begin(), 2);
      return keep(make("broadcast", {k.v}, {{"dims", whole}}), k.bound);
    }
    case 3: {
      Ints starts = zeros;
      if (d[axis] > 1)
        starts[axis] = 1;
      return keep(
          make("slice", {k.v}, {{"starts", starts}, {"limits", whole}, {"steps", Ints(rank, 1)}}),
          k.bound);
    }
    case 4: {
      Ints low = zeros, high = zeros;
      low[axis] = 1;
      if (!fits(type(k.v).elements() / d[axis] * (d[axis] + 1)))
        return unary(k);
      return keep(make("pad", {k.v}, {{"low", low}, {"high", high}}), k.bound);
    }
    case 5: {
      if (!fits(type(k.v).elements() / d[axis] * 4))
        return unary(k);
      ValueId indices = constIndices(1 + random_.below(4), d[axis]);
      return keep(make("gather", {k.v, indices}, {{"axis", int64_t(axis)}}), k.bound);
    }
    default:
      if (rank < 2)
        return unary(k);
      return keep(make("trilu", {k.v}, {{"upper", random_.oneIn(2)}}), k.bound);
    }
  }

  ValueId constIndices(size_t n, int64_t below) {
    Initializer init;
    init.kind = Initializer::Kind::Data;
    init.data = Tensor::make(Type(DType::I64, {int64_t(n)}), [&](char *p) {
      for (size_t i = 0; i < n; ++i)
        reinterpret_cast<int64_t *>(p)[i] = int64_t(random_.below(below));
    });
    Type t = init.data.type;
    return llvm::cantFail(g_.addInput(InputKind::Const, name("indices"), t, init));
  }

  // Splits a value and concatenates its parts in another order.
  void several(Kept k) {
    if (dims(k.v).empty() || dims(k.v).back() < 2)
      return biased(k);
    int64_t axis = int64_t(dims(k.v).size()) - 1, size = dims(k.v).back();
    NodeId parts = node("split", {k.v}, {{"axis", axis}, {"sizes", Ints{1, size - 1}}});
    ValueId first = g_.node(parts).result(0), rest = g_.node(parts).result(1);
    if (random_.oneIn(2))
      keep(rest, k.bound);
    keep(make("concat", {rest, make("tanh", {first})}, {{"axis", axis}}), k.bound + 1);
  }

  void norm(Kept k) {
    const Dims d = dims(k.v);
    if (d.size() >= 2 && o_.updates && random_.oneIn(2)) {
      Dims channels = {d[1]};
      ValueId mean = filled(InputKind::State, "mean", channels, 0),
              var = filled(InputKind::State, "var", channels, 1);
      NodeId n = node("batch_norm", {k.v, param(channels), param(channels), mean, var},
                      {{"epsilon", 0.01}});
      // No normalised element exceeds the root of the number of elements that share a mean.
      keep(g_.node(n).firstResult, std::sqrt(double(type(k.v).elements())) + 1);
      update(mean, g_.node(n).result(1));
      update(var, g_.node(n).result(2));
      return;
    }
    if (d.empty())
      return unary(k);
    NodeId n = node("layer_norm", {k.v, param({d.back()}), param({d.back()})}, {{"epsilon", 0.01}});
    keepResults(n, {std::sqrt(double(d.back())) + 1, k.bound});
  }

  void update(ValueId state, ValueId now) {
    b_.phase = Phase::Update;
    NodeId n = b_.createNode("running_average", {state, now}, {{"momentum", 0.75}},
                             "state." + g_.valueName(state).str());
    b_.phase = Phase::Forward;
    updated_.push_back({g_.node(n).firstResult, state});
  }

  void softmax(Kept k) {
    if (dims(k.v).empty())
      return unary(k);
    if (random_.oneIn(2))
      return keep(make("softmax", {k.v}), 1);
    keep(make("log_softmax", {k.v}), 2 * k.bound + std::log(double(dims(k.v).back())));
  }

  // Ops that need operands above zero, and division.
  void positive(Kept k) {
    ValueId above = make("affine", {make("sigmoid", {k.v})}, {{"shift", 0.5}}); // (0.5, 1.5)
    static constexpr const char *ops[] = {"log", "sqrt", "rsqrt", "reciprocal"};
    if (random_.oneIn(3))
      return keep(make("div", {pickLike(k).v, above}), 2 * kBound);
    if (random_.oneIn(3))
      return keep(make("exp", {above}), 5);
    keep(make(random_.of(ops), {above}), 2);
  }

  void drawn(Kept k) {
    if (!o_.random)
      return unary(k);
    int64_t stream = stream_++;
    if (random_.oneIn(2))
      return keep(make("dropout", {k.v}, {{"ratio", 0.25}, {"stream", stream}}), k.bound / 0.75);
    Attrs attrs = {{"dims", Ints(dims(k.v).begin(), dims(k.v).end())},
                   {"type", dtypeName(o_.dtype).str()},
                   {"stream", stream}};
    if (random_.oneIn(2))
      return keep(make("add", {k.v, make("uniform", {}, attrs)}), k.bound + 1);
    keep(make("add", {k.v, make("normal", {}, attrs)}), k.bound + 8);
  }

  // The loss: the mean of the last value and of a few others. Nodes that lead to none of them are
  // dead.
  void finish() {
    ValueId total = make("mean", {kept_.back().v});
    for (size_t i = 0, n = random_.below(3); i < n; ++i)
      total = make("add", {total, make("mean", {random_.of(kept_).v})});
    g_.rename(total, g_.uniqueName("loss"));
    g_.loss = total;
    g_.addOutput(total);
    if (ValueId last = kept_.back().v; random_.oneIn(2) && g_.value(last).def)
      g_.addOutput(last);
    for (auto [now, state] : updated_)
      g_.addOutput(now, {OutputKind::NextState, state});
  }

  const RandomGraphOptions o_;
  Random random_;
  Graph g_;
  Builder b_;
  std::vector<Kept> kept_;
  std::vector<std::pair<ValueId, ValueId>> updated_; // with their states
  int64_t stream_ = 0;
};

} // namespace

Graph randomGraph(const RandomGraphOptions &options) {
  ISTHMUS_CHECK(options.dtype == DType::F32 || options.dtype == DType::F64,
                "random graphs are of f32 or f64");
  return Generator(options).run();
}

} // namespace isthmus
