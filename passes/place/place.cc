#include "passes/place/place.h"

#include "ir/storage.h"
#include "passes/rewrite/in_place.h"
#include "llvm/ADT/STLExtras.h"

namespace isthmus {
namespace {

// One buffer for each storage, or for each chain of storages that donate their bytes to one
// another, and one for each workspace. Storages in the host's memory are placed separately.
class Placement {
public:
  Placement(const Graph &g, const Target &t, const OffsetOptions &options)
      : g_(g), t_(t), options_(options), roots_(storageRoots(g)), lastUse_(g.numValues(), 0),
        isOutput_(g.numValues(), false), bufferOf_(g.numValues(), kNone) {}

  llvm::Expected<Layout> run() {
    findLifetimes();
    layout_.workspaceOffset.assign(g_.numNodes(), Layout::kPersistent);
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      NodeId id(i);
      if (g_.node(id).op->is(kView))
        continue;
      donate(id);
      makeStorages(id);
      if (g_.node(id).op->is(kTransfer)) // done by the device, without a workspace
        continue;
      auto workspace = t_.workspaceBytes(g_.call(id));
      if (!workspace)
        return locate(workspace.takeError(), g_.whereIs(id));
      if (*workspace > 0) {
        workspaces_.emplace_back(id, inArena().size());
        inArena().push_back({t_.rounded(*workspace), i, i + 1});
      }
    }
    layout_.peakBytes = peakOf(inArena());
    layout_.arenaBytes = assignOffsets(inArena(), layout_.peakBytes, options_);
    layout_.hostBytes = assignOffsets(buffersIn(Memory::Host), peakOf(buffersIn(Memory::Host)));
    if (layout_.arenaBytes == INT64_MAX || layout_.hostBytes == INT64_MAX)
      return makeError("the arena would take over 2^62 bytes, the most that is supported; make "
                       "sizes smaller");
    layout_.valueOffset.assign(g_.numValues(), Layout::kPersistent);
    const std::vector<int64_t> within = storageOffsets(g_);
    for (uint32_t v = 0; v < g_.numValues(); ++v)
      if (uint32_t b = bufferOf_[roots_[v].index]; b != kNone)
        layout_.valueOffset[v] = buffersOf(ValueId(v))[b].offset + within[v];
    for (auto [id, buffer] : workspaces_)
      layout_.workspaceOffset[id.index] = inArena()[buffer].offset;
    return std::move(layout_);
  }

private:
  static constexpr uint32_t kNone = ~0u;

  std::vector<Buffer> &buffersIn(Memory m) { return buffers_[size_t(m)]; }
  std::vector<Buffer> &buffersOf(ValueId v) { return buffersIn(g_.type(v).memory); }
  std::vector<Buffer> &inArena() { return buffersIn(Memory::Device); }

  void findLifetimes() {
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      for (uint32_t r = 0; r < n.numResults; ++r)
        use(n.result(r), i);
      for (ValueId v : n.operands)
        use(v, i);
    }
    for (ValueId v : g_.outputs())
      isOutput_[roots_[v.index].index] = true;
  }

  void use(ValueId v, uint32_t node) {
    uint32_t &last = lastUse_[roots_[v.index].index];
    last = std::max(last, node);
  }

  uint32_t endOf(ValueId root) const {
    return isOutput_[root.index] ? static_cast<uint32_t>(g_.numNodes()) + 1
                                 : lastUse_[root.index] + 1;
  }

  // A result that takes over a dying operand's bytes joins its buffer. Each buffer is donated once.
  void donate(NodeId id) {
    const Node &n = g_.node(id);
    llvm::SmallVector<uint32_t, 2> taken;
    for (const InPlace &pair : inPlacePairs(g_, id, roots_)) {
      ValueId root = roots_[n.operands[pair.operand].index], result = n.result(pair.result);
      uint32_t buffer = bufferOf_[root.index];
      bool hasBytes = buffer != kNone; // an empty storage has no buffer
      if (!hasBytes || endOf(root) != id.index + 1 || bufferOf_[result.index] != kNone ||
          llvm::is_contained(taken, buffer))
        continue;
      taken.push_back(buffer);
      bufferOf_[result.index] = buffer;
      buffersOf(result)[buffer].end = endOf(result);
    }
  }

  void makeStorages(NodeId id) {
    const Node &n = g_.node(id);
    for (uint32_t r = 0; r < n.numResults; ++r) {
      ValueId v = n.result(r);
      const bool isInPlace = roots_[v.index] != v; // it overwrites a graph input
      if (isInPlace || bufferOf_[v.index] != kNone || g_.type(v).bytes() == 0)
        continue;
      std::vector<Buffer> &buffers = buffersOf(v);
      bufferOf_[v.index] = static_cast<uint32_t>(buffers.size());
      buffers.push_back({t_.rounded(g_.type(v).bytes()), id.index, endOf(v)});
    }
  }

  int64_t peakOf(const std::vector<Buffer> &buffers) const {
    std::vector<int64_t> change(g_.numNodes() + 2, 0);
    for (const Buffer &b : buffers) {
      change[b.begin] += b.bytes;
      change[b.end] -= b.bytes;
    }
    int64_t live = 0, most = 0;
    for (int64_t c : change)
      most = std::max(most, live += c);
    return most;
  }

  const Graph &g_;
  const Target &t_;
  const OffsetOptions &options_;
  std::vector<ValueId> roots_;
  std::vector<uint32_t> lastUse_;  // by root
  std::vector<bool> isOutput_;     // by root
  std::vector<uint32_t> bufferOf_; // by root, in its memory
  std::vector<Buffer> buffers_[2]; // by memory
  std::vector<std::pair<NodeId, size_t>> workspaces_;
  Layout layout_;
};

} // namespace

llvm::Expected<Layout> place(const Graph &g, const Target &t, const OffsetOptions &options) {
  return Placement(g, t, options).run();
}

} // namespace isthmus
