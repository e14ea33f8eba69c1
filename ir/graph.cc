#include "ir/graph.h"

#include "ir/check.h"
#include "ir/rank.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

namespace isthmus {

llvm::StringRef phaseName(Phase p) {
  static constexpr llvm::StringRef names[] = {"forward", "backward", "update"};
  return names[static_cast<size_t>(p)];
}

llvm::StringRef inputKindName(InputKind k) {
  static constexpr llvm::StringRef names[] = {"input", "param", "state", "const"};
  return names[static_cast<size_t>(k)];
}

bool Node::hasMark(llvm::StringRef m) const {
  return llvm::any_of(marks, [&](const std::string &s) { return s == m; });
}

// Names live in the map's keys, so a copied graph points its values at its own keys.
Graph::Graph(const Graph &o)
    : name(o.name), sourceFile(o.sourceFile), fromOnnx(o.fromOnnx), record(o.record), meta(o.meta),
      weightsFile(o.weightsFile), weightsDigest(o.weightsDigest), loss(o.loss), nodes_(o.nodes_),
      replaced_(o.replaced_), values_(o.values_), inputs_(o.inputs_), outputs_(o.outputs_),
      roles_(o.roles_), byName_(o.byName_) {
  for (const auto &entry : byName_)
    values_[entry.second.index].name = entry.first();
}

ValueId Graph::find(llvm::StringRef wanted) const { return byName_.lookup(wanted); }

const Input *Graph::inputOf(ValueId v) const {
  if (value(v).def)
    return nullptr;
  return &inputs_[value(v).resultIndex]; // for inputs: the index in the list
}

bool Graph::hasBackward() const {
  return llvm::any_of(nodes_, [](const Node &n) { return n.phase == Phase::Backward; });
}

llvm::StringRef standInName(StandIn kind) {
  static constexpr llvm::StringLiteral kNames[kNumStandIns] = {
      "", "clone", "boundary", "inverse", "helper", "encoding", "transfer", "chunk"};
  return kNames[size_t(kind)];
}

bool Graph::hasClones() const {
  return llvm::any_of(nodes_, [](const Node &n) { return n.isClone(); });
}

bool Graph::isRewritten() const {
  return llvm::any_of(
      nodes_, [](const Node &n) { return n.isStandIn() || n.from.sourceIndex.has_value(); });
}

OpCall Graph::call(NodeId id) const {
  const Node &n = node(id);
  OpCall c;
  c.op = n.op;
  c.attrs = &n.attrs;
  for (ValueId v : n.operands)
    c.operands.push_back(type(v));
  for (uint32_t i = 0; i < n.numResults; ++i)
    c.results.push_back(type(n.result(i)));
  return c;
}

std::string Graph::whereIs(Loc loc) const {
  if (sourceFile.empty() || loc.line == 0)
    return sourceFile;
  if (fromOnnx)
    return sourceFile + ": node #" + std::to_string(loc.line - 1);
  return sourceFile + ":" + std::to_string(loc.line) + ":" + std::to_string(loc.column);
}

std::string Graph::whereIs(NodeId id) const {
  const Node &n = node(id);
  std::string place = whereIs(n.loc);
  if (n.loc.line != 0 && !fromOnnx)
    return place;
  return (place.empty() ? "" : place + ": ") + "node '%" + nodeName(id).str() + "' (" + n.op->name +
         ")";
}

std::string Graph::uniqueName(llvm::StringRef base) const {
  if (!byName_.count(base))
    return base.str();
  unsigned &next = nextSuffix_[base];
  for (next = std::max(next, 2u);; ++next) {
    std::string candidate = base.str() + "." + std::to_string(next);
    if (!byName_.count(candidate))
      return candidate;
  }
}

ValueId Graph::addValue(llvm::StringRef wanted, const Type &type) {
  ValueId id(static_cast<uint32_t>(values_.size()));
  auto [it, isFree] = byName_.try_emplace(wanted, id);
  if (!isFree)
    it = byName_.try_emplace(uniqueName(wanted), id).first;
  Value v;
  v.type = type;
  v.name = it->first();
  values_.push_back(std::move(v));
  return id;
}

llvm::Expected<ValueId> Graph::addInput(InputKind kind, llvm::StringRef wanted, const Type &type,
                                        Initializer init, Loc loc) {
  if (type.rank() > kMaxRank)
    return makeError("'{0}' has {1} axes; at most {2} are supported", wanted, type.rank(),
                     kMaxRank);
  if (!type.isValid())
    return makeError("'{0}' has a negative size or one over 2^60 bytes: {1}", wanted, type.str());
  if (!type.isPlain())
    return makeError("'{0}' is given from outside, as a tensor in the device's memory; got {1}",
                     wanted, type.str());
  if (llvm::Error e = completeInitializer(init, type))
    return e;
  ValueId v = addValue(wanted, type);
  values_[v.index].resultIndex = static_cast<uint32_t>(inputs_.size());
  values_[v.index].loc = loc;
  inputs_.push_back({kind, v, std::move(init)});
  return v;
}

llvm::Expected<Node> Graph::makeNode(NodeId id, const OpDef &op, llvm::ArrayRef<ValueId> operands,
                                     Attrs attrs, llvm::ArrayRef<std::string> names, Phase phase) {
  if (llvm::Error e = completeAttrs(op, attrs))
    return e;
  llvm::SmallVector<Type, 8> operandTypes;
  for (ValueId v : operands)
    operandTypes.push_back(type(v));
  auto types = inferTypes(op, attrs, operandTypes);
  if (!types)
    return types.takeError();

  Node n;
  n.op = &op;
  n.operands.assign(operands.begin(), operands.end());
  n.attrs = std::move(attrs);
  n.phase = phase;
  n.numResults = static_cast<uint32_t>(types->size());
  for (uint32_t i = 0; i < n.numResults; ++i) {
    std::string base = i < names.size() ? names[i]
                       : i == 0         ? op.name
                                : (names.empty() ? op.name : names[0]) + "." + op.resultName(i);
    ValueId v = addValue(base, (*types)[i]);
    values_[v.index].def = id;
    values_[v.index].resultIndex = i;
    if (i == 0)
      n.firstResult = v;
  }
  return n;
}

llvm::Expected<NodeId> Graph::addNode(const OpDef &op, llvm::ArrayRef<ValueId> operands,
                                      Attrs attrs, llvm::ArrayRef<std::string> names, Phase phase) {
  const NodeId id(static_cast<uint32_t>(nodes_.size()));
  auto n = makeNode(id, op, operands, std::move(attrs), names, phase);
  if (!n)
    return n.takeError();
  nodes_.push_back(std::move(*n));
  return id;
}

llvm::Expected<NodeId> Graph::addReplaced(const OpDef &op, llvm::ArrayRef<ValueId> operands,
                                          Attrs attrs, llvm::ArrayRef<std::string> names,
                                          Phase phase) {
  const NodeId id = replaced(replaced_.size());
  auto n = makeNode(id, op, operands, std::move(attrs), names, phase);
  if (!n)
    return n.takeError();
  replaced_.push_back(std::move(*n));
  return id;
}

void Graph::rename(ValueId v, llvm::StringRef wanted) {
  if (values_[v.index].name == wanted)
    return;
  auto [it, isFree] = byName_.try_emplace(wanted, v);
  ISTHMUS_CHECK(isFree, "name '" + wanted.str() + "' is taken");
  byName_.erase(values_[v.index].name);
  values_[v.index].name = it->first();
}

Uses::Uses(const Graph &g) : start_(g.numValues() + 1, 0) {
  for (uint32_t n = 0; n < g.numNodes(); ++n)
    for (ValueId v : g.node(NodeId(n)).operands)
      ++start_[v.index + 1];
  for (size_t i = 1; i < start_.size(); ++i)
    start_[i] += start_[i - 1];
  readers_.resize(start_.back());
  std::vector<uint32_t> at(start_.begin(), start_.end() - 1);
  for (uint32_t n = 0; n < g.numNodes(); ++n)
    for (ValueId v : g.node(NodeId(n)).operands)
      readers_[at[v.index]++] = NodeId(n);
}

} // namespace isthmus
