#include "passes/plan/storage_graph.h"

#include <algorithm>

namespace isthmus::plan {

StorageGraph::StorageGraph(const Problem &p, bool optional)
    : Storages(p, Views::NeedAll), order(p.order), numDefault(uint32_t(ops.size())), p_(p) {
  auto isBackward = [](const Op &op) { return op.isBackward; };
  auto first = std::find_if(ops.begin(), ops.end(), isBackward);
  firstBackward = first == ops.end() ? kNone : uint32_t(first - ops.begin());
  if (optional)
    addOptional();
}

void StorageGraph::addOptional() {
  std::vector<uint32_t> toHost(p_.ops.size(), kNone); // by wait: the op here
  for (OpIndex i = 0; i < p_.ops.size(); ++i) {
    const plan::Op &op = p_.ops[i];
    if (op.of == plan::Op::kNone || !op.recomputable || firstOf_[op.of] == kNone)
      continue;
    if (op.transfer == plan::Op::Transfer::WaitPrefetch)
      addCopyBack(i, toHost);
    else
      addForm(i);
  }
  others_.resize(storages.size());
  for (uint32_t i = numDefault; i < ops.size(); ++i)
    for (uint32_t k = 0; k < ops[i].numMade && ops[i].bus != Op::Bus::ToHost; ++k)
      others_[ops[i].firstMade + k].push_back(i);
}

bool StorageGraph::isUsable(const std::vector<Read> &inputs) const {
  return std::all_of(inputs.begin(), inputs.end(), [&](const Read &r) {
    return p_.ops[r.op].isPinned || (needed_[r.op] && !p_.ops[r.op].isAlternative);
  });
}

bool StorageGraph::makesCopyOf(const plan::Op &from, Op &op) const {
  const bool isAll = from.ofOutput == plan::Op::kAllOutputs;
  op.firstMade = firstOf_[from.of] + (isAll ? 0 : from.ofOutput);
  const Op &own = ops[storages[firstOf_[from.of]].maker];
  op.numMade = isAll ? own.numMade : 1;
  for (uint32_t s = own.firstMade; s < own.firstMade + own.numMade; ++s)
    if (storages[s].isPinned) // views are run again after a new copy of any result
      return false;
  return true;
}

void StorageGraph::addForm(OpIndex i) {
  const plan::Op &from = p_.ops[i];
  Op op;
  if (!isUsable(from.inputs) || !makesCopyOf(from, op))
    return;
  op.source = i;
  op.cost = from.cost;
  op.workspace = p_.rounded(from.workspace);
  op.isBackward = from.phase != OpPhase::Forward;
  op.reads = readsOf(p_, from);
  op.donations = reuseOf(p_, from, op.firstMade);
  ops.push_back(std::move(op));
}

// With the copy to the host, unless another one has brought that along.
void StorageGraph::addCopyBack(OpIndex wait, std::vector<uint32_t> &toHost) {
  const plan::Op &last = p_.ops[wait];
  const OpIndex start = last.inputs[0].op, hostWait = p_.ops[start].inputs[0].op,
                hostStart = p_.ops[hostWait].inputs[0].op;
  const plan::Op &from = p_.ops[start], &onHost = p_.ops[hostWait], &first = p_.ops[hostStart];
  Op back;
  if (last.inputs.size() != 1 || last.outputBytes.size() != 1 || !from.recomputable ||
      !makesCopyOf(last, back))
    return;
  if (toHost[hostWait] == kNone) {
    Op out;
    out.reads = readsOf(p_, first);
    out.isBackward = first.phase != OpPhase::Forward || onHost.phase != OpPhase::Forward;
    if (onHost.inputs.size() != 1 || !onHost.recomputable || !first.recomputable ||
        !isUsable(first.inputs) || out.reads.empty() || (out.isBackward && order == Order::Phases))
      return;
    out.source = hostWait;
    out.otherEnd = hostStart;
    out.bus = Op::Bus::ToHost;
    out.transferTime = first.transferTime;
    out.firstMade = uint32_t(storages.size());
    out.numMade = 1;
    toHost[hostWait] = uint32_t(ops.size());
    storages.push_back({0, uint32_t(ops.size())});
    ops.push_back(std::move(out));
  }
  back.source = start;
  back.otherEnd = wait;
  back.bus = Op::Bus::ToDevice;
  back.transferTime = from.transferTime;
  back.isBackward = from.phase != OpPhase::Forward || last.phase != OpPhase::Forward;
  back.reads = {ops[toHost[hostWait]].firstMade};
  ops.push_back(std::move(back));
  hasCopies = true;
}

namespace {

// Runs ops, and just before each the views that it reads, where their base has a newer copy.
class Emitter {
public:
  explicit Emitter(const Problem &p) : p_(p), needed_(neededOps(p)), copy_(p.ops.size(), 0) {
    if (p.order != Order::Phases)
      return;
    auto wait = [&](OpIndex op) {
      if (p_.ops[op].isView() && p_.ops[op].phase == OpPhase::Forward)
        waiting_.push_back(op);
    };
    for (OpIndex op : p.forwardOutputs)
      wait(op);
    for (const Read &r : p.outputs)
      wait(r.op);
  }

