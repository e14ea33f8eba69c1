#include "ir/verifier.h"

#include "ir/place.h"
#include "ir/provenance.h"
#include "ir/rank.h"
#include "ir/spelling.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

class Verifier {
public:
  Verifier(const Graph &g, VerifyOptions options)
      : g_(g), options_(options), hasMessages_(hasMessages(g)) {}

  std::vector<Violation> run() {
    checkInputs();
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      checkNode(NodeId(i));
    for (size_t i = 0; i < g_.numReplaced(); ++i)
      checkReplaced(g_.replaced(i));
    checkEnds();
    if (found_.empty())
      found_ = provenanceViolations(g_);
    return std::move(found_);
  }

private:
  template <typename... Args> void report(NodeId node, const char *format, Args &&...args) {
    found_.push_back({node, llvm::formatv(format, std::forward<Args>(args)...).str()});
  }
  std::string name(ValueId v) const {
    return v.index < g_.numValues() ? valueText(g_.valueName(v)) : "?";
  }
  std::string name(NodeId n) const { return name(g_.node(n).firstResult); }

  bool isValue(ValueId v) const { return v.index < g_.numValues(); }
  // Whether `v` is defined before node `at` runs.
  bool isBefore(ValueId v, NodeId at) const {
    NodeId def = g_.value(v).def;
    return !def || def < at;
  }

  void checkName(NodeId node, ValueId v) {
    if (g_.valueName(v).empty())
      report(node, "a value has an empty name");
    else if (g_.find(g_.valueName(v)) != v)
      report(node, "two values are named '{0}'", name(v));
  }

  void checkInputs() {
    for (const Input &i : g_.inputs()) {
      checkName(NodeId(), i.value);
      if (!g_.type(i.value).isValid())
        report(NodeId(), "input '{0}' has no valid type: {1}", name(i.value),
               g_.type(i.value).str());
      Initializer init = i.init;
      if (llvm::Error e = completeInitializer(init, g_.type(i.value)))
        report(NodeId(), "the initializer of '{0}' is wrong: {1}", name(i.value),
               llvm::toString(std::move(e)));
    }
  }

  void checkNode(NodeId id) {
    const Node &n = g_.node(id);
    bool operandsAreThere = true;
    for (ValueId v : n.operands) {
      operandsAreThere &= isValue(v) && isBefore(v, id);
      if (!isValue(v))
        report(id, "an operand of '{0}' is no value of the graph", name(id));
      else if (isReplaced(v) && !Graph::isReplaced(id))
        report(id,
               "operand '{0}' of '{1}' is never made, because chunks replace it; expected what "
               "they put together",
               name(v), name(id));
      else if (!isBefore(v, id))
        report(id, "operand '{0}' of '{1}' is made later, in '{2}'", name(v), name(id),
               name(g_.value(v).def));
    }
    for (uint32_t r = 0; r < n.numResults; ++r) {
      checkName(id, n.result(r));
      const int64_t rank = g_.type(n.result(r)).rank();
      if (n.phase == Phase::Forward && rank > kMaxRank)
        report(id, "'{0}' has {1} axes; at most {2} are supported", name(n.result(r)), rank,
               kMaxRank);
      if (g_.value(n.result(r)).def != id)
        report(id, "result '{0}' does not name '{1}' as its node", name(n.result(r)), name(id));
    }
    if (operandsAreThere && options_.inferTypes)
      checkMeaning(id);
    if (operandsAreThere)
      checkTokens(id);
    if (operandsAreThere && n.op->isMessage())
      checkMessage(id);
    if (operandsAreThere)
      checkDevices(id);
    checkGradientOf(id);
    checkOrigin(id);
    checkStandIn(id);
    for (NodeId a : n.from.after)
      if (!(a < id))
        report(id, "'{0}' is to run after '{1}', which does not come before it", name(id),
               a.index < g_.numNodes() ? name(a) : "?");
    checkMarks(id);
  }

  bool isReplaced(ValueId v) const { return Graph::isReplaced(g_.value(v).def); }

  // A node that chunks replace is one of the original, which reads values of the original.
  void checkReplaced(NodeId id) {
    const Node &n = g_.node(id);
    checkNode(id);
    if (n.isStandIn() || !n.from.after.empty())
      report(id, "'{0}' does not run, so it is only a node of the original", name(id));
    if (!n.from.sourceIndex)
      report(id, "'{0}' does not run, so it must say where it was, as from(at(17))", name(id));
    for (ValueId v : n.operands)
      if (const NodeId def = isValue(v) ? g_.value(v).def : NodeId();
          def && g_.node(def).isStandIn())
        report(id, "'{0}' does not run and reads '{1}', which is no value of the original",
               name(id), name(v));
  }

