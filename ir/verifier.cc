#include "ir/verifier.h"

#include "ir/provenance.h"
#include "ir/rank.h"
#include "ir/spelling.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

class Verifier {
public:
  Verifier(const Graph &g, VerifyOptions options) : g_(g), options_(options) {}

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
    const NodeId made = g_.value(n.operands[0]).def;
    const ValueId token = made ? tokenOf(made) : ValueId();
    if (!token || n.operands[1] != token) {
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
      if (g_.role(i) == role)
        return reportRole(text + ", and so is '" + name(g_.outputs()[i]) +
                          "'; expected one of them");
  }

  const Graph &g_;
  VerifyOptions options_;
  llvm::DenseSet<ValueId> isWaitedFor_;
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