  void run(OpIndex op) {
    if (!p_.ops[op].isAlternative)
      viewsBefore(op);
    forwardOutputs();
    for (const Read &r : p_.ops[op].inputs)
      refresh(r.op);
    out_.push_back(op);
    renew(op);
  }

  // A start that reads what is there, or a wait.
  void end(OpIndex op) {
    for (const Read &r : p_.ops[op].inputs)
      refresh(r.op);
    out_.push_back(op);
    if (p_.ops[op].of != Op::kNone) {
      renew(p_.ops[op].of);
      forwardOutputs();
    }
  }

  void renew(OpIndex op) {
    copy_[op] = ++numCopies_;
    if (p_.ops[op].of != Op::kNone && !p_.ops[op].startsTransfer())
      copy_[p_.ops[op].of] = numCopies_;
  }

  // Where the order is fixed, views too run in their places.
  void viewsBefore(OpIndex op) {
    for (; p_.order == Order::Fixed && nextView_ < op; ++nextView_)
      refresh(nextView_);
  }

  // In an order by phases, views that the forward part has to compute run as soon as they can.
  void forwardOutputs() {
    auto isDone = [&](OpIndex view) {
      bool can = isThere(view);
      if (can)
        refresh(view);
      return can;
    };
    waiting_.erase(std::remove_if(waiting_.begin(), waiting_.end(), isDone), waiting_.end());
  }

  bool isThere(OpIndex i) const {
    const Op &op = p_.ops[i];
    return op.isPinned || copy_[i] > 0 ||
           (op.isView() && std::all_of(op.inputs.begin(), op.inputs.end(),
                                       [&](const Read &r) { return isThere(r.op); }));
  }

  // A view is as new as its base's copy.
  void refresh(OpIndex op) {
    if (!p_.ops[op].isView() || !needed_[op])
      return;
    chain_.clear();
    while (p_.ops[op].isView()) {
      chain_.push_back(op);
      op = p_.ops[op].inputs[p_.ops[op].viewOf].op;
    }
    uint64_t base = p_.ops[op].isPinned ? 1 : copy_[op];
    while (!chain_.empty()) {
      OpIndex view = chain_.back();
      chain_.pop_back();
      if (copy_[view] == base)
        continue;
      std::vector<OpIndex> rest = std::move(chain_);
      for (const Read &r : p_.ops[view].inputs)
        refresh(r.op);
      chain_ = std::move(rest);
      copy_[view] = base;
      out_.push_back(view);
    }
  }