  void checkMeaning(NodeId id) {
    const Node &n = g_.node(id);
    Attrs complete = n.attrs;
    if (llvm::Error e = completeAttrs(*n.op, complete)) {
      report(id, "{0}", llvm::toString(std::move(e)));
      return;
    }
    if (!identical(complete, n.attrs))
      report(id, "'{0}' lacks attributes or has them of the wrong kind", name(id));
    OpCall call = g_.call(id);
    auto types = inferTypes(*n.op, complete, call.operands);
    if (!types) {
      report(id, "{0}", llvm::toString(types.takeError()));
      return;
    }
    if (types->size() != n.numResults) {
      report(id, "'{0}' gives {1} results here, the node has {2}", n.op->name, types->size(),
             n.numResults);
      return;
    }
    for (uint32_t r = 0; r < n.numResults; ++r)
      if ((*types)[r] != call.results[r])
        report(id, "'{0}' gives {1} here, but '{2}' is {3}", n.op->name, (*types)[r].str(),
               name(n.result(r)), call.results[r].str());
  }

  bool isToken(ValueId v) const { return g_.type(v).dtype == DType::Token; }
  // The node's token, which is its last result; none if the node's results are complete as soon as
  // it ran.
  ValueId tokenOf(NodeId id) const {
    const Node &n = g_.node(id);
    ValueId last = n.result(n.numResults - 1);
    return isToken(last) ? last : ValueId();
  }

  // Results that come with a token may only be read by waits for that token, and each such wait
  // holds the operands of the node that made them.
  void checkTokens(NodeId id) {
    const Node &n = g_.node(id);
    if (n.op->is(kWait))
      checkWait(id);
    for (size_t i = 0; i < n.operands.size(); ++i) {
      const ValueId v = n.operands[i];
      const NodeId def = g_.value(v).def;
      if (def && !isToken(v) && tokenOf(def) && !(n.op->is(kWait) && i == 0))
        report(id,
               "'{0}' reads '{1}', which may not be complete; expected it to read what a wait "
               "for '{2}' gives",
               name(id), name(v), name(tokenOf(def)));
    }
  }

  void checkWait(NodeId id) {
    const Node &n = g_.node(id);
    if (n.operands.size() < 2)
      return; // reported by its shape rule
    const NodeId made = g_.value(n.operands[1]).def;
    if (made && g_.node(made).op->is(kSend) && g_.node(made).operands[0] == n.operands[0]) {
      isWaitedFor_.insert(n.operands[1]);
      return;
    }
    const ValueId token = made ? tokenOf(made) : ValueId();
    if (!token || n.operands[1] != token || g_.value(n.operands[0]).def != made) {
      report(id, "'{0}' waits for '{1}', which did not come with '{2}'", name(id),
             name(n.operands[1]), name(n.operands[0]));
      return;
    }
    isWaitedFor_.insert(token);
    auto held = llvm::makeArrayRef(n.operands).drop_front(2);
    for (ValueId v : g_.node(made).operands)
      if (!isToken(v) && !llvm::is_contained(held, v))
        report(id,
               "'{0}' does not hold '{1}', which '{2}' may still be reading; expected it among "
               "its operands",
               name(id), name(v), name(made));
  }

  // Both ends of a message tell the same tag and type, and each the device of the other.
  void checkMessage(NodeId id) {
    const Node &n = g_.node(id);
    if (!n.attrs.find("tag"))
      return; // reported by its attributes
    const int64_t tag = n.attrs.getInt("tag");
    if (n.op->is(kSend)) {
      if (auto [it, isFirst] = sends_.try_emplace(tag, id); !isFirst)
        report(id, "'{0}' and '{1}' both send with tag {2}; expected a number of its own",
               name(it->second), name(id), tag);
      if (const NodeId end = receives_.lookup(tag))
        report(end, "'{0}' receives what '{1}' sends later, so it would wait for ever", name(end),
               name(id));
      return;
    }
    if (auto [it, isFirst] = receives_.try_emplace(tag, id); !isFirst)
      report(id, "'{0}' and '{1}' both receive tag {2}", name(it->second), name(id), tag);
    if (n.operands.empty()) {
      if (const NodeId from = sends_.lookup(tag))
        report(id, "'{0}' receives what '{1}' sends; expected the token '{2}' as operand",
               name(id), name(from), name(g_.node(from).firstResult));
      return;
    }
    const NodeId from = g_.value(n.operands[0]).def;
    const Node *s = from ? &g_.node(from) : nullptr;
    if (!s || !s->op->is(kSend))
      report(id, "'{0}' reads '{1}'; expected the token of a send", name(id), name(n.operands[0]));
    else if (s->attrs.getInt("tag") != tag)
      report(id, "'{0}' receives tag {1}, but '{2}' sends tag {3}", name(id), tag, name(from),
             s->attrs.getInt("tag"));
    else if (s->attrs.getString("to") != deviceOf(n) || n.attrs.getString("from") != deviceOf(*s))
      report(id,
             "'{0}' receives on {1} from {2}, but '{3}' sends from {4} to {5}; expected the same "
             "devices at both ends",
             name(id), deviceOf(n), n.attrs.getString("from"), name(from), deviceOf(*s),
             s->attrs.getString("to"));
    else if (g_.type(n.firstResult) != g_.type(s->operands[0]))
      report(id, "'{0}' receives {1}, but '{2}' sends {3}", name(id), g_.type(n.firstResult).str(),
             name(from), g_.type(s->operands[0]).str());
  }

