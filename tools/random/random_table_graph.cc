#include "tools/random/random_table_graph.h"

#include "ir/builder.h"
#include "ir/check.h"
#include "ir/text/parser.h"
#include "tools/random/operand_maker.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

constexpr unsigned kDirectTries = 8;

class Generator {
public:
  explicit Generator(const RandomTableOptions &o)
      : o_(o), random_(o.seed * 2 + 1), out_{Graph("table" + std::to_string(o.seed)), {}},
        m_(out_.graph, random_, o.dtype, o.oddNames) {}

  RandomTableGraph run() {
    for (size_t i = 0, n = 1 + random_.below(2); i < n; ++i)
      m_.keep(m_.drawnInput(InputKind::Input, Type(o_.dtype, smallDims()), -2, 2));
    llvm::ArrayRef<const OpDef *> rows = OpRegistry::get().computedRows();
    for (unsigned i = 0; i < o_.steps; ++i) {
      // Every second step takes the next row in turn, so that a few hundred graphs cover every row.
      bool turn = i % 2 == 0;
      size_t row = turn ? (o_.seed * ((o_.steps + 1) / 2) + i / 2) % rows.size()
                        : random_.below(rows.size());
      if (!turn && o_.updates && random_.oneIn(8))
        update();
      else if (!turn && random_.oneIn(6))
        residual();
      else
        insert(*rows[row]);
    }
    finish();
    return std::move(out_);
  }

private:
  Graph &g() { return out_.graph; }

  struct Call {
    CallText text;
    std::vector<ValueId> given; // operands that exist already; null: one must be made
  };

  // --- Templates

  // An example with the graph's float type. Nothing if the row does not accept the type, or the
  // options exclude the example.
  std::optional<Call> fromExample(const OpDef &op) {
    std::string text = random_.of(op.examples);
    const std::string wanted = dtypeName(o_.dtype).str();
    for (size_t at = 0; (at = text.find("f64", at)) != std::string::npos; at += 3)
      text.replace(at, 3, wanted);
    Call call;
    call.text = llvm::cantFail(parseCall(text));
    call.given.resize(call.text.operands.size());
    if (call.text.attrs.find("stream") && op.effect == Effect::Draws)
      call.text.attrs.set("stream", stream_++);
    auto results = inferred(call);
    if (!results)
      return std::nullopt;
    auto narrow = [&](const Type &t) { return isFloat(t.dtype) && t.dtype != o_.dtype; };
    if (!o_.mixed && (llvm::any_of(*results, narrow) || llvm::any_of(call.text.operands, narrow)))
      return std::nullopt;
    return call;
  }

  std::optional<TypeList> inferred(const Call &call) {
    auto types = inferTypes(*call.text.op, call.text.attrs, call.text.operands);
    if (types)
      return *types;
    llvm::consumeError(types.takeError());
    return std::nullopt;
  }

  // Whether a varied call is acceptable: no larger than allowed, and without results of empty
  // operands, since the mean or the maximum of no element is not a number.
  bool accepted(const Call &call) {
    auto types = inferred(call);
    if (!types)
      return false;
    auto isEmpty = [](const Type &t) { return t.elements() == 0; };
    if (llvm::any_of(*types, [&](const Type &t) { return t.elements() > o_.mostElements; }))
      return false;
    return llvm::none_of(call.text.operands, isEmpty) ||
           (o_.empty && llvm::all_of(*types, isEmpty));
  }

  // Uses existing values as operands without changes: unary rows on any shape, binary rows that
  // broadcast.
  bool takeValuesAsTheyAre(Call &call) {
    for (unsigned t = 0; t < kDirectTries; ++t) {
      Call direct = call;
      for (size_t i = 0; i < direct.given.size(); ++i) {
        Type &type = direct.text.operands[i];
        if (!isFloat(type.dtype) || random_.oneIn(4))
          continue;
        direct.given[i] = m_.anyFloat();
        type.dims = g().type(direct.given[i]).dims;
      }
      if (accepted(direct)) {
        call = std::move(direct);
        return true;
      }
    }
    return false;
  }

  // Replaces one size, wherever it occurs, by another, which may be 1 or 0.
  void resize(Call &call) {
    Call other = call;
    std::vector<int64_t> sizes;
    for (const Type &t : other.text.operands)
      sizes.insert(sizes.end(), t.dims.begin(), t.dims.end());
    if (sizes.empty())
      return;
    int64_t from = random_.of(sizes), to = o_.empty && random_.oneIn(4) ? 0 : 1 + random_.below(5);
    for (Type &t : other.text.operands)
      for (int64_t &d : t.dims)
        if (d == from)
          d = to;
    if (accepted(other))
      call = std::move(other);
  }

  // Gives one operand fewer axes, or axes of one element, if the row broadcasts it.
  void broadcastOne(Call &call) {
    if (call.given.empty())
      return;
    Call other = call;
    Type &t = other.text.operands[random_.below(other.given.size())];
    for (int64_t &d : t.dims)
      if (random_.oneIn(2))
        d = 1;
    t.dims.erase(t.dims.begin(), t.dims.begin() + random_.below(t.dims.size() + 1));
    if (accepted(other))
      call = std::move(other);
  }

  // --- Steps