  Schedule take() { return std::move(out_); }

private:
  const Problem &p_;
  std::vector<char> needed_;
  OpIndex nextView_ = 0;
  std::vector<OpIndex> waiting_; // forward outputs that are views and have not run
  std::vector<uint64_t> copy_;   // of ops, a number for each run; of views, that of their base
  uint64_t numCopies_ = 1;       // 1 stands for what is always there
  std::vector<OpIndex> chain_;
  Schedule out_;
};

// Where the other ends of copies go, by run: before it, those to the device that it waits for and
// then those to the host that begin with what they brought; after it, those to the host that begin
// with what it made.
struct Ends {
  std::vector<std::vector<OpIndex>> waits, startsBefore, startsAfter;
  std::vector<char> isLeftOut; // a copy of which nothing is read

  Ends(const StorageGraph &g, const std::vector<uint32_t> &runs)
      : waits(runs.size() + 1), startsBefore(runs.size() + 1), startsAfter(runs.size()),
        isLeftOut(runs.size(), 0) {
    if (!g.hasCopies)
      return;
    std::vector<uint32_t> newest(g.storages.size(), kNone); // the run that made it
    std::vector<uint32_t> firstReader(runs.size(), kNone);
    std::vector<std::pair<uint32_t, uint32_t>> copied; // a run that copies to the host; a maker
    auto read = [&](uint32_t s, uint32_t by) {
      if (uint32_t maker = newest[s]; maker != kNone && firstReader[maker] == kNone)
        firstReader[maker] = by;
    };
    for (uint32_t i = 0; i < runs.size(); ++i) {
      const StorageGraph::Op &op = g.ops[runs[i]];
      for (uint32_t s : op.reads) {
        read(s, i);
        if (op.bus == Bus::ToHost)
          copied.push_back({i, newest[s]});
      }
      for (uint32_t k = 0; k < op.numMade; ++k)
        newest[op.firstMade + k] = i;
    }
    for (uint32_t s = 0; s < g.storages.size(); ++s)
      if (g.storages[s].lives)
        read(s, static_cast<uint32_t>(runs.size()));
    for (uint32_t i = 0; i < runs.size(); ++i) {
      const StorageGraph::Op &op = g.ops[runs[i]];
      isLeftOut[i] = op.bus != Bus::None && firstReader[i] == kNone;
      if (op.bus == Bus::ToDevice && !isLeftOut[i])
        waits[firstReader[i]].push_back(op.otherEnd);
    }
    for (size_t k = 0; k < copied.size();) {
      uint32_t run = copied[k].first;
      std::pair<uint32_t, bool> last{0, false}; // a run, and whether after it
      for (; k < copied.size() && copied[k].first == run; ++k) {
        uint32_t maker = copied[k].second;
        bool isBack = g.ops[runs[maker]].bus == Bus::ToDevice;
        last = std::max(last, {isBack ? firstReader[maker] : maker, !isBack});
      }
      if (!isLeftOut[run])
        (last.second ? startsAfter : startsBefore)[last.first].push_back(g.ops[runs[run]].otherEnd);
    }
  }

private:
  static constexpr uint32_t kNone = ~0u;
  using Bus = StorageGraph::Op::Bus;
};

} // namespace

Schedule StorageGraph::scheduleOf(const std::vector<uint32_t> &runs) const {
  Emitter emitter(p_);
  Ends ends(*this, runs);
  auto all = [&](const std::vector<OpIndex> &list) {
    for (OpIndex op : list)
      emitter.end(op);
  };
  for (uint32_t i = 0; i <= runs.size(); ++i) {
    all(ends.waits[i]);
    all(ends.startsBefore[i]);
    if (i == runs.size())
      break;
    if (ends.isLeftOut[i])
      continue;
    if (const Op &op = ops[runs[i]]; op.bus == Op::Bus::None)
      emitter.run(op.source);
    else
      emitter.end(op.source);
    all(ends.startsAfter[i]);
  }
  emitter.viewsBefore(static_cast<OpIndex>(p_.ops.size()));
  emitter.forwardOutputs();
  for (const Read &r : p_.outputs)
    emitter.refresh(r.op);
  return emitter.take();
}

} // namespace isthmus::plan
