#include "ir/diagnostics.h"
#include "ir/units.h"
#include "tools/view/snapshot.h"
#include <algorithm>
#include <map>

namespace isthmus {
namespace {

using Action = Snapshot::Action;

// Disjoint stretches of addresses, half-open.
class Stretches {
public:
  void add(uint64_t begin, uint64_t end) {
    auto next = all_.upper_bound(begin);
    if (next != all_.begin())
      if (const auto before = std::prev(next); before->second >= begin) {
        begin = before->first;
        end = std::max(end, before->second);
        next = all_.erase(before);
      }
    while (next != all_.end() && next->first <= end) {
      end = std::max(end, next->second);
      next = all_.erase(next);
    }
    if (begin < end)
      all_[begin] = end;
  }
  void remove(uint64_t begin, uint64_t end) {
    auto at = all_.upper_bound(begin);
    if (at != all_.begin())
      --at;
    while (at != all_.end() && at->first < end) {
      const auto [from, to] = *at;
      if (to <= begin) {
        ++at;
        continue;
      }
      at = all_.erase(at);
      if (from < begin)
        all_[from] = begin;
      if (end < to)
        all_[end] = to;
    }
  }
  const std::map<uint64_t, uint64_t> &all() const { return all_; }

private:
  std::map<uint64_t, uint64_t> all_;
};

bool opensSegment(Action a) { return a == Action::SegmentAlloc || a == Action::SegmentMap; }
bool closesSegment(Action a) { return a == Action::SegmentFree || a == Action::SegmentUnmap; }
uint64_t endOf(uint64_t address, int64_t bytes) { return address + uint64_t(bytes); }

// What is in use and reserved at one time.
struct State {
  std::map<uint64_t, Snapshot::Block> blocks; // by address
  Stretches reserved;
};

// The snapshot tells the end, and the trace what came before it: undoing the trace gives the start.
State startOf(const Snapshot &s) {
  State state;
  for (const Snapshot::Segment &segment : s.segments) {
    state.reserved.add(segment.address, endOf(segment.address, segment.bytes));
    for (const Snapshot::Block &b : segment.blocks)
      state.blocks[b.address] = b;
  }
  for (size_t i = s.trace.size(); i-- > 0;) {
    const Snapshot::Event &e = s.trace[i];
    const uint64_t end = endOf(e.address, e.bytes);
    if (e.action == Action::Alloc)
      state.blocks.erase(e.address);
    else if (e.action == Action::FreeCompleted)
      state.blocks.insert_or_assign(e.address, Snapshot::Block{e.address, e.bytes, true, ""});
    else if (e.action == Action::FreeRequested)
      state.blocks.insert_or_assign(e.address, Snapshot::Block{e.address, e.bytes, false, ""});
    else if (opensSegment(e.action))
      state.reserved.remove(e.address, end);
    else if (closesSegment(e.action))
      state.reserved.add(e.address, end);
  }
  return state;
}

// Replays the trace from the start. Each address lies in one of: a block in use, a gap of a
// segment, or nothing.
class Replay {
public:
  explicit Replay(const Snapshot &s)
      : s_(s), start_(startOf(s)), types_(out_.step.types), opNumbers_(opTexts_) {}

  llvm::Expected<SnapshotStep> run() {
    if (!placeAddresses())
      return makeError("the segments of the snapshot add up to more than 2^53 bytes");
    addInputs();
    addNode("recording begins", Phase::Update, "recording begins", 0);
    openStart();
    for (uint32_t k = 0; k < s_.trace.size(); ++k)
      replay(s_.trace[k], k + 1);
    if (isTooLarge_)
      return makeError("what the snapshot has in use adds up to more than 2^53 bytes");
    finish(uint32_t(s_.trace.size() + 1));
    return std::move(out_);
  }

private:
  static constexpr int64_t kMost = int64_t(1) << 53; // a page counts so far
  struct Live {
    uint32_t value = 0;
    int64_t bytes = 0;
    uint32_t begin = 0; // a node
    bool isFreed = false, isInSegment = false;
  };
  struct Gap {
    uint64_t end = 0;
    uint32_t begin = 0; // a node
  };

  // All addresses that are ever reserved or in use lie one after the other in the picture.
  bool placeAddresses() {
    Stretches all = start_.reserved;
    for (const auto &[address, b] : start_.blocks)
      all.add(address, endOf(address, b.bytes));
    for (const Snapshot::Event &e : s_.trace)
      if (opensSegment(e.action) || e.action == Action::Alloc)
        all.add(e.address, endOf(e.address, e.bytes));
    uint64_t sum = 0;
    for (const auto &[begin, end] : all.all()) {
      offsets_[begin] = int64_t(sum);
      if (end - begin > uint64_t(kMost) - sum)
        return false;
      sum += end - begin;
    }
    out_.step.timeline.arenaBytes = int64_t(sum);
    return true;
  }
  int64_t offsetOf(uint64_t address) const {
    const auto at = std::prev(offsets_.upper_bound(address));
    return at->second + int64_t(address - at->first);
  }

