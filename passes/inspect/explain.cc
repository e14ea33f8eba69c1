#include "passes/inspect/explain.h"
#include "ir/loss_value.h"
#include "passes/names.h"

#include "passes/checkpoint/bottleneck_choice.h"
#include "passes/plan/overwrites.h"
#include "passes/rewrite/original.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/MathExtras.h"

namespace isthmus {
namespace {

using plan::Instance;
using plan::OpIndex;
using plan::Read;
using Kind = TensorDecision::Kind;
using Why = BottleneckDecision::Why;

class Explainer {
public:
  Explainer(const Graph &g, const Graph &original, const Target &t, const ExplainOptions &o)
      : g_(g), original_(original), target_(t), o_(o), roots_(storageRoots(g)) {}

  llvm::Expected<Explanation> run() {
    auto problem = extractProblem(g_, target_);
    if (!problem)
      return problem.takeError();
    p_ = std::move(*problem);
    overwriters_ = plan::overwritersOfReads(p_.problem);
    liveSets_ = liveSetsOf(g_, p_);
    out_.planned = liveSets_.peak(g_, p_);
    if (llvm::Error e = baseline())
      return e;
    findMost();
    groupCopies();
    addTotals();
    if (llvm::Error e = chooseTensors())
      return e;
    explainBottlenecks();
    return std::move(out_);
  }

private:
  llvm::Error baseline() {
    auto p = extractProblem(original_, target_);
    if (!p)
      return p.takeError();
    out_.baseline = liveSetsOf(original_, *p).peak(original_, *p);
    for (const plan::Op &op : p->problem.ops)
      out_.baselineUs += op.isPinned ? 0 : op.cost;
    out_.plannedUs = plan::evaluate(p_.problem, plan::sourceOrder(p_.problem)).cost;
    return llvm::Error::success();
  }

  // --- The decision of each tensor
  bool isFetch(const Node &n) const {
    return n.is(StandIn::Transfer) && n.op->is(kTransfer) && g_.type(n.firstResult).isPlain();
  }
  size_t count(llvm::ArrayRef<uint32_t> instances, LiveKind kind) const {
    return size_t(
        llvm::count_if(instances, [&](uint32_t i) { return liveSets_.kind(g_, p_, i) == kind; }));
  }
  ValueId firstRunOf(ValueId v) const {
    while (NodeId def = g_.value(v).def) {
      const Node &n = g_.node(def);
      if (n.isClone())
        v = g_.node(n.from.origin).result(g_.value(v).resultIndex);
      else if (isFetch(n) || inverses_.count(def))
        v = n.from.restores;
      else
        break;
    }
    return v;
  }

  void groupCopies() {
    for (NodeId id : inversesIn(g_)) // an inverse may end with a view
      inverses_.insert(g_.value(roots_[g_.node(id).firstResult.index]).def);
    dependsOnParameters_ = dependsOnParameters(g_);
    isCheckpoint_.assign(g_.numValues(), false);
    for (ValueId v : o_.checkpoints)
      isCheckpoint_[roots_[v.index].index] = true;
    instanceOf_.assign(g_.numValues(), kNone);
    instancesOf_.resize(g_.numValues());
    encodingsOf_.resize(g_.numValues());
    for (size_t i = 0; i < liveSets_.instances.size(); ++i) {
      ValueId v = liveSets_.value(g_, p_, i);
      instanceOf_[v.index] = uint32_t(i);
      if (const Node &n = g_.node(g_.value(v).def); n.is(StandIn::Encoding)) {
        encodingsOf_[roots_[n.from.restores.index].index].push_back(uint32_t(i));
        continue;
      }
      instancesOf_[firstRunOf(v).index].push_back(uint32_t(i));
    }
  }

