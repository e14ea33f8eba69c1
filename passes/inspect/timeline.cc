#include "passes/inspect/timeline.h"

#include <algorithm>
#include <numeric>

namespace isthmus {
namespace {

class TimelineMaker {
public:
  TimelineMaker(const Graph &g, const Layout *layout, GraphProblem problem)
      : g_(g), layout_(layout), p_(std::move(problem)), sets_(liveSetsOf(g, p_)) {}

  Timeline run() {
    out_.arenaBytes = layout_ ? layout_->arenaBytes : 0;
    out_.readers.resize(g_.numValues());
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      out_.us.push_back(p_.problem.ops[p_.opOf(NodeId(i))].cost);
    for (size_t i = 0; i < sets_.instances.size(); ++i)
      addInstance(i);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      addWorkspace(i);
    std::stable_sort(out_.blocks.begin(), out_.blocks.end(),
                     [](const Block &a, const Block &b) { return a.begin < b.begin; });
    addUp();
    return std::move(out_);
  }

private:
  void addInstance(size_t index) {
    const plan::Instance &c = sets_.instances[index];
    if (c.bytes == 0)
      return;
    const ValueId v = sets_.value(g_, p_, index);
    out_.readers[v.index] = c.uses;
    Block b{v,
            g_.value(v).def,
            sets_.kind(g_, p_, index),
            layout_ ? layout_->valueOffset[v.index] : Layout::kPersistent,
            c.bytes,
            c.first,
            c.last + 1};
    if (c.donatedTo == plan::Instance::kNotDonated)
      return add(b);
    Block rest = b;
    const int64_t taken = sets_.instances[c.donatedTo].bytes;
    b.end = c.last;
    rest.begin = c.last;
    rest.offset += layout_ ? taken : 0;
    rest.bytes -= taken;
    add(b);
    add(rest);
  }

  void addWorkspace(uint32_t node) {
    const int64_t bytes = p_.problem.rounded(p_.problem.ops[p_.opOf(NodeId(node))].workspace);
    add({ValueId(), NodeId(node), LiveKind::Workspace,
         layout_ ? layout_->workspaceOffset[node] : Layout::kPersistent, bytes, node, node + 1});
  }

  void add(const Block &b) {
    if (b.bytes > 0 && b.begin < b.end)
      out_.blocks.push_back(b);
  }

  void addUp() {
    const size_t nodes = g_.numNodes();
    out_.live.assign(nodes, 0);
    for (const Block &b : out_.blocks) {
      std::vector<int64_t> &of = out_.liveOf[size_t(b.kind)];
      of.resize(nodes + 1);
      of[b.begin] += b.bytes;
      of[b.end] -= b.bytes;
    }
    for (std::vector<int64_t> &of : out_.liveOf) {
      if (of.empty())
        continue;
      of.pop_back();
      std::partial_sum(of.begin(), of.end(), of.begin());
      for (size_t i = 0; i < nodes; ++i)
        out_.live[i] += of[i];
    }
  }

  const Graph &g_;
  const Layout *layout_;
  const GraphProblem p_;
  const LiveSets sets_;
  Timeline out_;
};

} // namespace

uint32_t Timeline::peakNode() const {
  return uint32_t(std::max_element(live.begin(), live.end()) - live.begin());
}

llvm::Expected<Timeline> timelineOf(const Graph &g, const Layout *layout, const Target &target) {
  auto problem = extractProblem(g, target);
  if (!problem)
    return problem.takeError();
  return TimelineMaker(g, layout, std::move(*problem)).run();
}

} // namespace isthmus