  // The innermost line of the program; the address where no line is known.
  static std::string nameOf(const std::string &path, uint64_t address) {
    if (path.empty())
      return llvm::formatv("0x{0:x-}", address).str();
    return path.substr(path.rfind(Snapshot::kDivider) + 1);
  }
  uint32_t addValue(const std::string &name, int64_t bytes, uint32_t maker) {
    const uint32_t v = uint32_t(out_.step.values.size());
    out_.step.values.push_back({types_(bytes ? bytesText(bytes) : ""), maker, v, name});
    return v;
  }

  // Blocks that were in use before the recording, and one value for all gaps.
  void addInputs() {
    gapValue_ = addValue("reserved, unused", 0, 0);
    out_.step.inputs.push_back({gapValue_, "segment"});
    for (const auto &[address, b] : start_.blocks) {
      const uint32_t v = addValue(nameOf(b.path, address), b.bytes, 0);
      live_[address] = {v, b.bytes, 0, b.isFreed};
      use(b.bytes);
      if (out_.step.inputs.size() < kMostInputs)
        out_.step.inputs.push_back({v, "before the recording"});
    }
  }

  void openStart() {
    for (const auto &[begin, end] : start_.reserved.all())
      gaps_[begin] = {end, 0};
    for (auto &[address, block] : live_)
      block.isInSegment = takeFromGap(address, endOf(address, block.bytes), 0);
  }

  uint32_t addNode(const std::string &op, Phase phase, const std::string &name, int64_t bytes) {
    StepTable::StepNode n{opNumbers_(op), phase};
    n.firstResult = addValue(name, bytes, uint32_t(out_.step.nodes.size()) + 1);
    out_.step.nodes.push_back(n);
    out_.step.operands.emplace_back();
    return n.firstResult;
  }

  void replay(const Snapshot::Event &e, uint32_t k) {
    paths_.resize(k);
    paths_.push_back(e.path);
    const std::string name = nameOf(e.path, e.address);
    switch (e.action) {
    case Action::Alloc: {
      const uint32_t v = addNode(e.text, Phase::Forward, name, e.bytes);
      if (live_.count(e.address))
        release(e.address, k);
      const bool isInSegment = takeFromGap(e.address, endOf(e.address, e.bytes), k);
      out_.figures.unmatched += !isInSegment;
      live_[e.address] = {v, e.bytes, k, false, isInSegment};
      return use(e.bytes);
    }
    case Action::FreeRequested:
    case Action::FreeCompleted:
      return free(e, k);
    default:
      addNode(e.text, Phase::Update, e.action == Action::Other ? e.text : name, e.bytes);
      if (opensSegment(e.action))
        openGap(e.address, endOf(e.address, e.bytes), k);
      else if (closesSegment(e.action))
        closeGaps(e.address, endOf(e.address, e.bytes), k);
      out_.figures.outOfMemory += e.text == "oom";
    }
  }

  void free(const Snapshot::Event &e, uint32_t k) {
    const auto found = live_.find(e.address);
    const std::string name = found == live_.end() ? nameOf(e.path, e.address)
                                                  : out_.step.values[found->second.value].name;
    addNode(e.text, Phase::Backward, name, 0);
    if (found == live_.end()) {
      ++out_.figures.unmatched;
      return;
    }
    const uint32_t v = found->second.value;
    paths_.back() = found->second.begin < paths_.size() ? paths_[found->second.begin] : e.path;
    out_.step.operands.back().push_back(v);
    readers_.push_back({v, k});
    if (e.action == Action::FreeCompleted)
      return release(e.address, k);
    emit(found->first, found->second, k);
    found->second.isFreed = true;
    found->second.begin = k;
  }

  // --- What is in use

  void use(int64_t bytes) {
    inUse_ += bytes;
    isTooLarge_ |= inUse_ > kMost;
    if (isTooLarge_)
      inUse_ = 0; // an error follows
  }
  void release(uint64_t address, uint32_t k) {
    const Live block = live_[address];
    emit(address, block, k);
    live_.erase(address);
    inUse_ -= std::min(inUse_, block.bytes);
    if (block.isInSegment)
      openGap(address, endOf(address, block.bytes), k);
  }
  void emit(uint64_t address, const Live &b, uint32_t end) {
    out_.step.timeline.add({ValueId(b.value), NodeId(b.begin), b.isFreed ? kAwaitsFree : kAllocated,
                            offsetOf(address), b.bytes, b.begin, end});
  }