  // Computes most_: by k and node, the most live bytes of the 2^k nodes from that node on.
  void findMost() {
    most_ = {liveSets_.live};
    for (size_t width = 1; 2 * width <= liveSets_.live.size(); width *= 2) {
      const std::vector<int64_t> &half = most_.back();
      std::vector<int64_t> whole;
      for (size_t i = 0; i + 2 * width <= liveSets_.live.size(); ++i)
        whole.push_back(std::max(half[i], half[i + width]));
      most_.push_back(std::move(whole));
    }
  }

  // The interval between two nodes, with the most live bytes strictly between them.
  IdleInterval gap(uint32_t from, uint32_t to) const {
    if (to <= from + 1)
      return {from, to, 0};
    const unsigned k = llvm::Log2_32(to - from - 1);
    return {from, to, std::max(most_[k][from + 1], most_[k][to - (1u << k)])};
  }

  Kind kindOf(ValueId v) const {
    const llvm::ArrayRef<uint32_t> instances = instancesOf_[v.index];
    if (count(instances, LiveKind::Fetched) > 0)
      return Kind::Fetched;
    if (instances.size() > 1 && count(instances, LiveKind::Rebuilt) > 0)
      return Kind::Rebuilt;
    if (!encodingsOf_[v.index].empty())
      return Kind::Encoded;
    if (instances.size() > 1)
      return Kind::Recomputed;
    switch (liveSets_.kindByUse(g_, p_, instances[0])) {
    case LiveKind::Saved:
      return Kind::Kept;
    case LiveKind::ParameterGradient:
    case LiveKind::OtherOutput:
      return Kind::Output;
    case LiveKind::Passing:
      return Kind::Passing;
    default:
      return Kind::Gradient;
    }
  }

  // `v` is the root value of a storage and the first instance.
  TensorDecision decisionOf(ValueId v) const {
    const std::vector<uint32_t> &instances = instancesOf_[v.index];
    const plan::Op &op = p_.problem.ops[p_.opOf(g_.value(v).def)];
    TensorDecision f;
    f.value = v;
    f.kind = kindOf(v);
    f.bytes = liveSets_.instances[instances[0]].bytes;
    f.fetches = unsigned(count(instances, LiveKind::Fetched));
    f.rebuildings = unsigned(count(instances, LiveKind::Rebuilt));
    f.recomputations = unsigned(instances.size() - 1) - f.fetches - f.rebuildings;
    for (uint32_t i : instances)
      if (liveSets_.kind(g_, p_, i) == LiveKind::Rebuilt)
        f.rebuildUs += p_.problem.ops[liveSets_.instances[i].made.op].cost;
    for (uint32_t i : encodingsOf_[v.index])
      f.encodedBytes += liveSets_.instances[i].bytes;
    f.linkUs = f.fetches ? 1e6 * target_.transferSeconds(g_.type(v).bytes()) : 0;
    f.runUs = op.cost;
    f.addedUs = op.cost * f.recomputations;
    f.mayRunAgain = op.recomputable;
    f.isCheckpoint = isCheckpoint_[v.index];
    f.dependsOnParameters = dependsOnParameters_[v.index];
    f.first = liveSets_.instances[instances[0]].first;
    for (uint32_t i : instances) {
      const Instance &c = liveSets_.instances[i];
      if (c.first > f.last && i != instances[0])
        f.away.push_back(gap(f.last, c.first));
      uint32_t from = c.first;
      for (uint32_t use : c.uses) {
        if (g_.node(NodeId(use)).op->is(kView) && use != c.last)
          continue; // the readers of the view count
        IdleInterval waits = gap(from, use);
        if (!f.kept || std::pair(waits.live, waits.to - waits.from) >
                           std::pair(f.kept->live, f.kept->to - f.kept->from))
          f.kept = waits;
        from = use;
      }
      f.last = std::max(f.last, c.last);
      f.isAtPeak |= out_.planned.node && c.first <= out_.planned.node.index &&
                    out_.planned.node.index <= c.last;
    }
    return f;
  }