  // In a graph with messages, a node reads no result of another device's nodes, but by a message.
  // Inputs of kind `param` and `state` are on the device of their first reader.
  void checkDevices(NodeId id) {
    if (!hasMessages_ || Graph::isReplaced(id))
      return;
    const Node &n = g_.node(id);
    for (ValueId v : n.operands) {
      const NodeId def = g_.value(v).def;
      if (!def || n.op->is(kReceive) || Graph::isReplaced(def))
        continue;
      if (deviceOf(g_.node(def)) != deviceOf(n))
        report(id, "'{0}' runs on {1} and reads '{2}', which is on {3}; expected a send there and "
                   "a receive here",
               name(id), deviceOf(n), name(v), deviceOf(g_.node(def)));
    }
  }

  // It relates nodes of the original: a stand-in is of the node of what it stands for.
  void checkGradientOf(NodeId id) {
    const Node &n = g_.node(id);
    const NodeId of = n.from.gradientOf;
    if (!of)
      return;
    if (!isNode(of))
      report(id, "'{0}' is of the gradient of no node of the graph", name(id));
    else if (n.phase != Phase::Backward)
      report(id, "'{0}' is of phase {1}, so it is not of the gradient of '{2}'", name(id),
             phaseName(n.phase), name(of));
    else if (n.isStandIn())
      report(id,
             "'{0}' stands for another node or value, which says of whose gradient it is; expected "
             "'backward' without '{1}'",
             name(id), name(of));
    else if (g_.node(of).phase != Phase::Forward || g_.node(of).isStandIn())
      report(id, "'{0}' is of the gradient of '{1}', which is no forward node of the original",
             name(id), name(of));
  }

  bool isNode(NodeId n) const {
    return Graph::isReplaced(n) ? n.index - Graph::kFirstReplaced < g_.numReplaced()
                                : n.index < g_.numNodes();
  }

  void checkOrigin(NodeId id) {
    const Node &n = g_.node(id);
    if (!n.isClone())
      return;
    if (!(n.from.origin < id)) {
      report(id, "'{0}' is a clone of a node that does not come before it", name(id));
      return;
    }
    const Node &o = g_.node(n.from.origin);
    std::string both = "'" + name(id) + "' is a clone of '" + name(n.from.origin) + "'";
    if (o.isClone())
      report(id, "{0}, which is a clone itself; expected the first, '{1}'", both,
             name(o.from.origin));
    if (o.op != n.op)
      report(id, "{0}, but its op is '{1}', not '{2}'", both, n.op->name, o.op->name);
    else if (!identical(o.attrs, n.attrs))
      report(id, "{0}, but has other attributes", both);
    OpCall a = g_.call(id), b = g_.call(n.from.origin);
    if (a.results != b.results)
      report(id, "{0}, but gives other types", both);
  }

  void checkStandIn(NodeId id) {
    const Node &n = g_.node(id);
    if (!n.isRestoring())
      return;
    const bool isChunkOfReplaced =
        n.is(StandIn::Chunk) && isValue(n.from.restores) && isReplaced(n.from.restores);
    if (!isChunkOfReplaced && (!isValue(n.from.restores) || !isBefore(n.from.restores, id))) {
      report(id, "'{0}' restores a value that does not come before it", name(id));
      return;
    }
    NodeId def = g_.value(n.from.restores).def;
    if (def && g_.node(def).isStandIn() &&
        (n.is(StandIn::Chunk) || !g_.node(def).is(StandIn::Chunk)))
      report(id, "'{0}' restores '{1}', which {2}; expected the value that was first made",
             name(id), name(n.from.restores),
             g_.node(def).isClone() ? "a clone made" : "restores another");
  }

