#include "ir/provenance.h"

#include "ir/chunk_pieces.h"
#include "ir/derived_values.h"
#include "ir/fixed_point.h"
#include "ir/inverse_rules.h"
#include "ir/op_registry.h"
#include "ir/spelling.h"
#include "ir/storage.h"
#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringSet.h"

namespace isthmus {

ValueId originalValue(const Graph &g, ValueId v) {
  while (NodeId def = g.value(v).def) {
    const Node &n = g.node(def);
    if (n.isClone())
      v = g.node(n.from.origin).result(g.value(v).resultIndex);
    else if (n.is(StandIn::Chunk) && g.value(v).resultIndex > 0 && g.value(n.from.restores).def)
      // Of results that every chunk gives whole, such as given statistics, readers take those of
      // one.
      v = g.node(g.value(n.from.restores).def).result(g.value(v).resultIndex);
    else if (n.isRestoring())
      v = n.from.restores;
    else
      break;
  }
  return v;
}

NodeId forwardNodeOf(const Graph &g, NodeId id) {
  if (g.node(id).isStandIn())
    id = g.value(originalValue(g, g.node(id).firstResult)).def;
  if (!id)
    return NodeId();
  const Node &n = g.node(id);
  return n.phase == Phase::Forward ? id : n.from.gradientOf;
}

namespace {

// Whether the op makes an encoding, by the rows whose readers take one.
bool isEncodingOp(llvm::StringRef op) {
  static const llvm::StringSet<> *const encodings = [] {
    auto *found = new llvm::StringSet<>;
    for (const OpDef *row : OpRegistry::get().rows())
      for (const Encoding &e : row->encodings)
        found->insert(e.op);
    return found;
  }();
  return encodings->count(op) > 0;
}

// The kind of a node that restores a value, by its op. Inverses and helpers compute alike.
StandIn kindByOp(const Node &n) {
  return n.op->is(kStopsGradient)                                      ? StandIn::Boundary
         : n.op->is(kTransfer) || n.op->isMessage() || n.op->is(kWait) ? StandIn::Transfer
         : isEncodingOp(n.op->name)                                    ? StandIn::Encoding
                                                                       : StandIn::Inverse;
}

// Whether the node passes its first operand on, in any memory. (The token of a send stands for what
// was sent.)
bool passesOn(const Node &n) { return n.is(StandIn::Boundary) || n.is(StandIn::Transfer); }

// A node of `op` without attributes of its own, to number it.
Node plainNode(llvm::StringRef op) {
  Node n;
  n.op = &OpRegistry::get().at(op);
  n.numResults = 1;
  llvm::cantFail(completeAttrs(*n.op, n.attrs));
  return n;
}

class ProvenanceCheck {
public:
  explicit ProvenanceCheck(const Graph &g)
      : g_(g), derived_(g.numValues()), numbers_(g.numValues(), kNone),
        isReported_(unsigned(g.numNodes())) {}

  std::vector<Violation> run() {
    findOriginals();
    numberInverses();
    for (const Input &i : g_.inputs())
      numbers_[i.value.index] = i.value.index;
    for (size_t i = 0; i < g_.numReplaced(); ++i)
      for (uint32_t r = 0; r < g_.node(g_.replaced(i)).numResults; ++r)
        numbers_[g_.node(g_.replaced(i)).result(r).index] = g_.node(g_.replaced(i)).result(r).index;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      checkNode(NodeId(i));
    for (size_t i = 0; i < g_.outputs().size(); ++i) {
      checkNamed(g_.outputs()[i], "an output");
      if (g_.role(i).kind != OutputKind::Result)
        checkNamed(g_.role(i).of, "the role of an output");
    }
    if (g_.loss)
      checkNamed(g_.loss, "the loss");
    checkSourceOrder();
    llvm::stable_sort(found_,
                      [](const Violation &a, const Violation &b) { return a.node < b.node; });
    return std::move(found_);
  }

private:
  // Each node is reported once.
  bool reported(NodeId n) const {
    return Graph::isReplaced(n) ? isReportedAbsent_.count(n) : isReported_.test(n.index);
  }
  template <typename... Args> void report(NodeId node, const char *format, Args &&...args) {
    if (reported(node))
      return;
    if (Graph::isReplaced(node))
      isReportedAbsent_.insert(node);
    else
      isReported_.set(node.index);
    found_.push_back({node, llvm::formatv(format, std::forward<Args>(args)...).str()});
  }
  std::string name(ValueId v) const { return valueText(g_.valueName(v)); }
  std::string name(NodeId n) const { return name(g_.node(n).firstResult); }

