#include "passes/plan/sizes.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// Every run of an op makes copies; every copy refers to a storage, of its own or, for views and
// waits, another's.
class Simulation {
public:
  Simulation(const Problem &p, const Schedule &s) : p_(p), s_(s) {}

  Evaluation run() {
    bind();
    if (result_.error.empty())
      account();
    return result_;
  }

  std::vector<Lifetime> lifetimes() {
    if (!run().error.empty() || s_.empty())
      return {};
    uint32_t end = static_cast<uint32_t>(s_.size() - 1);
    std::vector<Lifetime> all;
    for (const Storage &s : storages_)
      all.push_back({s.bytes, s.born, s.lives ? end : s.lastRead});
    // An heir is made later than what it takes over, so that chains end in their first.
    for (size_t i = heirs_.size(); i-- > 0;) {
      auto [from, to] = heirs_[i];
      all[from].last = std::max(all[from].last, all[to].last);
      all[to].bytes = 0;
    }
    for (uint32_t step = 0; step <= end; ++step)
      all.push_back({p_.rounded(p_.ops[s_[step]].workspace), step, step});
    all.erase(
        std::remove_if(all.begin(), all.end(), [](const Lifetime &l) { return l.bytes <= 0; }),
        all.end());
    return all;
  }

  std::vector<StorageCopy> copies() {
    if (!run().error.empty() || s_.empty())
      return {};
    uint32_t end = static_cast<uint32_t>(s_.size() - 1);
    std::vector<StorageCopy> all(storages_.size());
    for (uint32_t step = 0; step <= end; ++step) {
      for (uint32_t m = firstMade_[step]; m < firstMade_[step + 1]; ++m) {
        const Storage &s = storages_[m];
        all[m] = {.made = {s_[step], m - firstMade_[step]},
                  .bytes = s.bytes,
                  .first = step,
                  .last = s.lives ? end : s.lastRead,
                  .isOutput = s.lives};
      }
      for (uint32_t r = firstRead_[step]; r < firstRead_[step + 1]; ++r)
        if (reads_[r] != kPersistent)
          if (auto &uses = all[reads_[r]].uses; uses.empty() || uses.back() != step)
            uses.push_back(step);
    }
    for (auto [from, to] : heirs_)
      all[from].heir = to;
    return all;
  }

private:
  static constexpr uint32_t kNone = ~0u;       // no copy yet
  static constexpr uint32_t kPersistent = ~1u; // bound to something that is always there

  struct Storage {
    int64_t bytes;
    uint32_t born, lastRead; // steps
    bool lives;              // to the end
  };

  // What Problem::order asks of this step; empty if all is well.
  std::string wrongOrder(OpIndex id, bool again) {
    const Op &op = p_.ops[id];
    if (p_.order == Order::Fixed && !again && !op.isOptional) {
      if (id < highest_)
        return "'" + op.name + "' runs first after '" + p_.ops[highest_].name +
               "', and the order is fixed";
      highest_ = id;
    }
    if (numMissing_ > 0 && op.phase != Phase::Forward)
      return "'" + op.name + "' is not of the forward phase, and forward output '" +
             firstMissing().name + "' is not computed";
    return "";
  }

  // Gives false, having failed, where there is nothing to read.
  bool readInputs(uint32_t step) {
    const Op &op = p_.ops[s_[step]];
    auto read = [&](uint32_t storage) {
      if (storage != kPersistent && storage != kNone)
        storages_[storage].lastRead = step;
      reads_.push_back(storage);
      return storage != kNone;
    };
    for (const Read &r : op.inputs) {
      bool isThere = true;
      if (p_.ops[r.op].copy == Op::Copy::StartToHost) { // holds what it read
        isThere = !newest_[r.op].empty();
        for (uint32_t storage : newest_[r.op])
          read(storage);
      } else {
        isThere = read(newest_[r.op][r.output]);
      }
      if (!isThere) {
        fail("'" + op.name + "' reads '" + p_.ops[r.op].name + "' before it has run");
        return false;
      }
    }
    return true;
  }