  void checkMarks(NodeId id) {
    const Node &n = g_.node(id);
    for (size_t i = 0; i < n.marks.size(); ++i) {
      if (!isBareName(n.marks[i]))
        report(id, "mark {0} of '{1}' has characters outside [A-Za-z0-9_.$-]", quoted(n.marks[i]),
               name(id));
      for (size_t j = 0; j < i; ++j)
        if (n.marks[j] == n.marks[i])
          report(id, "'{0}' has the mark '#{1}' twice", name(id), n.marks[i]);
    }
    if (!n.device.empty() && !isDeviceName(n.device))
      report(id, "device {0} of '{1}' has characters outside [A-Za-z0-9_.$:-]", quoted(n.device),
             name(id));
  }

  void checkEnds() {
    if (g_.loss && !isValue(g_.loss))
      report(NodeId(), "the loss is no value of the graph");
    else if (g_.loss && isReplaced(g_.loss))
      report(NodeId(), "the loss '{0}' is never made, because chunks replace it", name(g_.loss));
    else if (g_.loss && !g_.type(g_.loss).isPlain())
      report(NodeId(), "the loss '{0}' is to be a tensor in the device's memory, and is {1}",
             name(g_.loss), g_.type(g_.loss).str());
    llvm::DenseSet<ValueId> seen;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      if (ValueId token = tokenOf(NodeId(i)); token && !isWaitedFor_.count(token))
        report(NodeId(i), "nothing waits for '{0}', so '{1}' may go on for ever", name(token),
               name(NodeId(i)));
    for (ValueId v : g_.outputs()) {
      if (!isValue(v))
        report(NodeId(), "an output is no value of the graph");
      else if (isReplaced(v))
        report(NodeId(), "output '{0}' is never made, because chunks replace it", name(v));
      else if (!g_.type(v).isPlain())
        report(NodeId(), "output '{0}' is to be a tensor in the device's memory, and is {1}",
               name(v), g_.type(v).str());
      else if (!seen.insert(v).second)
        report(NodeId(), "'{0}' is an output twice", name(v));
    }
    for (size_t i = 0; i < g_.outputs().size(); ++i)
      if (isValue(g_.outputs()[i]) && g_.role(i).kind != OutputKind::Result)
        checkRole(i);
  }

  // A role names a value of the output's type, and no other output has the same role.
  void checkRole(size_t output) {
    const ValueId v = g_.outputs()[output];
    const OutputRole &role = g_.role(output);
    const bool isGradient = role.kind == OutputKind::Gradient;
    const char *what = isGradient ? "a gradient with respect to" : "the next value of";
    auto reportRole = [&](std::string message) {
      found_.push_back({NodeId(), std::move(message), output});
    };
    if (!isValue(role.of))
      return reportRole("'" + name(v) + "' is " + what + " no value of the graph");
    const std::string text = "'" + name(v) + "' is " + what + " '" + name(role.of) + "'";
    const Input *of = g_.value(role.of).def ? nullptr : g_.inputOf(role.of);
    if (!isGradient && (!of || (of->kind != InputKind::State && of->kind != InputKind::Param)))
      reportRole(text + ", which is carried from no step to the next; expected a state or a param");
    else if (g_.type(v) != g_.type(role.of))
      reportRole(text + " of " + g_.type(role.of).str() + ", but is " + g_.type(v).str() +
                 "; expected the same type");
    else if (isGradient && !isFloat(g_.type(v).dtype))
      reportRole(text + ", whose elements are no floats");
    for (size_t i = 0; i < output; ++i)
      if (const OutputRole &r = g_.role(i);
          r.kind == role.kind && r.of == role.of && r.order == role.order)
        return reportRole(text + ", and so is '" + name(g_.outputs()[i]) +
                          "'; expected one of them");
  }

  const Graph &g_;
  VerifyOptions options_;
  const bool hasMessages_;
  llvm::DenseSet<ValueId> isWaitedFor_;
  llvm::DenseMap<int64_t, NodeId> sends_, receives_; // by tag
  std::vector<Violation> found_;
};

} // namespace

std::vector<Violation> violationsOf(const Graph &g, VerifyOptions options) {
  return Verifier(g, options).run();
}

llvm::Error verify(const Graph &g) {
  std::vector<Diag> diags;
  for (Violation &v : violationsOf(g)) {
    Diag d;
    d.where = v.node ? g.whereIs(v.node) : g.sourceFile;
    d.message = std::move(v.message);
    diags.push_back(std::move(d));
  }
  if (diags.empty())
    return llvm::Error::success();
  return llvm::make_error<DiagError>(std::move(diags));
}

} // namespace isthmus