  // A piece of a value stands for itself, and the whole of one for that value.
  void findOriginals() {
    ChunkPieces pieces = chunkPiecesOf(g_);
    found_ = std::move(pieces.wrong);
    for (const Violation &v : found_)
      isReported_.set(v.node.index);
    originals_.reserve(g_.numValues());
    for (uint32_t i = 0; i < g_.numValues(); ++i) {
      const Value &v = g_.value(ValueId(i));
      const Node *n = v.def ? &g_.node(v.def) : nullptr;
      if (n && n->is(StandIn::Chunk)) {
        const ChunkPiece &piece = pieces.of[i];
        originals_.push_back(piece.kind == ChunkPiece::Whole ? piece.of : ValueId(i));
        continue;
      }
      const ValueId of = n && n->isClone()       ? g_.node(n->from.origin).result(v.resultIndex)
                         : n && n->isRestoring() ? n->from.restores
                                                 : ValueId(i);
      // What it stands for may itself stand for the whole of another value.
      originals_.push_back(of.index < i ? originals_[of.index] : of);
    }
  }
  ValueId original(ValueId v) const { return originals_[v.index]; }

  // --- Inverses

  static bool isOfInverse(const Node &n) { return n.is(StandIn::Inverse) || n.is(StandIn::Helper); }

  // Numbers what the op table's inverses compute, if the graph has any.
  void numberInverses() {
    bool hasInverses = false;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      hasInverses |= isOfInverse(g_.node(NodeId(i)));
    if (!hasInverses)
      return;
    const Graph traced = tracedGraph();
    InverseRuleOptions o;
    // Nodes of a rule that read weights alone may restore any value.
    o.isWanted = [](ValueId) { return true; };
    o.iterations = 1;
    const InverseRules rules = inverseRules(traced, o);
    std::vector<uint32_t> numbers(rules.nodes.numValues(), kNone);
    for (const Input &i : rules.nodes.inputs())
      numbers[i.value.index] = rules.standsFor[i.value.index].index;
    for (uint32_t i = 0; i < rules.nodes.numNodes(); ++i)
      numberNode(rules.nodes.node(NodeId(i)), numbers);
    const std::vector<ValueId> roots = storageRoots(traced);
    for (const InverseRule &rule : rules.rules) {
      inverses_.insert({rule.rebuilds.index, numbers[rule.made.index]});
      if (!rule.isRun())
        continue;
      for (const FixedPoint &f : fixedPointsOf(traced, rule.reader))
        if (roots[traced.node(f.sum).operands[f.operand].index] == rule.rebuilds)
          joinIterations(traced, f);
    }
    endOfInverses_ = derived_.end();
  }

  void numberNode(const Node &n, std::vector<uint32_t> &numbers) {
    llvm::SmallVector<uint32_t, 4> operands;
    for (ValueId v : n.operands)
      operands.push_back(numbers[v.index]);
    const uint32_t first = derived_.of(n, operands);
    for (uint32_t r = 0; r < n.numResults; ++r)
      numbers[n.result(r).index] = first + r;
  }

