#include "passes/rebuild.h"

#include "ir/check.h"
#include "ir/provenance.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {

llvm::BitVector namedValues(const Graph &g) {
  llvm::BitVector named(static_cast<unsigned>(g.numValues()));
  for (ValueId v : g.outputs())
    named.set(v.index);
  if (g.loss)
    named.set(g.loss.index);
  return named;
}

Rebuilder::Rebuilder(const Graph &from)
    : from_(from), to_(from.name), values_(from.numValues()), nodes_(from.numNodes()),
      replaced_(from.numReplaced()), hasSourceOrder_(false) {
  to_.sourceFile = from.sourceFile;
  to_.fromOnnx = from.fromOnnx;
  to_.record = from.record;
  to_.meta = from.meta;
  to_.weightsFile = from.weightsFile;
  to_.weightsDigest = from.weightsDigest;
  for (uint32_t i = 0; i < from.numNodes(); ++i)
    hasSourceOrder_ |= from.node(NodeId(i)).from.sourceIndex.has_value();
}

void Rebuilder::setMap(NodeId old, NodeId now) {
  (Graph::isReplaced(old) ? replaced_[old.index - Graph::kFirstReplaced] : nodes_[old.index]) = now;
  for (uint32_t i = 0; i < from_.node(old).numResults; ++i)
    setMap(from_.node(old).result(i), to_.node(now).result(i));
}

std::string Rebuilder::freshName(llvm::StringRef base) const {
  auto taken = [&](llvm::StringRef name) { return from_.find(name) || to_.find(name); };
  if (!taken(base))
    return base.str();
  unsigned &next = nextSuffix_.try_emplace(base, 2).first->second;
  std::string name;
  do
    name = base.str() + "." + std::to_string(next++);
  while (taken(name));
  return name;
}

// Only a node that the pass added can have taken the name of a value before its copy.
void Rebuilder::freeName(llvm::StringRef name) {
  if (ValueId taker = to_.find(name))
    to_.rename(taker, freshName(name));
}

ValueId Rebuilder::copyInput(const Input &input, const Type &type, Initializer init) {
  const Value &old = from_.value(input.value);
  freeName(old.name);
  auto now = to_.addInput(input.kind, old.name, type, std::move(init), old.loc);
  if (!now)
    ISTHMUS_CHECK(false, "an input that cannot be copied: " + llvm::toString(now.takeError()));
  setMap(input.value, *now);
  return *now;
}

void Rebuilder::copyInputs() {
  for (const Input &input : from_.inputs())
    copyInput(input, from_.type(input.value), input.init);
}

// The names of a node's results, for its copy.
llvm::SmallVector<std::string, 2> Rebuilder::freedNames(const Node &old) {
  llvm::SmallVector<std::string, 2> names;
  for (uint32_t i = 0; i < old.numResults; ++i) {
    names.push_back(from_.valueName(old.result(i)).str());
    freeName(names.back());
  }
  return names;
}

// What a node has beside its call and what it stands for.
static void copyFacts(const Node &from, Node &to) {
  to.marks = from.marks;
  to.device = from.device;
  to.loc = from.loc;
  to.from.sourceIndex = from.from.sourceIndex;
}

NodeId Rebuilder::copyReplaced(NodeId id, llvm::ArrayRef<ValueId> operands) {
  const Node &old = from_.node(id);
  auto made = to_.addReplaced(*old.op, operands, old.attrs, freedNames(old), old.phase);
  if (!made)
    ISTHMUS_CHECK(false, "a node that cannot be kept: " + llvm::toString(made.takeError()));
  copyFacts(old, to_.editNode(*made));
  setMap(id, *made);
  keptReplaced_.emplace_back(id, *made);
  return *made;
}

llvm::Expected<NodeId> Rebuilder::copyNodeWith(NodeId id, Attrs attrs) {
  const Node &old = from_.node(id);
  llvm::SmallVector<ValueId, 4> operands;
  for (ValueId v : old.operands) {
    operands.push_back(map(v));
    ISTHMUS_CHECK(operands.back(),
                  "operand '" + from_.valueName(v).str() + "' was not copied before its reader");
  }
  auto copy = to_.addNode(*old.op, operands, std::move(attrs), freedNames(old), old.phase);
  if (!copy)
    return copy.takeError();
  Node &n = to_.editNode(*copy);
  copyFacts(old, n);
  // In a graph with a source order, a node without a source index stands at its own index; if the
  // index changes, it must be recorded.
  if (hasSourceOrder_ && !old.from.sourceIndex && !old.isStandIn() && *copy != id)
    n.from.sourceIndex = id.index;
  setMap(id, *copy);
  copies_.emplace_back(id, *copy);
  return *copy;
}

