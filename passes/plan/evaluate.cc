#include "passes/plan/op_name.h"
#include "passes/plan/sizes.h"

#include <algorithm>
#include <numeric>

namespace isthmus::plan {
namespace {

// Simulates a schedule. Each step binds its outputs to instances: new ones or, for views and waits,
// those of its inputs.
class Simulation {
public:
  Simulation(const Problem &p, const Schedule &s) : p_(p), s_(s) {}

  Evaluation run() {
    bind();
    if (result_.error.empty())
      account();
    return result_;
  }

  std::vector<Instance> instances() {
    if (!run().error.empty() || s_.empty())
      return {};
    uint32_t end = static_cast<uint32_t>(s_.size() - 1);
    std::vector<Instance> all(instances_.size());
    for (uint32_t step = 0; step <= end; ++step) {
      for (uint32_t m = firstMade_[step]; m < firstMade_[step + 1]; ++m) {
        const Span &s = instances_[m];
        all[m] = {.made = {s_[step], m - firstMade_[step]},
                  .bytes = s.bytes,
                  .first = step,
                  .last = s.lives ? end : s.lastRead,
                  .isOutput = s.lives};
      }
      for (uint32_t r = firstRead_[step]; r < firstRead_[step + 1]; ++r)
        if (!isPinned(reads_[r]))
          if (auto &uses = all[reads_[r]].uses; uses.empty() || uses.back() != step)
            uses.push_back(step);
    }
    for (auto [from, to] : donated_)
      all[from].donatedTo = to;
    return all;
  }

private:
  static constexpr uint32_t kNone = ~0u;        // no instance yet
  static constexpr uint32_t kPinned = 1u << 31; // with the index of a pinned op
  static bool isPinned(uint32_t instance) { return instance != kNone && (instance & kPinned); }

  struct Span {
    int64_t bytes;
    uint32_t born, lastRead; // steps
    bool lives;              // to the end
  };

  // How this step breaks Problem::order; empty if it does not.
  std::string wrongOrder(OpIndex id, bool again) {
    const Op &op = p_.ops[id];
    if (p_.order == Order::Fixed && !again && !op.isAlternative) {
      if (id < highest_)
        return called(id) + " runs first after " + called(highest_) + ", and the order is fixed";
      highest_ = id;
    }
    if (numMissing_ > 0 && op.phase != OpPhase::Forward)
      return called(id) + " is not of the forward phase, and forward output " +
             called(firstMissing()) + " is not computed";
    return "";
  }

  // False, with the error set, if an input has no instance, or was overwritten.
  bool readInputs(uint32_t step) {
    const Op &op = p_.ops[s_[step]];
    auto read = [&](uint32_t instance) {
      if (isPinned(instance))
        readPinned(s_[step], instance & ~kPinned);
      else if (instance != kNone)
        instances_[instance].lastRead = step;
      reads_.push_back(instance);
      return instance != kNone;
    };
    for (const Read &r : op.inputs) {
      bool hasInstance = true;
      if (p_.ops[r.op].transfer == Op::Transfer::StartOffload) { // the start holds the instances
        hasInstance = !newest_[r.op].empty();
        for (uint32_t instance : newest_[r.op])
          read(instance);
      } else {
        hasInstance = read(newest_[r.op][r.output]);
      }
      if (!hasInstance) {
        fail(called(s_[step]) + " reads " + called(r.op) + " before it has run");
        return false;
      }
    }
    for (uint32_t k : op.overwrites)
      overwrittenBy_[op.inputs[k].op] = s_[step];
    return result_.error.empty();
  }

  void readPinned(OpIndex reader, OpIndex read) {
    if (OpIndex by = overwrittenBy_[read]; by != Op::kNone)
      fail(called(reader) + " reads " + called(read) + " after " + called(by) +
           " has overwritten it");
  }

  // Binds the outputs of this step.
  void makeOutputs(uint32_t step) {
    OpIndex id = s_[step];
    const Op &op = p_.ops[id];
    std::vector<uint32_t> &mine = newest_[id];
    if (op.isView()) {
      mine[0] = reads_[firstRead_[step] + op.viewOf];
    } else if (op.transfer == Op::Transfer::StartOffload) {
      mine.assign(reads_.begin() + firstRead_[step], reads_.end());
    } else if (op.transfer == Op::Transfer::WaitPrefetch) {
      mine = newest_[op.inputs[0].op];
    } else {
      for (size_t o = 0; o < op.outputBytes.size(); ++o) {
        mine[o] = static_cast<uint32_t>(instances_.size());
        instances_.push_back({p_.rounded(op.outputBytes[o]), step, step, false});
      }
    }
    if (op.of == Op::kNone)
      return;
    std::vector<uint32_t> &theirs = newest_[op.of];
    if (op.ofOutput == Op::kAllOutputs)
      theirs = mine;
    else
      theirs[op.ofOutput] = mine[0];
  }