  bool insert(const OpDef &op) {
    if (op.is(kStopsGradient) && !o_.cuts)
      return false;
    std::optional<Call> call;
    for (int tries = 0; tries < 6 && !call; ++tries)
      call = fromExample(op);
    if (!call)
      return false;
    switch (random_.below(4)) {
    case 0:
      break;
    case 1:
      resize(*call);
      break;
    case 2:
      broadcastOne(*call);
      break;
    default:
      takeValuesAsTheyAre(*call);
    }
    add(*call, Phase::Forward);
    return true;
  }

  // Adds state that a row updates: optimizers, running averages, sums.
  void update() {
    const OpDef &op = *random_.of(OpRegistry::get().computedRows());
    bool overFirst = llvm::any_of(op.inPlace, [](InPlace p) { return !p.result && !p.operand; });
    std::optional<Call> call = fromExample(op);
    if (!call || !overFirst || call->given.size() < 2 || !isFloat(call->text.operands[0].dtype) ||
        call->text.operands[0] != (*inferred(*call))[0])
      return;
    call->given[0] = m_.drawnInput(InputKind::State, call->text.operands[0], op.low, op.high);
    NodeId n = add(*call, Phase::Update);
    for (uint32_t r = 0; r < g().node(n).numResults; ++r)
      g().addOutput(g().node(n).result(r));
  }

  // Adds x + f(x); f may also read a new input.
  void residual() {
    Builder b(g());
    const ValueId x = m_.anyFloat();
    ValueId f = m_.squashed(x, -1, 1);
    if (random_.oneIn(2))
      f = b.mul(f, m_.drawnInput(InputKind::Input, g().type(x), -1, 1));
    m_.keep(b.add(x, f));
  }

  NodeId add(Call &call, Phase phase) {
    const OpDef &op = *call.text.op;
    OpCall types;
    types.op = &op;
    types.attrs = &call.text.attrs;
    types.operands.assign(call.text.operands.begin(), call.text.operands.end());
    TypeList results = *inferred(call);
    types.results.assign(results.begin(), results.end());
    ValueList operands;
    for (size_t i = 0; i < call.given.size(); ++i)
      operands.push_back(m_.operand(types, i, call.given[i]));
    std::vector<std::string> names;
    for (unsigned i = 0; i < results.size(); ++i)
      names.push_back(m_.name(op.name));
    NodeId n = llvm::cantFail(g().addNode(op, operands, call.text.attrs, names, phase));
    ++out_.calls[op.name];
    if (phase == Phase::Forward) {
      if (o_.marks && random_.oneIn(6))
        g().editNode(n).marks.push_back("checkpoint");
      for (uint32_t r = 0; r < g().node(n).numResults; ++r)
        m_.keep(g().node(n).result(r));
    }
    return n;
  }

  Dims smallDims() {
    Dims d;
    for (size_t i = 0, n = random_.below(4); i < n; ++i)
      d.push_back(1 + int64_t(random_.below(4)));
    return d;
  }

  // --- The end

  void finish() {
    std::vector<bool> isRead(g().numValues());
    for (uint32_t i = 0; i < g().numNodes(); ++i)
      for (ValueId v : g().node(NodeId(i)).operands)
        isRead[v.index] = true;
    ValueList unread;
    const uint32_t values = uint32_t(g().numValues());
    for (uint32_t i = 0; i < values; ++i)
      if (const Value &v = g().value(ValueId(i));
          !isRead[i] && v.def && g().node(v.def).phase == Phase::Forward)
        unread.push_back(ValueId(i));
    ValueId total;
    for (ValueId v : unread) {
      const Type &t = g().type(v);
      if (isFloat(t.dtype) && t.elements() > 0 && !random_.oneIn(6))
        total = plus(total, v);
      else if (random_.oneIn(2))
        g().addOutput(v);
    }
    if (!total)
      total = plus(total, m_.anyFloat());
    g().rename(total, g().uniqueName("loss"));
    g().loss = total;
    ValueList outputs = {total};
    outputs.append(g().outputs().begin(), g().outputs().end());
    g().clearOutputs();
    for (ValueId v : outputs)
      g().addOutput(v);
  }

  // Adds a weighted mean of the value, or of its squashed form, to the total.
  ValueId plus(ValueId total, ValueId v) {
    Builder b(g());
    v = b.cast(v, o_.dtype);
    v = random_.oneIn(3) ? v : m_.squashed(v, -1, 1);
    v = b.create("mul", {v, m_.drawnInput(InputKind::Input, g().type(v), -1, 1)});
    v = b.create("mean", {v});
    return total ? b.add(total, v) : v;
  }

  const RandomTableOptions o_;
  Random random_;
  RandomTableGraph out_;
  OperandMaker m_;
  int64_t stream_ = 0;
};

} // namespace

RandomTableGraph randomTableGraph(const RandomTableOptions &options) {
  ISTHMUS_CHECK(options.dtype == DType::F32 || options.dtype == DType::F64,
                "random graphs are of f32 or f64");
  return Generator(options).run();
}

RandomTableOptions tableOptions(uint64_t seed) {
  RandomTableOptions o;
  o.seed = seed;
  o.steps = 4 + unsigned(seed % 13);
  o.dtype = seed % 6 == 5 ? DType::F32 : DType::F64;
  o.mixed = seed % 5 == 1;
  o.cuts = seed % 5 == 2;
  return o;
}

} // namespace isthmus