NodeId Rebuilder::copyNode(NodeId id) {
  auto copy = copyNodeWith(id, from_.node(id).attrs);
  if (!copy)
    ISTHMUS_CHECK(false, "a node that cannot be copied: " + llvm::toString(copy.takeError()));
  return *copy;
}

Graph Rebuilder::finish() {
  finishNodes();
  for (size_t i = 0; i < from_.outputs().size(); ++i)
    addOutput(from_.outputs()[i], from_.role(i));
  return std::move(to_);
}

Graph Rebuilder::finish(llvm::ArrayRef<OldOutput> outputs) {
  finishNodes();
  for (const OldOutput &o : outputs)
    addOutput(o.value, o.role);
  return std::move(to_);
}

void Rebuilder::addOutput(ValueId old, OutputRole role) {
  ISTHMUS_CHECK(map(old), "output '" + from_.valueName(old).str() + "' was left out");
  role.of = map(role.of);
  if (role.kind != OutputKind::Result && !role.of)
    role = {.isRounded = role.isRounded};
  to_.addOutput(map(old), role);
}

// The copy of what the original's nodes read: not a clone or a stand-in that came later.
ValueId Rebuilder::firstOf(ValueId old) const {
  const Value &v = from_.value(old);
  const NodeId copy = map(v.def);
  return copy ? to_.node(copy).result(v.resultIndex) : map(old);
}

// The forward node of the new graph to which belongs what belonged to `old`: its copy, or the node
// that makes one of its values, or of its operands' values where those are left out; none if inputs
// are all that is left.
NodeId Rebuilder::forwardOf(NodeId old) const {
  while (old) {
    if (const NodeId copy = map(old))
      return forwardNodeOf(to_, copy);
    const Node &n = from_.node(old);
    for (uint32_t i = 0; i < n.numResults; ++i)
      if (const ValueId now = map(n.result(i)); now && to_.value(now).def)
        return forwardNodeOf(to_, to_.value(now).def);
    // By their places in the original, which are the same with and without chunks.
    NodeId last;
    for (ValueId v : n.operands)
      if (const NodeId def = from_.value(originalValue(from_, v)).def;
          def && (!last || sourceIndex(from_, last) < sourceIndex(from_, def)))
        last = def;
    old = last;
  }
  return NodeId();
}

void Rebuilder::standWith(Builder &b, NodeId old) const {
  const Node &n = from_.node(old);
  b.phase = n.phase;
  b.device = n.device;
  b.loc = n.loc;
  b.gradientOf = forwardOf(n.from.gradientOf);
}

void Rebuilder::keepReplaced() {
  for (size_t i = 0; i < from_.numReplaced(); ++i) {
    const NodeId id = from_.replaced(i);
    const Node &old = from_.node(id);
    if (map(old.firstResult))
      continue;
    llvm::SmallVector<ValueId, 4> operands;
    for (ValueId v : old.operands)
      operands.push_back(firstOf(v));
    if (llvm::any_of(operands, [](ValueId v) { return !v; })) // then no output needs it
      continue;
    copyReplaced(id, operands);
  }
}

void Rebuilder::finishNodes() {
  keepReplaced();
  // References are mapped last, since a reordering pass may copy a node before the nodes that it
  // refers to.
  for (auto [oldId, newId] : copies_) {
    const Node &old = from_.node(oldId);
    Node &n = to_.editNode(newId);
    n.from.kind = old.from.kind;
    n.from.chunk = old.from.chunk;
    n.from.origin = map(old.from.origin);
    if (old.from.restores)
      n.from.restores = firstOf(old.from.restores);
    ISTHMUS_CHECK(bool(n.from.origin) == bool(old.from.origin) &&
                      bool(n.from.restores) == bool(old.from.restores),
                  "'" + from_.nodeName(oldId).str() + "' was kept without what it stands for");
    for (NodeId before : old.from.after)
      if (NodeId mapped = map(before);
          mapped && mapped < newId && !llvm::is_contained(n.from.after, mapped))
        n.from.after.push_back(mapped);
  }
  for (const auto *copies : {&copies_, &keptReplaced_})
    for (auto [oldId, newId] : *copies)
      to_.editNode(newId).from.gradientOf = forwardOf(from_.node(oldId).from.gradientOf);
  to_.loss = map(from_.loss);
}

} // namespace isthmus
