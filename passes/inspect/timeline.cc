#include "passes/inspect/timeline.h"

#include <algorithm>
#include <numeric>

namespace isthmus {

void Timeline::add(const Block &b) {
  if (b.bytes > 0 && b.begin < b.end)
    blocks.push_back(b);
}

void Timeline::add(Block b, const plan::Instance &c, const std::vector<plan::Instance> &all) {
  b.bytes = c.bytes;
  b.begin = c.first;
  b.end = c.last + 1;
  if (c.donatedTo == plan::Instance::kNotDonated)
    return add(b);
  Block rest = b;
  const int64_t taken = all[c.donatedTo].bytes;
  b.end = c.last;
  rest.begin = c.last;
  if (rest.offset != Layout::kPersistent)
    rest.offset += taken;
  rest.bytes -= taken;
  add(b);
  add(rest);
}

void Timeline::finish(size_t numNodes) {
  std::stable_sort(blocks.begin(), blocks.end(),
                   [](const Block &a, const Block &b) { return a.begin < b.begin; });
  live.assign(numNodes, 0);
  for (const Block &b : blocks) {
    std::vector<int64_t> &of = liveOf[size_t(b.kind)];
    of.resize(numNodes + 1);
    of[b.begin] += b.bytes;
    of[b.end] -= b.bytes;
  }
  for (std::vector<int64_t> &of : liveOf) {
    if (of.empty())
      continue;
    of.pop_back();
    std::partial_sum(of.begin(), of.end(), of.begin());
    for (size_t i = 0; i < numNodes; ++i)
      live[i] += of[i];
  }
}

uint32_t Timeline::peakNode() const {
  return uint32_t(std::max_element(live.begin(), live.end()) - live.begin());
}

llvm::Expected<Timeline> timelineOf(const Graph &g, const Layout *layout, const Target &target,
                                    const WholeNodes *whole) {
  auto p = extractProblem(g, target);
  if (!p)
    return p.takeError();
  const LiveSets sets = liveSetsOf(g, *p);
  Timeline out;
  out.arenaBytes = layout ? layout->arenaBytes : 0;
  out.readers.resize(g.numValues());
  for (size_t i = 0; i < sets.instances.size(); ++i) {
    const ValueId v = sets.value(g, *p, i);
    if (sets.instances[i].bytes == 0)
      continue;
    out.readers[v.index] = sets.instances[i].uses;
    const int64_t offset = layout ? layout->valueOffset[v.index] : Layout::kPersistent;
    const LiveKind kind = whole ? sets.kind(*whole, *p, i) : sets.kind(g, *p, i);
    out.add(Block{v, g.value(v).def, kind, offset}, sets.instances[i], sets.instances);
  }
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    const plan::Op &op = p->problem.ops[p->opOf(NodeId(i))];
    out.us.push_back(op.cost);
    const int64_t offset = layout ? layout->workspaceOffset[i] : Layout::kPersistent;
    out.add({ValueId(), NodeId(i), LiveKind::Workspace, offset, p->problem.rounded(op.workspace), i,
             i + 1});
  }
  out.finish(g.numNodes());
  return out;
}

} // namespace isthmus