  // What the outputs of this step are bound to; storages of its own, but for views and waits.
  void makeOutputs(uint32_t step) {
    OpIndex id = s_[step];
    const Op &op = p_.ops[id];
    std::vector<uint32_t> &mine = newest_[id];
    if (op.isView()) {
      mine[0] = reads_[firstRead_[step] + op.viewOf];
    } else if (op.copy == Op::Copy::StartToHost) {
      mine.assign(reads_.begin() + firstRead_[step], reads_.end());
    } else if (op.copy == Op::Copy::WaitToDevice) {
      mine = newest_[op.inputs[0].op];
    } else {
      for (size_t o = 0; o < op.outputBytes.size(); ++o) {
        mine[o] = static_cast<uint32_t>(storages_.size());
        storages_.push_back({p_.rounded(op.outputBytes[o]), step, step, false});
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

  // The clock of the ops that compute, and one for each direction of the bus.
  std::string spendTime(OpIndex id) {
    constexpr double kNotUnderWay = -1;
    const Op &op = p_.ops[id];
    completion_.resize(p_.ops.size(), kNotUnderWay);
    if (op.isStart()) {
      if (completion_[id] != kNotUnderWay)
        return "copy '" + op.name + "' is under way already";
      double &bus = bus_[op.copy == Op::Copy::StartToDevice];
      completion_[id] = bus = std::max(bus, result_.cost) + op.busTime;
      ++result_.copies;
      ++underWay_;
    } else if (op.isWait()) {
      double &completion = completion_[op.inputs[0].op];
      if (completion == kNotUnderWay)
        return "'" + op.name + "' waits for a copy that is not under way";
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
    if (op.isView() || op.copy != Op::Copy::None)
      return;
    if (uint32_t &runs = runs_[op.of == Op::kNone ? id : op.of]; runs++ > 0)
      ++result_.recomputed;
  }

  bool isThere(OpIndex id) const {
    return std::find(newest_[id].begin(), newest_[id].end(), kNone) == newest_[id].end();
  }

  // Of an order by phases: what the forward phase has to compute.
  void findForwardOutputs() {
    isMissing_.assign(p_.ops.size(), 0);
    auto miss = [&](OpIndex i) {
      if (p_.ops[i].persistent || isMissing_[i])
        return;
      isMissing_[i] = 1;
      forwardOutputs_.push_back(i);
    };
    for (OpIndex i : p_.forwardOutputs)
      miss(i);
    for (const Read &r : p_.outputs)
      if (p_.ops[r.op].phase == Phase::Forward)
        miss(r.op);
    numMissing_ = forwardOutputs_.size();
  }

  const Op &firstMissing() const {
    auto isMissing = [&](OpIndex i) { return isMissing_[i] != 0; };
    return p_.ops[*std::find_if(forwardOutputs_.begin(), forwardOutputs_.end(), isMissing)];
  }

  void noteForwardOutput(OpIndex id) {
    if (numMissing_ == 0 || id == Op::kNone || !isMissing_[id] || !isThere(id))
      return;
    isMissing_[id] = 0;
    --numMissing_;
  }

  // First pass: binds reads to storages and finds each storage's last read.
  void bind() {
    newest_.resize(p_.ops.size());
    std::vector<char> ran(p_.ops.size(), 0);
    runs_.assign(p_.ops.size(), 0);
    if (p_.order == Order::Phases)
      findForwardOutputs();
    for (size_t i = 0; i < p_.ops.size(); ++i)
      if (p_.ops[i].copy != Op::Copy::StartToHost)
        newest_[i].assign(std::max<size_t>(1, p_.ops[i].outputBytes.size()),
                          p_.ops[i].persistent ? kPersistent : kNone);
    for (uint32_t step = 0; step < s_.size(); ++step) {
      OpIndex id = s_[step];
      if (id >= p_.ops.size() || p_.ops[id].persistent)
        return fail("step " + std::to_string(step) + " runs op " + std::to_string(id) +
                    ", which cannot run");
      const Op &op = p_.ops[id];
      if (ran[id] && !op.recomputable)
        return fail("'" + op.name + "' runs twice, and must not");
      if (std::string why = wrongOrder(id, ran[id]); !why.empty())
        return fail(std::move(why));
      ran[id] = 1;
      firstRead_.push_back(static_cast<uint32_t>(reads_.size()));
      if (!readInputs(step))
        return;
      firstMade_.push_back(static_cast<uint32_t>(storages_.size()));
      makeOutputs(step);
      countRun(id);
      if (std::string why = spendTime(id); !why.empty())
        return fail(std::move(why));
      noteForwardOutput(id);
      noteForwardOutput(op.of);
    }
    firstRead_.push_back(static_cast<uint32_t>(reads_.size()));
    firstMade_.push_back(static_cast<uint32_t>(storages_.size()));
    if (underWay_)
      return fail("a copy is never waited for");
    if (numMissing_ > 0)
      return fail("forward output '" + firstMissing().name + "' is never computed");
    for (const Read &r : p_.outputs) {
      uint32_t storage = newest_[r.op][r.output];
      if (storage == kNone)
        return fail("output '" + p_.ops[r.op].name + "' is never computed");
      if (storage != kPersistent)
        storages_[storage].lives = true;
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
        live = saturatingSum(live, storages_[m].bytes);
      if (saturatingSum(live, p_.rounded(op.workspace)) > kMostBytes)
        return fail("more than 2^62 bytes are live at step " + std::to_string(step) + ", '" +
                    op.name + "'");
      int64_t now = live + p_.rounded(op.workspace) - takenOver(step);
      if (now > result_.peakBytes) {
        result_.peakBytes = now;
        result_.peakStep = step;
      }
      readSorted.assign(reads_.begin() + firstRead_[step], reads_.begin() + firstRead_[step + 1]);
      std::sort(readSorted.begin(), readSorted.end());
      readSorted.erase(std::unique(readSorted.begin(), readSorted.end()), readSorted.end());
      for (uint32_t r : readSorted)
        if (r != kPersistent && diesAt(r, step))
          live -= storages_[r].bytes;
      for (uint32_t m = made; m < madeEnd; ++m) // never read
        if (storages_[m].lastRead == step && !storages_[m].lives)
          live -= storages_[m].bytes;
    }
    result_.outputBytes = live;
  }

  bool diesAt(uint32_t storage, uint32_t step) const {
    const Storage &s = storages_[storage];
    return s.born < step && s.lastRead == step && !s.lives;
  }

  // Bytes that outputs of this step share with inputs that die here.
  int64_t takenOver(uint32_t step) {
    const Op &op = p_.ops[s_[step]];
    int64_t bytes = 0;
    taken_.clear();
    if (!op.mayReuse.empty())
      isOverwriting_.assign(op.outputBytes.size(), 0);
    for (const Op::Reuse &reuse : op.mayReuse) {
      uint32_t storage = reads_[firstRead_[step] + reuse.input];
      if (storage == kPersistent || !diesAt(storage, step) || isOverwriting_[reuse.output] ||
          std::find(taken_.begin(), taken_.end(), storage) != taken_.end())
        continue;
      int64_t need = storages_[firstMade_[step] + reuse.output].bytes;
      if (storages_[storage].bytes < need)
        continue;
      isOverwriting_[reuse.output] = 1;
      taken_.push_back(storage);
      heirs_.push_back({storage, firstMade_[step] + reuse.output});
      bytes += need;
    }
    return bytes;
  }

  void fail(std::string why) { result_.error = std::move(why); }

  const Problem &p_;
  const Schedule &s_;
  Evaluation result_;
  std::vector<std::vector<uint32_t>> newest_; // by op and output: the storage of the newest copy
  std::vector<Storage> storages_;
  std::vector<uint32_t> reads_;                 // storages read, step by step
  std::vector<uint32_t> firstRead_, firstMade_; // by step, into reads_ and storages_
  std::vector<uint32_t> taken_;
  std::vector<char> isOverwriting_;                  // by output of the step
  std::vector<std::pair<uint32_t, uint32_t>> heirs_; // storages: taken over, by whom
  std::vector<uint32_t> runs_;                       // by op, with its other forms
  double bus_[2] = {0, 0};                           // until when each direction is taken
  std::vector<double> completion_;                   // by start, while it is under way
  size_t underWay_ = 0;
  OpIndex highest_ = 0; // the last first run, of a fixed order
  // Of an order by phases.
  std::vector<OpIndex> forwardOutputs_;
  std::vector<char> isMissing_; // by op: a forward output that is still to be computed
  size_t numMissing_ = 0;
};

} // namespace

Schedule sourceOrder(const Problem &p) {
  Schedule s;
  for (OpIndex i = 0; i < p.ops.size(); ++i)
    if (!p.ops[i].persistent && !p.ops[i].isOptional)
      s.push_back(i);
  return s;
}

Evaluation evaluate(const Problem &p, const Schedule &s) { return Simulation(p, s).run(); }

std::vector<Lifetime> lifetimes(const Problem &p, const Schedule &s) {
  return Simulation(p, s).lifetimes();
}

std::vector<StorageCopy> storageCopies(const Problem &p, const Schedule &s) {
  return Simulation(p, s).copies();
}

} // namespace isthmus::plan