  // Advances the clock of the ops that compute, or that of one direction of the link. Returns an
  // error or an empty string.
  std::string spendTime(OpIndex id) {
    constexpr double kNotUnderWay = -1;
    const Op &op = p_.ops[id];
    completion_.resize(p_.ops.size(), kNotUnderWay);
    if (op.startsTransfer()) {
      if (completion_[id] != kNotUnderWay)
        return "transfer " + called(id) + " is under way already";
      double &link = linkFree_[op.transfer == Op::Transfer::StartPrefetch];
      completion_[id] = link = std::max(link, result_.cost) + op.transferTime;
      ++result_.transfers;
      ++underWay_;
    } else if (op.waitsForTransfer()) {
      double &completion = completion_[op.inputs[0].op];
      if (completion == kNotUnderWay)
        return called(id) + " waits for a transfer that is not under way";
      result_.cost = std::max(result_.cost, completion);
      completion = kNotUnderWay;
      --underWay_;
    } else {
      result_.cost += op.cost;
    }
    return "";
  }

  void countRun(OpIndex id) {
    const Op &op = p_.ops[id];
    if (op.isView() || op.transfer != Op::Transfer::None)
      return;
    if (uint32_t &runs = runs_[op.of == Op::kNone ? id : op.of]; runs++ > 0)
      ++result_.recomputed;
  }

  bool hasInstance(OpIndex id) const {
    return std::find(newest_[id].begin(), newest_[id].end(), kNone) == newest_[id].end();
  }

  // Finds the outputs that the forward phase has to compute in an order by phases.
  void findForwardOutputs() {
    isMissing_.assign(p_.ops.size(), 0);
    auto miss = [&](OpIndex i) {
      if (p_.ops[i].isPinned || isMissing_[i])
        return;
      isMissing_[i] = 1;
      forwardOutputs_.push_back(i);
    };
    for (OpIndex i : p_.forwardOutputs)
      miss(i);
    for (const Read &r : p_.outputs)
      if (p_.ops[r.op].phase == OpPhase::Forward)
        miss(r.op);
    numMissing_ = forwardOutputs_.size();
  }

  OpIndex firstMissing() const {
    auto isMissing = [&](OpIndex i) { return isMissing_[i] != 0; };
    return *std::find_if(forwardOutputs_.begin(), forwardOutputs_.end(), isMissing);
  }

  void noteForwardOutput(OpIndex id) {
    if (numMissing_ == 0 || id == Op::kNone || !isMissing_[id] || !hasInstance(id))
      return;
    isMissing_[id] = 0;
    --numMissing_;
  }

  // First pass: binds reads to instances and finds each instance's last read.
  void bind() {
    newest_.resize(p_.ops.size());
    std::vector<char> ran(p_.ops.size(), 0);
    runs_.assign(p_.ops.size(), 0);
    if (p_.order == Order::Phases)
      findForwardOutputs();
    for (size_t i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].transfer != Op::Transfer::StartOffload)
        newest_[i].assign(std::max<size_t>(1, p_.ops[i].outputBytes.size()),
                          p_.ops[i].isPinned ? kPinned | uint32_t(i) : kNone);
    overwrittenBy_.assign(p_.ops.size(), Op::kNone);
    for (uint32_t step = 0; step < s_.size(); ++step) {
      OpIndex id = s_[step];
      if (id >= p_.ops.size() || p_.ops[id].isPinned)
        return fail("step " + std::to_string(step) + " runs op " + std::to_string(id) +
                    ", which cannot run");
      const Op &op = p_.ops[id];
      if (ran[id] && !op.recomputable)
        return fail(called(id) + " runs twice, and must not");
      if (std::string why = wrongOrder(id, ran[id]); !why.empty())
        return fail(std::move(why));
      ran[id] = 1;
      firstRead_.push_back(static_cast<uint32_t>(reads_.size()));
      if (!readInputs(step))
        return;
      firstMade_.push_back(static_cast<uint32_t>(instances_.size()));
      makeOutputs(step);
      countRun(id);
      if (std::string why = spendTime(id); !why.empty())
        return fail(std::move(why));
      noteForwardOutput(id);
      noteForwardOutput(op.of);
    }
    firstRead_.push_back(static_cast<uint32_t>(reads_.size()));
    firstMade_.push_back(static_cast<uint32_t>(instances_.size()));
    if (underWay_)
      return fail("a transfer is never waited for");
    if (numMissing_ > 0)
      return fail("forward output " + called(firstMissing()) + " is never computed");
    for (const Read &r : p_.outputs) {
      uint32_t instance = newest_[r.op][r.output];
      if (instance == kNone)
        return fail("output " + called(r.op) + " is never computed");
      if (isPinned(instance) && overwrittenBy_[instance & ~kPinned] != Op::kNone)
        return fail("output " + called(r.op) + " is overwritten");
      if (!isPinned(instance))
        instances_[instance].lives = true;
    }
  }