  // --- Gaps

  void emitGap(uint64_t begin, const Gap &g, uint32_t end) {
    out_.step.timeline.add({ValueId(gapValue_), NodeId(g.begin), kUnused, offsetOf(begin),
                            int64_t(g.end - begin), g.begin, end});
  }
  // False, and nothing changes, if there is no gap that holds the stretch.
  bool takeFromGap(uint64_t begin, uint64_t end, uint32_t k) {
    auto at = gaps_.upper_bound(begin);
    if (at == gaps_.begin() || begin >= end || (--at)->second.end < end)
      return begin >= end;
    const uint64_t from = at->first;
    const Gap gap = at->second;
    emitGap(from, gap, k);
    gaps_.erase(at);
    if (from < begin)
      gaps_[from] = {begin, k};
    if (end < gap.end)
      gaps_[end] = {gap.end, k};
    return true;
  }
  // Joins the gap with those that it touches.
  void openGap(uint64_t begin, uint64_t end, uint32_t k) {
    auto next = gaps_.upper_bound(begin);
    if (next != gaps_.begin() && std::prev(next)->second.end >= begin)
      --next;
    while (next != gaps_.end() && next->first <= end) {
      emitGap(next->first, next->second, k);
      begin = std::min(begin, next->first);
      end = std::max(end, next->second.end);
      next = gaps_.erase(next);
    }
    if (begin < end)
      gaps_[begin] = {end, k};
  }
  void closeGaps(uint64_t begin, uint64_t end, uint32_t k) {
    auto at = gaps_.upper_bound(begin);
    if (at != gaps_.begin())
      --at;
    while (at != gaps_.end() && at->first < end) {
      const uint64_t from = at->first;
      const Gap gap = at->second;
      if (gap.end <= begin) {
        ++at;
        continue;
      }
      emitGap(from, gap, k);
      at = gaps_.erase(at);
      if (from < begin)
        gaps_[from] = {begin, k};
      if (end < gap.end)
        gaps_[end] = {gap.end, k};
    }
  }

  void finish(uint32_t end) {
    StepTable &step = out_.step;
    for (const auto &[address, block] : live_)
      emit(address, block, end);
    for (const auto &[begin, gap] : gaps_)
      emitGap(begin, gap, end);
    step.timeline.us = times();
    step.timeline.readers.resize(step.values.size());
    for (const auto &[value, node] : readers_)
      step.timeline.readers[value].push_back(node);
    for (const std::string &text : opTexts_)
      step.ops.push_back({text, false});
    step.timeline.finish(end);
    paths_.resize(end);
    std::vector<ModulePath> paths;
    for (const std::string &path : paths_)
      paths.push_back({path, true});
    step.modules =
        modulesOf(paths, ModuleTree::kMostChildren, llvm::StringRef(&Snapshot::kDivider, 1));
    setFigures();
  }

  // From an event to the next one, in microseconds.
  std::vector<double> times() const {
    std::vector<double> us(s_.trace.size() + 1, 0);
    for (size_t i = 0; i + 1 < s_.trace.size(); ++i)
      us[i + 1] = std::max(0.0, double(s_.trace[i + 1].timeUs) - double(s_.trace[i].timeUs));
    return us;
  }

  void setFigures() {
    const Timeline &t = out_.step.timeline;
    auto at = [&](LiveKind kind, size_t node) {
      const std::vector<int64_t> &of = t.liveOf[size_t(kind)];
      return of.empty() ? 0 : of[node];
    };
    const uint32_t peak = t.peakNode();
    out_.figures.reservedBytes = t.live[peak];
    out_.figures.unusedBytes = at(kUnused, peak);
    for (size_t i = 0; i < t.live.size(); ++i)
      out_.figures.allocatedBytes =
          std::max(out_.figures.allocatedBytes, at(kAllocated, i) + at(kAwaitsFree, i));
    out_.figures.segments = s_.segments.size();
  }

  static constexpr size_t kMostInputs = 1000; // whose kind is told

  const Snapshot &s_;
  const State start_;
  SnapshotStep out_;
  TextNumbers types_;
  std::vector<std::string> opTexts_;
  TextNumbers opNumbers_;
  std::map<uint64_t, int64_t> offsets_; // by the first address of a stretch
  std::map<uint64_t, Live> live_;
  std::map<uint64_t, Gap> gaps_;
  std::vector<std::pair<uint32_t, uint32_t>> readers_; // values, and nodes
  std::vector<std::string> paths_;                     // by node
  uint32_t gapValue_ = 0;
  int64_t inUse_ = 0;
  bool isTooLarge_ = false;
};

} // namespace

llvm::Expected<SnapshotStep> stepOf(const Snapshot &s) { return Replay(s).run(); }

} // namespace isthmus