  // All iterations x = y - f(x) of a fixed point, from x = y or x itself, get one number.
  void joinIterations(const Graph &traced, const FixedPoint &f) {
    const Node &sum = traced.node(f.sum);
    const ValueId x = sum.operands[f.operand], branch = sum.operands[1 - f.operand];
    const uint32_t y = sum.firstResult.index;
    const Node sub = plainNode("sub");
    auto branchOf = [&](uint32_t from) {
      llvm::DenseMap<ValueId, uint32_t> now{{x, from}};
      for (NodeId id : f.nodes) {
        const Node &n = traced.node(id);
        llvm::SmallVector<uint32_t, 4> operands;
        for (ValueId v : n.operands)
          operands.push_back(now.count(v) ? now.lookup(v) : v.index);
        const uint32_t first = derived_.of(n, operands);
        for (uint32_t r = 0; r < n.numResults; ++r)
          now[n.result(r)] = first + r;
      }
      return now.lookup(branch);
    };
    const uint32_t iterated = derived_.of(sub, {y, branchOf(y)});
    derived_.alias(sub, {y, branchOf(iterated)}, iterated);
    derived_.alias(sub, {y, branchOf(x.index)}, iterated);
  }

  // The graph in which nodes of the original read the original's values, where the types allow it.
  Graph tracedGraph() const {
    Graph traced = g_;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.isStandIn() || llvm::all_of(n.operands, [&](ValueId v) { return original(v) == v; }))
        continue;
      OpCall call = g_.call(NodeId(i));
      for (size_t k = 0; k < n.operands.size(); ++k)
        call.operands[k] = g_.type(original(n.operands[k]));
      auto types = inferTypes(*n.op, n.attrs, call.operands);
      if (!types) {
        llvm::consumeError(types.takeError());
        continue;
      }
      if (llvm::makeArrayRef(*types).equals(call.results))
        for (ValueId &v : traced.editNode(NodeId(i)).operands)
          v = original(v);
    }
    return traced;
  }

  // --- Nodes

  void checkNode(NodeId id) {
    const Node &n = g_.node(id);
    if (n.is(StandIn::Chunk)) { // checked as a piece
      for (uint32_t r = 0; r < n.numResults; ++r)
        numbers_[n.result(r).index] = original(n.result(r)).index;
      return;
    }
    if (n.isRestoring())
      return numberRestoring(id);
    if (n.isClone())
      checkClone(id);
    else if (auto piece = llvm::find_if(n.operands, [&](ValueId v) { return isPiece(v); });
             piece != n.operands.end())
      report(id,
             "'{0}' reads '{1}', which is only a part of '{2}'; expected what the chunks put "
             "together",
             name(id), name(*piece), name(g_.node(g_.value(original(*piece)).def).from.restores));
    for (uint32_t i = 0; i < n.operands.size(); ++i)
      checkRead(id, i);
    for (uint32_t r = 0; r < n.numResults; ++r)
      numbers_[n.result(r).index] = original(n.result(r)).index;
  }

  // Whether the value is a part of one of the original.
  bool isPiece(ValueId v) const {
    const NodeId def = g_.value(original(v)).def;
    return def && g_.node(def).is(StandIn::Chunk);
  }

  void checkClone(NodeId id) {
    const Node &n = g_.node(id), &o = g_.node(n.from.origin);
    if (n.op->runsOnce)
      return report(id, "'{0}' is a clone of '{1}', but '{2}' runs once in a step", name(id),
                    name(n.from.origin), n.op->name);
    if (n.operands.size() != o.operands.size())
      return report(id, "'{0}' is a clone of '{1}', but has {2} operands, not {3}", name(id),
                    name(n.from.origin), n.operands.size(), o.operands.size());
    for (size_t i = 0; i < n.operands.size(); ++i)
      if (const ValueId got = original(n.operands[i]), want = original(o.operands[i]); got != want)
        return report(id, "'{0}' is a clone of '{1}', but reads {2}; expected '{3}'{4}", name(id),
                      name(n.from.origin), shown(n.operands[i]), name(want),
                      " or what stands for it");
  }

  // A value, and what it stands for if that is another.
  std::string shown(ValueId v) const {
    const ValueId of = original(v);
    return "'" + name(v) + "'" + (of == v ? "" : ", which stands for '" + name(of) + "'");
  }