  void addTotals() {
    for (uint32_t v = 0; v < g_.numValues(); ++v) {
      if (instancesOf_[v].empty())
        continue;
      int64_t bytes = liveSets_.instances[instancesOf_[v][0]].bytes;
      Explanation::Total &t = out_.totals[size_t(kindOf(ValueId(v)))];
      t.tensors += bytes > 0;
      t.bytes += bytes;
    }
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      out_.recomputations += g_.node(NodeId(i)).isClone() && !g_.node(NodeId(i)).op->is(kView);
  }

  // --- The values that chunks replace

  std::vector<ChunkedValue> inChunks() const {
    llvm::DenseMap<ValueId, ChunkedValue> found;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      const ValueId of = n.from.restores;
      if (!n.is(StandIn::Chunk) || !Graph::isReplaced(g_.value(of).def))
        continue;
      const Node &whole = g_.node(g_.value(of).def);
      for (uint32_t r = 0; r < std::min(n.numResults, whole.numResults); ++r) {
        const ValueId v = whole.firstResult == of ? whole.result(r) : of;
        ChunkedValue &c = found.insert({v, {v, {}, 0, 0, i, i}}).first->second;
        c.chunks = std::max(c.chunks, n.from.chunk + 1);
        c.last = i;
        if (g_.type(n.result(r)) == g_.type(v))
          c.whole = n.result(r);
        else
          c.mostBytes = std::max(c.mostBytes, g_.type(n.result(r)).bytes());
      }
    }
    std::vector<ChunkedValue> all;
    for (const auto &entry : found)
      all.push_back(entry.second);
    llvm::sort(all, [&](const ChunkedValue &a, const ChunkedValue &b) {
      return std::pair(-g_.type(a.value).bytes(), a.value.index) <
             std::pair(-g_.type(b.value).bytes(), b.value.index);
    });
    return all;
  }

  // `named`: the values to report; null: the largest that never exist whole.
  void chooseChunked(const std::vector<ValueId> *named) {
    for (const ChunkedValue &c : inChunks())
      if (named ? llvm::is_contained(*named, c.value) : !c.whole && out_.chunked.size() < o_.top)
        out_.chunked.push_back(c);
  }

  llvm::Error chooseTensors() {
    std::vector<ValueId> shown;
    if (!o_.of.empty()) {
      auto named = matchValues(g_, o_.of);
      if (!named)
        return named.takeError();
      chooseChunked(&*named);
      std::vector<bool> seen(g_.numValues(), false);
      for (ValueId v : *named) {
        ValueId first = storageOf(v);
        if (instancesOf_[first.index].empty() || seen[first.index])
          continue; // always live, or in chunks
        seen[first.index] = true;
        shown.push_back(first);
      }
      if (shown.empty() && out_.chunked.empty())
        return makeError(
            "'{0}' names only parameters and inputs, which are always live; name results of nodes",
            o_.of);
    } else {
      chooseChunked(nullptr);
      for (uint32_t v = 0; v < g_.numValues(); ++v) {
        if (instancesOf_[v].empty() || bytesOf(ValueId(v)) == 0)
          continue;
        Kind k = kindOf(ValueId(v));
        if (k == Kind::Kept || k == Kind::Recomputed || k == Kind::Fetched || k == Kind::Rebuilt ||
            k == Kind::Encoded)
          shown.push_back(ValueId(v));
      }
    }
    llvm::stable_sort(shown, [&](ValueId a, ValueId b) { return bytesOf(a) > bytesOf(b); });
    if (o_.of.empty() && shown.size() > o_.top)
      shown.resize(o_.top);
    for (ValueId v : shown)
      out_.tensors.push_back(atLength(decisionOf(v)));
    return llvm::Error::success();
  }

  int64_t bytesOf(ValueId v) const { return liveSets_.instances[instancesOf_[v.index][0]].bytes; }

  // The root value of the storage, in its first instance.
  ValueId storageOf(ValueId v) const { return firstRunOf(roots_[v.index]); }

