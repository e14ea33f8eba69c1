#include "passes/rewrite/alternatives.h"

#include "ir/op_registry.h"
#include "passes/rewrite/inverses.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

using plan::Op;
using plan::OpIndex;
using plan::OpPhase;

class Alternatives {
public:
  Alternatives(GraphProblem &p, const Graph &g, const Target &t)
      : p_(p), g_(g), t_(t), roots_(storageRoots(g)) {}

  // --- Host copies

  void addFetches(int64_t hostBytes) {
    for (ValueId v : worthCopying()) {
      const int64_t bytes = t_.rounded(g_.type(v).bytes());
      if (bytes > hostBytes)
        continue;
      hostBytes -= bytes;
      addFetch(v);
    }
  }

  // --- Encodings

  llvm::Error addEncodings() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      for (const Encoding &e : g_.node(NodeId(i)).op->encodings)
        if (llvm::Error failed = addEncoding(NodeId(i), e))
          return failed;
    return llvm::Error::success();
  }

private:
  OpIndex add(Op op, Derivation how) {
    op.isAlternative = true;
    p_.problem.ops.push_back(std::move(op));
    p_.alternatives.push_back(how);
    return OpIndex(p_.problem.ops.size() - 1);
  }

  std::string nameOf(ValueId v, const char *suffix) const {
    return (g_.valueName(v) + suffix).str();
  }

  // The forward results that may be offloaded: those that the backward pass reads, except outputs
  // and tensors too small to be worth a transfer. All of them may be in host memory at once, and
  // that may be too small, so they are sorted by cost to recompute per byte, highest first.
  std::vector<ValueId> worthCopying() const {
    constexpr int64_t kSmallShare = 500;
    std::vector<bool> isRead(g_.numValues(), false), isOutput(g_.numValues(), false);
    for (ValueId v : g_.outputs())
      isOutput[roots_[v.index].index] = true;
    int64_t total = 0;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      for (ValueId v : n.operands)
        if (n.phase == Phase::Backward)
          isRead[roots_[v.index].index] = true;
      if (isForward(n))
        for (uint32_t r = 0; r < n.numResults; ++r)
          total += g_.type(n.result(r)).bytesIn(Memory::Device);
    }
    std::vector<ValueId> found;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      for (uint32_t r = 0; isForward(n) && r < n.numResults; ++r)
        if (ValueId v = n.result(r); isRead[v.index] && !isOutput[v.index] &&
                                     g_.type(v).isPlain() &&
                                     g_.type(v).bytes() >= total / kSmallShare)
          found.push_back(v);
    }
    auto costPerByte = [&](ValueId v) {
      return p_.problem.ops[p_.opOf(g_.value(v).def)].cost / double(g_.type(v).bytes());
    };
    llvm::stable_sort(found, [&](ValueId a, ValueId b) { return costPerByte(a) > costPerByte(b); });
    return found;
  }

  static bool isForward(const Node &n) {
    return n.phase == Phase::Forward && !n.op->is(kView) && !n.isStandIn();
  }

  void addFetch(ValueId v) {
    const double time = 1e6 * t_.transferSeconds(g_.type(v).bytes());
    const Node &n = g_.node(g_.value(v).def);
    Op start;
    start.name = nameOf(v, ".host");
    start.transfer = Op::Transfer::StartOffload;
    start.transferTime = time;
    start.inputs = {p_.readOf(g_, v)};
    const OpIndex offload = add(start, {Derivation::StartOffload, {}, v});

    Op wait;
    wait.name = nameOf(v, ".kept");
    wait.transfer = Op::Transfer::WaitOffload;
    wait.inputs = {{offload, 0}};
    wait.outputBytes = {0};
    const OpIndex onHost = add(wait, {Derivation::WaitOffload, {}, v});

    start.name = nameOf(v, ".back");
    start.phase = OpPhase::Backward;
    start.transfer = Op::Transfer::StartPrefetch;
    start.inputs = {{onHost, 0}};
    start.outputBytes = {g_.type(v).bytes()};
    const OpIndex prefetch = add(start, {Derivation::StartPrefetch, {}, v});

    wait.name = nameOf(v, ".again");
    wait.phase = OpPhase::Backward;
    wait.transfer = Op::Transfer::WaitPrefetch;
    wait.inputs = {{prefetch, 0}};
    wait.of = p_.opOf(g_.value(v).def);
    wait.ofOutput = n.numResults == 1 ? Op::kAllOutputs : g_.value(v).resultIndex;
    add(wait, {Derivation::WaitPrefetch, {}, v});
  }

  llvm::Error addEncoding(NodeId id, const Encoding &e) {
    const Node &n = g_.node(id);
    if (e.operand >= n.operands.size() || n.op->is(kView))
      return llvm::Error::success();
    const ValueId v = n.operands[e.operand];
    if (llvm::count(n.operands, v) != 1)
      return llvm::Error::success();
    const OpDef &encoding = OpRegistry::get().at(e.op);
    auto encoded = inferTypes(encoding, kNoAttrs, {g_.type(v)});
    if (!encoded) { // the value is an encoding already
      llvm::consumeError(encoded.takeError());
      return llvm::Error::success();
    }
    OpCall call = g_.call(id);
    call.operands[e.operand] = encoded->front();
    const bool isSmaller = t_.rounded(encoded->front().bytes()) < t_.rounded(g_.type(v).bytes());
    if (!isSmaller || !g_.value(roots_[v.index]).def)
      return llvm::Error::success();
    auto from = encodedOp(v, encoding, encoded->front());
    if (!from)
      return from.takeError();

    Op form = p_.problem.ops[p_.opOf(id)];
    form.name += ".encoded";
    form.cost = 1e6 * t_.seconds(call);
    form.inputs[e.operand] = {*from, 0};
    form.of = p_.opOf(id);
    llvm::erase_if(form.donations, [&](const Op::Donation &d) { return d.input == e.operand; });
    auto workspace = t_.workspaceBytes(call);
    if (!workspace)
      return locate(workspace.takeError(), g_.whereIs(id));
    form.workspace = *workspace;
    add(std::move(form), {Derivation::FromEncoded, id, v, e.operand, &encoding});
    return llvm::Error::success();
  }

  // The op that encodes `v`, shared by all its readers.
  llvm::Expected<OpIndex> encodedOp(ValueId v, const OpDef &encoding, const Type &type) {
    auto [it, isNew] = encodedOps_.try_emplace({v.index, &encoding}, 0);
    if (!isNew)
      return it->second;
    OpCall call;
    call.op = &encoding;
    call.attrs = &kNoAttrs;
    call.operands = {g_.type(v)};
    call.results = {type};
    auto workspace = t_.workspaceBytes(call);
    if (!workspace)
      return workspace.takeError();
    Op op;
    op.name = nameOf(v, ".encoded");
    op.phase = static_cast<OpPhase>(g_.node(g_.value(v).def).phase);
    op.cost = 1e6 * t_.seconds(call);
    op.workspace = *workspace;
    op.inputs = {p_.readOf(g_, v)};
    op.outputBytes = {type.bytes()};
    return it->second = add(std::move(op), {Derivation::Encode, {}, v, 0, &encoding});
  }

  GraphProblem &p_;
  const Graph &g_;
  const Target &t_;
  const Attrs kNoAttrs;
  std::vector<ValueId> roots_;
  llvm::DenseMap<std::pair<uint32_t, const OpDef *>, OpIndex> encodedOps_;
};

} // namespace

llvm::Error addAlternatives(GraphProblem &p, const Graph &g, const Target &t, const Ways &ways) {
  Alternatives all(p, g, t);
  if (ways.fetch && t.linkBytesPerSecond <= 0)
    return makeError(ErrorKind::Unsupported,
                     "the target '{0}' has no link to the host's memory, so nothing can be fetched "
                     "from there",
                     t.name);
  if (ways.encode)
    if (llvm::Error e = all.addEncodings())
      return e;
  if (ways.fetch)
    all.addFetches(ways.hostBytes);
  if (ways.invert)
    return addInverses(p, g, t, ways);
  return llvm::Error::success();
}

} // namespace isthmus