  // Whether the kind is one that the op can be.
  bool isPossible(const Node &n) const {
    const StandIn byOp = kindByOp(n);
    return n.is(byOp) || (byOp == StandIn::Inverse && n.is(StandIn::Helper)) ||
           (byOp == StandIn::Boundary && isOfInverse(n)) ||
           (byOp == StandIn::Encoding && isOfInverse(n));
  }

  void numberRestoring(NodeId id) {
    const Node &n = g_.node(id);
    const ValueId whole = original(n.from.restores);
    if (!isPossible(n)) {
      report(id, "'{0}' is of kind '{1}' for '{2}', which '{3}' cannot be", name(id),
             standInName(n.from.kind), name(whole), n.op->name);
    } else if (passesOn(n)) {
      if (n.operands.empty() || numbers_[n.operands[0].index] != whole.index)
        report(id, "'{0}' restores '{1}', but passes on {2}; expected '{1}' or what stands for it",
               name(id), name(whole), n.operands.empty() ? "nothing" : shown(n.operands[0]));
      numbers_[n.firstResult.index] = whole.index;
    } else if (n.op->effect == Effect::Pure) {
      numberNode(n, numbers_);
      checkComputes(id);
      for (uint32_t r = 0; r < n.numResults; ++r)
        if (uint32_t &number = numbers_[n.result(r).index]; inverses_.count({whole.index, number}))
          number = whole.index;
    } else {
      report(id, "'{0}' restores '{1}', which '{2}' cannot do", name(id), name(whole), n.op->name);
    }
  }

  // Whether a stand-in computes an encoding of the value, or a part of an inverse.
  void checkComputes(NodeId id) {
    const Node &n = g_.node(id);
    const uint32_t whole = original(n.from.restores).index, number = numbers_[n.firstResult.index];
    const bool isRight =
        n.is(StandIn::Encoding) ? numbers_[n.operands[0].index] == whole : number < endOfInverses_;
    if (isRight && n.is(StandIn::Inverse) && !inverses_.count({whole, number}))
      report(id, "'{0}' is no inverse that restores '{1}', but a part of one; expected helper(...)",
             name(id), name(n.from.restores));
    if (!isRight)
      report(id,
             "'{0}' restores '{1}', but '{2}' of these operands is neither part of an inverse, by "
             "the op table, nor an encoding of '{1}'",
             name(id), name(n.from.restores), n.op->name);
  }

  // Whether reader `id` takes what `v` is for the value that it stands for.
  void checkRead(NodeId id, uint32_t operand) {
    const Node &n = g_.node(id);
    const ValueId v = n.operands[operand], whole = original(v);
    if (v == whole || isEncodedFor(n, operand, v))
      return;
    if (numbers_[v.index] != whole.index && numbers_[v.index] != kNone)
      reportStandIn(g_.value(v).def, "'" + name(id) + "'");
    else if (numbers_[v.index] == kNone || g_.type(v) != g_.type(whole))
      report(id, "'{0}' reads '{1}' of {2}, which only nodes that restore '{3}' may read", name(id),
             name(v), g_.type(v).str(), name(whole));
  }

  bool isEncodedFor(const Node &reader, uint32_t operand, ValueId v) {
    return llvm::any_of(reader.op->encodings, [&](const Encoding &e) {
      return e.operand == operand &&
             derived_.of(plainNode(e.op), original(v).index) == numbers_[v.index];
    });
  }

  void checkNamed(ValueId v, const char *what) {
    if (isPiece(v))
      report(g_.value(v).def, "'{0}' is only a part of a value, and {1}", name(v), what);
    else if (numbers_[v.index] != original(v).index)
      reportStandIn(g_.value(v).def, what);
  }

  void reportStandIn(NodeId id, const std::string &reader) {
    const Node &n = g_.node(id);
    report(id,
           "'{0}' restores '{1}', and {2} takes it for that value, but '{3}' of these operands is "
           "neither an inverse of a node that reads '{1}' nor an encoding of it that suffices",
           name(id), name(n.from.restores), reader, n.op->name);
  }

  // --- The source order