  // --- What another choice would cost
  TensorDecision atLength(TensorDecision f) const {
    if (f.kept && f.mayRunAgain && f.kind != Kind::Output && f.kept->to > f.kept->from + 1)
      f.eviction = eviction(f);
    return f;
  }

  // Collects the steps that rerun an op before node `before`: first those that rematerialize its
  // operands, then the op.
  class Again {
  public:
    Again(const Explainer &e, uint32_t before) : e_(e), before_(before) {}

    // False if an op may not run again, or if there are too many steps.
    bool add(OpIndex op) {
      constexpr size_t kMost = 1000;
      if (!e_.p_.problem.ops[op].recomputable || depth_ >= kMost || runs.size() >= kMost ||
          readsOverwritten(op))
        return false;
      ++depth_;
      for (const Read &r : e_.p_.problem.ops[op].inputs)
        if (!isThere(r) && !llvm::is_contained(runs, r.op) && !add(r.op))
          return false;
      --depth_;
      runs.push_back(op);
      return true;
    }

    plan::Schedule runs;

  private:
    bool readsOverwritten(OpIndex op) const {
      return !e_.overwriters_.empty() && llvm::any_of(e_.overwriters_[op], [&](OpIndex by) {
        return e_.p_.nodeOf(by).index < before_;
      });
    }
    bool isThere(const Read &r) const {
      if (!e_.p_.isNode(r.op))
        return true;
      ValueId v = e_.g_.node(e_.p_.nodeOf(r.op)).result(r.output);
      uint32_t instance = e_.instanceOf_[e_.roots_[v.index].index];
      return instance == kNone || e_.liveSets_.instances[instance].last >= before_;
    }

    const Explainer &e_;
    uint32_t before_;
    size_t depth_ = 0;
  };

  // The effect of evicting the tensor in its idle interval `kept`; none if it cannot be
  // rematerialized.
  std::optional<Eviction> eviction(const TensorDecision &f) const {
    const uint32_t before = f.kept->to;
    auto holder = llvm::find_if(instancesOf_[f.value.index], [&](uint32_t i) {
      return liveSets_.instances[i].first <= f.kept->from && liveSets_.instances[i].last >= before;
    });
    if (holder == instancesOf_[f.value.index].end())
      return std::nullopt;
    const uint32_t instance = *holder;
    Again again(*this, before);
    if (!again.add(liveSets_.instances[instance].made.op))
      return std::nullopt;
    Eviction out;
    for (OpIndex op : again.runs) {
      out.runs += !p_.problem.ops[op].isView();
      out.us += p_.problem.ops[op].cost;
    }
    // Views of the old instance that are read after the interval are made again from the new
    // instance. Views made inside the interval are read only after it, so they move behind it.
    llvm::DenseMap<OpIndex, bool> isReadLater;
    for (uint32_t i = before; i < g_.numNodes(); ++i)
      for (const Read &r : p_.problem.ops[p_.opOf(NodeId(i))].inputs)
        isReadLater[r.op] = true;
    const ValueId made = liveSets_.value(g_, p_, instance);
    plan::Schedule s;
    for (uint32_t i = 0; i < before; ++i) {
      const OpIndex op = p_.opOf(NodeId(i));
      const bool isViewOfIt =
          p_.problem.ops[op].isView() && roots_[g_.node(NodeId(i)).firstResult.index] == made;
      if (!isViewOfIt || i <= f.kept->from)
        s.push_back(op);
      if (isViewOfIt && (isReadLater.count(op) || i > f.kept->from) &&
          !llvm::is_contained(again.runs, op))
        again.runs.push_back(op);
    }
    s.insert(s.end(), again.runs.begin(), again.runs.end());
    for (uint32_t i = before; i < g_.numNodes(); ++i)
      s.push_back(p_.opOf(NodeId(i)));
    plan::Evaluation e = plan::evaluate(p_.problem, s);
    if (!e.error.empty())
      return std::nullopt;
    out.peakBytes = e.peakBytes;
    return out;
  }