  // Second pass: sums live bytes.
  void account() {
    int64_t live = 0;
    std::vector<uint32_t> readSorted;
    for (uint32_t step = 0; step < s_.size(); ++step) {
      const Op &op = p_.ops[s_[step]];
      uint32_t made = firstMade_[step], madeEnd = firstMade_[step + 1];
      for (uint32_t m = made; m < madeEnd; ++m)
        live = saturatingSum(live, instances_[m].bytes);
      if (saturatingSum(live, p_.rounded(op.workspace)) > kMostBytes)
        return fail("more than 2^62 bytes are live at step " + std::to_string(step) + ", " +
                    called(s_[step]));
      int64_t now = live + p_.rounded(op.workspace) - donatedAt(step);
      if (now > result_.peakBytes) {
        result_.peakBytes = now;
        result_.peakStep = step;
      }
      readSorted.assign(reads_.begin() + firstRead_[step], reads_.begin() + firstRead_[step + 1]);
      std::sort(readSorted.begin(), readSorted.end());
      readSorted.erase(std::unique(readSorted.begin(), readSorted.end()), readSorted.end());
      for (uint32_t r : readSorted)
        if (!isPinned(r) && diesAt(r, step))
          live -= instances_[r].bytes;
      for (uint32_t m = made; m < madeEnd; ++m) // never read
        if (instances_[m].lastRead == step && !instances_[m].lives)
          live -= instances_[m].bytes;
    }
    result_.outputBytes = live;
  }

  bool diesAt(uint32_t instance, uint32_t step) const {
    const Span &s = instances_[instance];
    return s.born < step && s.lastRead == step && !s.lives;
  }

  // Bytes that inputs which die here donate to outputs of this step.
  int64_t donatedAt(uint32_t step) {
    const Op &op = p_.ops[s_[step]];
    int64_t bytes = 0;
    givers_.clear();
    if (!op.donations.empty())
      hasBytes_.assign(op.outputBytes.size(), 0);
    for (const Op::Donation &donation : op.donations) {
      uint32_t instance = reads_[firstRead_[step] + donation.input];
      if (isPinned(instance) || !diesAt(instance, step) || hasBytes_[donation.output] ||
          std::find(givers_.begin(), givers_.end(), instance) != givers_.end())
        continue;
      int64_t need = instances_[firstMade_[step] + donation.output].bytes;
      if (instances_[instance].bytes < need)
        continue;
      hasBytes_[donation.output] = 1;
      givers_.push_back(instance);
      donated_.push_back({instance, firstMade_[step] + donation.output});
      bytes += need;
    }
    return bytes;
  }

  std::string called(OpIndex i) const { return calledInMessages(p_, i); }
  void fail(std::string why) { result_.error = std::move(why); }

  const Problem &p_;
  const Schedule &s_;
  Evaluation result_;
  std::vector<std::vector<uint32_t>> newest_; // by op and output: the newest instance
  std::vector<OpIndex> overwrittenBy_;        // by pinned op: the op that overwrote it
  std::vector<Span> instances_;
  std::vector<uint32_t> reads_;                 // instances read, step by step
  std::vector<uint32_t> firstRead_, firstMade_; // by step, into reads_ and instances_
  std::vector<uint32_t> givers_;
  std::vector<char> hasBytes_; // by output of the step: it has donated bytes
  std::vector<std::pair<uint32_t, uint32_t>> donated_; // instances: from, to
  std::vector<uint32_t> runs_;                         // by op, with its other forms
  double linkFree_[2] = {0, 0};                        // when each direction of the link is free
  std::vector<double> completion_;                     // by start: when its transfer under way ends
  size_t underWay_ = 0;
  OpIndex highest_ = 0; // in a fixed order: the op of the latest first run
  // For an order by phases.
  std::vector<OpIndex> forwardOutputs_;
  std::vector<char> isMissing_; // by op: a forward output that is still to be computed
  size_t numMissing_ = 0;
};

} // namespace

Schedule sourceOrder(const Problem &p) {
  Schedule s;
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (!p.ops[i].isPinned && !p.ops[i].isAlternative)
      s.push_back(i);
  return s;
}

Evaluation evaluate(const Problem &p, const Schedule &s) { return Simulation(p, s).run(); }

std::vector<Instance> instancesOf(const Problem &p, const Schedule &s) {
  return Simulation(p, s).instances();
}

std::vector<int64_t> liveBytesOf(const Problem &p, const Schedule &s,
                                 const std::vector<Instance> &instances) {
  std::vector<int64_t> live(s.size() + 1, 0);
  for (const Instance &i : instances) {
    live[i.first] += i.bytes;
    live[i.last + 1] -= i.bytes;
  }
  live.pop_back();
  std::partial_sum(live.begin(), live.end(), live.begin());
  for (size_t step = 0; step < s.size(); ++step)
    live[step] += p.rounded(p.ops[s[step]].workspace);
  for (const Instance &i : instances)
    if (i.donatedTo != Instance::kNotDonated)
      live[i.last] -= instances[i.donatedTo].bytes;
  return live;
}

} // namespace isthmus::plan