  void checkSourceOrder() {
    bool isGiven = false;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (const Node &n = g_.node(NodeId(i)); n.from.sourceIndex) {
        isGiven = true;
        if (n.isRestoring())
          report(NodeId(i), "'{0}' restores a value, so it has no place in the source order",
                 name(NodeId(i)));
        else if (n.isClone() && *n.from.sourceIndex != sourceIndex(g_, n.from.origin))
          report(NodeId(i),
                 "'{0}' is at {1} of the source order, and '{2}', of which it is a clone, "
                 "at {3}",
                 name(NodeId(i)), *n.from.sourceIndex, name(n.from.origin),
                 sourceIndex(g_, n.from.origin));
      }
    if (!isGiven)
      return;
    llvm::DenseMap<uint64_t, NodeId> taken; // wider than a place, which may be any uint32_t
    for (size_t i = 0; i < g_.numNodes() + g_.numReplaced(); ++i) {
      const NodeId id = i < g_.numNodes() ? NodeId(uint32_t(i)) : g_.replaced(i - g_.numNodes());
      if (g_.node(id).isStandIn() || reported(id))
        continue;
      if (auto [it, isFirst] = taken.try_emplace(sourceIndex(g_, id), id); !isFirst)
        reportPlaced(id, it->second,
                     llvm::formatv("'{0}' and '{1}' are both at {2} of the source order",
                                   name(it->second), name(id), sourceIndex(g_, id))
                         .str());
      for (ValueId v : g_.node(id).operands)
        if (const NodeId def = g_.value(original(v)).def;
            def && sourceIndex(g_, def) > sourceIndex(g_, id))
          reportPlaced(id, def,
                       llvm::formatv("'{0}' is at {1} of the source order, and reads '{2}', which "
                                     "is made later, at {3}",
                                     name(id), sourceIndex(g_, id), name(original(v)),
                                     sourceIndex(g_, def))
                           .str());
    }
  }

  // Reports at the later of two nodes that says where it is in the source order.
  void reportPlaced(NodeId id, NodeId other, const std::string &message) {
    report(g_.node(id).from.sourceIndex ? id : other, "{0}", message);
  }

  static constexpr uint32_t kNone = ~uint32_t(0);

  const Graph &g_;
  std::vector<ValueId> originals_; // by value: the value of the original that it stands for
  DerivedValues derived_;
  std::vector<uint32_t> numbers_; // by value; that of the value it stands for if it has its content
  llvm::DenseSet<std::pair<uint32_t, uint32_t>> inverses_; // rebuilt value, number of its inverse
  uint32_t endOfInverses_ = 0; // the numbers of values that inverses compute are below it
  llvm::BitVector isReported_; // by node
  llvm::DenseSet<NodeId> isReportedAbsent_; // nodes that chunks replaced
  std::vector<Violation> found_;
};

} // namespace

// An inverse computes a value of the type of the one that it restores, not from that value, and no
// other node reads its result to restore the same value; the other nodes that compute are helpers.
void inferStandIns(Graph &g) {
  llvm::BitVector onlyHelps(unsigned(g.numNodes()));
  for (uint32_t i = uint32_t(g.numNodes()); i-- > 0;) {
    Node &n = g.editNode(NodeId(i));
    const ValueId whole = n.from.restores;
    if (!whole || n.isStandIn())
      continue;
    n.from.kind = kindByOp(n);
    if (!n.is(StandIn::Inverse))
      continue;
    bool isMadeOfIt = false;
    for (ValueId v : n.operands) {
      const NodeId def = g.value(v).def;
      isMadeOfIt |= v == whole || (def && g.node(def).isClone() && originalValue(g, v) == whole);
      if (def && g.node(def).from.restores == whole)
        onlyHelps.set(def.index);
    }
    if (g.type(n.firstResult) != g.type(whole) || isMadeOfIt || onlyHelps.test(i))
      n.from.kind = StandIn::Helper;
  }
}

std::vector<Violation> provenanceViolations(const Graph &g) {
  return g.isRewritten() ? ProvenanceCheck(g).run() : std::vector<Violation>();
}

} // namespace isthmus