  // --- Bottlenecks
  void explainBottlenecks() {
    std::vector<ValueId> originalRoots = storageRoots(original_);
    BottleneckChoice choice = chooseBottlenecks(original_, originalRoots, o_.smallestCheckpoint);
    out_.checkpointTarget = choice.target;
    out_.checkpointStep = choice.step;
    ValueId loss = lossOf(original_);
    for (const BottleneckChoice::Candidate &c : choice.candidates) {
      ValueId v = g_.find(original_.valueName(c.value));
      if (!v)
        continue;
      ValueId storage = storageOf(v);
      if (instancesOf_[storage.index].empty())
        continue; // a view of an input
      BottleneckDecision b;
      b.value = v;
      b.tensor = decisionOf(storage);
      bool isEnd = c.value == loss || llvm::is_contained(original_.outputs(), c.value);
      b.why = isEnd ? Why::End : whyOf(c.decision, b.tensor);
      out_.bottlenecks.push_back(std::move(b));
    }
    std::vector<BottleneckDecision *> bySize;
    for (BottleneckDecision &b : out_.bottlenecks)
      bySize.push_back(&b);
    llvm::stable_sort(bySize, [](const BottleneckDecision *a, const BottleneckDecision *b) {
      return a->tensor.bytes > b->tensor.bytes;
    });
    for (BottleneckDecision *b : bySize) {
      if (b->why == Why::Price && numShown_++ < o_.top)
        b->tensor = atLength(std::move(b->tensor));
    }
  }

  Why whyOf(BottleneckChoice::Decision byRules, const TensorDecision &f) const {
    if (o_.policy == Policy::None)
      return Why::Price;
    if (o_.policyUsed == PlannedBy::None)
      return Why::NoGain;
    if (f.isCheckpoint)
      return Why::Taken;
    if (o_.policy == Policy::Speed)
      return Why::NotProduct;
    if (o_.policy == Policy::Collection)
      return Why::NotNamed;
    if (o_.policyUsed != PlannedBy::Memory)
      return Why::NotInCut;
    switch (byRules) {
    case BottleneckChoice::Decision::Taken:
      return Why::Taken;
    case BottleneckChoice::Decision::NotForward:
    case BottleneckChoice::Decision::KindOfOp:
      return Why::KindOfOp;
    case BottleneckChoice::Decision::Small:
      return Why::Small;
    case BottleneckChoice::Decision::SameStorage:
      return Why::SameStorage;
    case BottleneckChoice::Decision::NotRead:
      return Why::NotRead;
    case BottleneckChoice::Decision::InSegment:
      return Why::InSegment;
    }
    return Why::Price;
  }

  static constexpr uint32_t kNone = ~0u;

  const Graph &g_, &original_;
  const Target &target_;
  const ExplainOptions &o_;
  std::vector<ValueId> roots_;
  GraphProblem p_;
  std::vector<std::vector<OpIndex>> overwriters_; // see plan::overwritersOfReads
  LiveSets liveSets_;
  std::vector<std::vector<int64_t>> most_;
  size_t numShown_ = 0;
  llvm::DenseSet<NodeId> inverses_;
  std::vector<uint32_t> instanceOf_;               // by root: its instance, or kNone
  std::vector<std::vector<uint32_t>> instancesOf_; // by root of a first run: instances, in order
  std::vector<std::vector<uint32_t>> encodingsOf_; // by root of a first run
  std::vector<bool> dependsOnParameters_, isCheckpoint_;
  Explanation out_;
};

} // namespace

llvm::Expected<Explanation> explain(const Graph &g, const Graph &original, const Target &target,
                                    const ExplainOptions &options) {
  return Explainer(g, original, target, options).run();
}

} // namespace isthmus
