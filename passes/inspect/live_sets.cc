#include "passes/inspect/live_sets.h"

#include "llvm/ADT/STLExtras.h"

namespace isthmus {

llvm::StringRef liveKindText(LiveKind k) {
  static constexpr llvm::StringRef kTexts[kNumLiveKinds] = {"saved activations",
                                                            "recomputed",
                                                            "fetched",
                                                            "rebuilt by inverses",
                                                            "encoded",
                                                            "chunks",
                                                            "passing activations",
                                                            "gradients of activations",
                                                            "parameter gradients",
                                                            "other outputs",
                                                            "workspace",
                                                            "other",
                                                            "received"};
  return kTexts[size_t(k)];
}

// The kind that follows from what the maker stands for; none if its use decides.
static std::optional<LiveKind> kindByMaker(const Node &maker) {
  switch (maker.from.kind) {
  case StandIn::Clone:
    return LiveKind::Recomputed;
  case StandIn::Transfer:
    return maker.op->is(kReceive) ? LiveKind::Received : LiveKind::Fetched;
  case StandIn::Inverse:
  case StandIn::Helper:
    return LiveKind::Rebuilt;
  case StandIn::Encoding:
    return LiveKind::Encoded;
  case StandIn::Chunk:
    return LiveKind::Chunked;
  case StandIn::Boundary: // a view
  case StandIn::None:
    break;
  }
  return std::nullopt;
}

LiveKind LiveSets::kind(const Graph &g, const GraphProblem &p, size_t instance) const {
  const plan::Instance &c = instances[instance];
  const std::optional<LiveKind> k = kindByMaker(g.node(p.nodeOf(c.made.op)));
  return k && !c.isOutput ? *k : kindByUse(g, p, instance);
}

LiveKind LiveSets::kind(const WholeNodes &w, const GraphProblem &p, size_t instance) const {
  const plan::Instance &c = instances[instance];
  const Node &maker = w.whole.node(w.of[p.nodeOf(c.made.op).index]);
  const std::optional<LiveKind> k = kindByMaker(maker);
  if (k && *k != LiveKind::Chunked && !c.isOutput)
    return *k;
  return kindByUse(instance, maker,
                   [&](uint32_t step) -> const Node & { return w.whole.node(w.of[step]); });
}

LiveKind LiveSets::kindByUse(const Graph &g, const GraphProblem &p, size_t instance) const {
  return kindByUse(instance, g.node(p.nodeOf(instances[instance].made.op)),
                   [&](uint32_t step) -> const Node & { return g.node(NodeId(step)); });
}

template <typename NodeAt>
LiveKind LiveSets::kindByUse(size_t instance, const Node &n, NodeAt node) const {
  const plan::Instance &c = instances[instance];
  if (c.isOutput)
    return n.phase == Phase::Backward ? LiveKind::ParameterGradient : LiveKind::OtherOutput;
  if (n.phase == Phase::Backward)
    return LiveKind::ActivationGradient;
  if (n.phase == Phase::Update)
    return LiveKind::Other;
  bool isSaved =
      llvm::any_of(c.uses, [&](uint32_t step) { return node(step).phase == Phase::Backward; });
  return isSaved ? LiveKind::Saved : LiveKind::Passing;
}

PeakContents LiveSets::peak(const Graph &g, const GraphProblem &p) const {
  PeakContents out;
  if (live.empty())
    return out;
  const uint32_t at = uint32_t(std::max_element(live.begin(), live.end()) - live.begin());
  out.bytes = live[at];
  out.node = NodeId(at);
  for (size_t i = 0; i < instances.size(); ++i) {
    const plan::Instance &c = instances[i];
    if (at < c.first || at > c.last)
      continue;
    bool isTaken = c.donatedTo != plan::Instance::kNotDonated && c.last == at;
    int64_t bytes = c.bytes - (isTaken ? instances[c.donatedTo].bytes : 0);
    LiveKind k = kind(g, p, i);
    out.bytesOf[size_t(k)] += bytes;
    if (bytes > 0)
      out.tensors.push_back({value(g, p, i), k, bytes, c.first, c.last});
  }
  int64_t workspace = p.problem.rounded(p.problem.ops[p.opOf(out.node)].workspace);
  out.bytesOf[size_t(LiveKind::Workspace)] += workspace;
  if (workspace > 0)
    out.tensors.push_back({ValueId(), LiveKind::Workspace, workspace, at, at});
  llvm::stable_sort(out.tensors,
                    [](const LiveTensor &a, const LiveTensor &b) { return a.bytes > b.bytes; });
  return out;
}

LiveSets liveSetsOf(const Graph &g, const GraphProblem &p) {
  const plan::Schedule steps = plan::sourceOrder(p.problem);
  LiveSets out;
  out.instances = plan::instancesOf(p.problem, steps);
  out.live = plan::liveBytesOf(p.problem, steps, out.instances);
  return out;
}

} // namespace isthmus
