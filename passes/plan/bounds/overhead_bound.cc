// A lower bound on the cost within a budget. Most of it can be proven at one moment: the first run
// of an op e, when many storages wait for later readers.
//
// Take any valid schedule whose first runs have the given order. For the storages s that tasks up
// to e make, and for these tasks v, let
//
//   keep[s] = 1 if an instance of s is live right after the first run of e,
//   run[v]  = 1 if v runs again after it.
//
// While e runs, its operands, its results and its workspace are live, and all kept storages beside
// them. An operand donates its bytes only if it dies, that is, keep = 0 (if a view keeps an older
// instance of it, both are live, and the sum is no smaller). A storage that is read later was kept
// or is rematerialized. So
//
//   1. sum of bytes[s] keep[s], over s that e neither reads nor makes, <= budget - working set(e)
//   2. keep[s] + run[maker(s)] >= 1, if a task after e reads s at its first run, or s is an output
//   3. run[v] <= keep[r] + run[maker(r)], for all r that v reads
//   4. run[v] = 0, if v may run only once
//
// and the schedule costs at least the sum of all first runs plus the sum of cost[v] run[v]. The
// minimum of this small problem, a knapsack with precedence, is a bound. (A problem of many
// moments, with variables for the steps between them, would be tighter, but its linear relaxation
// is far weaker: it rematerializes a chain in small fractions, one moment after the other, and pays
// only a small part of each run.)
//
// With a price (>= 0) for the bytes and one for each pair of constraint 3 (>= 0; "chain"), every
// task decides alone, so any prices give a bound. Subgradient steps find good prices (direction:
// averaged, as in Barahona and Anbil's volume algorithm, 2000; length: Polyak's, for the best known
// cost). If single storages are large, branching on keep[s] closes the gap. The best of several
// moments counts. The smallest storages, together a small share of all bytes, count as 0 bytes and
// are always live; so do all but the two largest results of a task. This only lowers the bound.
#include "passes/plan/bounds/overhead_bound.h"

#include "passes/plan/bounds/needs.h"

#include <algorithm>
#include <numeric>
#include <queue>

namespace isthmus::plan {
namespace {

constexpr uint32_t kNone = ~0u;
constexpr int64_t kSmallShare = 512;
constexpr uint32_t kMostResults = 2;
constexpr size_t kMoments = 24; // tried first
constexpr size_t kBest = 3;     // the best of them, branched on
constexpr size_t kFirstSteps = 120, kMoreSteps = 400, kBranchSteps = 60;
constexpr uint64_t kStepsPerWork = 4;

// Tasks whose results may be evicted and rematerialized, in the order of first runs. They and their
// storages are numbered anew.
struct Chains {
  struct Storage {
    int64_t bytes;
    uint32_t maker;
    uint32_t lastRead; // position of the last first run that reads it; kNone: it lives to the end
  };
  struct Maker {
    double cost;
    bool mayRepeat;
    uint32_t position;            // of its first run
    uint32_t storage, num;        // its results
    uint32_t firstEdge, numEdges; // its operands, if it may repeat
  };
  struct Edge {
    uint32_t maker, storage;
  };

  std::vector<Maker> makers;
  std::vector<Storage> storages;
  std::vector<Edge> edges;
  IdVector<StorageId, uint32_t> indexOf; // kNone: left out

  Chains(const Needs &n, const std::vector<TaskId> &order, int64_t small)
      : indexOf(n.storages.size(), kNone) {
    std::vector<StorageId> large;
    for (uint32_t position = 0; position < order.size(); ++position) {
      const Needs::Task &from = n.tasks[order[position]];
      large.clear();
      for (StorageId m : from.made())
        if (n.storages[m].bytes > small)
          large.push_back(m);
      std::stable_sort(large.begin(), large.end(), [&](StorageId a, StorageId b) {
        return n.storages[a].bytes > n.storages[b].bytes;
      });
      large.resize(std::min<size_t>(large.size(), kMostResults));
      uint32_t me = static_cast<uint32_t>(makers.size());
      uint32_t firstEdge = static_cast<uint32_t>(edges.size());
      for (StorageId r : from.reads)
        if (uint32_t s = indexOf[r]; s != kNone) {
          if (storages[s].lastRead != kNone)
            storages[s].lastRead = position;
          if (from.mayRepeat && !large.empty())
            edges.push_back({me, s});
        }
      if (large.empty())
        continue;
      makers.push_back({from.cost, from.mayRepeat, position, static_cast<uint32_t>(storages.size()),
                        static_cast<uint32_t>(large.size()), firstEdge,
                        static_cast<uint32_t>(edges.size()) - firstEdge});
      for (StorageId m : large) {
        indexOf[m] = static_cast<uint32_t>(storages.size());
        storages.push_back({n.storages[m].bytes, me, n.storages[m].lives ? kNone : position});
      }
    }
  }
};

// The small problem of one moment.
class Moment {
public:
  enum class Fixed : char { No, Evicted, Kept };

  struct Prices {
    double bytes = 0;         // per unit
    std::vector<float> chain; // by edge
  };

  struct Bound {
    double cost = 0; // added to the first runs
    Prices prices;
    uint32_t split = kNone; // the storage whose `keep` is most undecided
  };

  Moment(const Needs &n, const Chains &c, TaskId e, uint32_t position, int64_t budget) : c_(c) {
    auto isUpTo = [&](uint32_t maker) { return c.makers[maker].position <= position; };
    auto count = [&](const auto &list) {
      auto end = std::partition_point(list.begin(), list.end(),
                                      [&](const auto &x) { return isUpTo(x.maker); });
      return static_cast<uint32_t>(end - list.begin());
    };
    numStorages_ = count(c.storages);
    numEdges_ = count(c.edges);
    numMakers_ = numStorages_ ? c.storages[numStorages_ - 1].maker + 1 : 0;
    unit_ = 1;
    for (uint32_t s = 0; s < numStorages_; ++s)
      unit_ += double(c.storages[s].bytes) / numStorages_;
    for (uint32_t s = 0; s < numStorages_; ++s) {
      hold_.push_back(double(c.storages[s].bytes) / unit_);
      isNeeded_.push_back(c.storages[s].lastRead == kNone || c.storages[s].lastRead > position);
    }
    const Needs::Task &task = n.tasks[e];
    int64_t needs = task.workspace;
    auto isLive = [&](StorageId s) {
      needs += n.storages[s].bytes;
      if (c.indexOf[s] != kNone)
        hold_[c.indexOf[s]] = 0;
    };
    for (StorageId r : task.reads)
      isLive(r);
    for (StorageId m : task.made()) {
      isLive(m);
      // `from` donates its bytes, unless it is kept.
      StorageId from;
      bool isOne = true;
      for (const Needs::Task::Donation &d : task.donations)
        if (d.made == m) {
          isOne = !from || from == d.read;
          from = d.read;
        }
      if (!from)
        continue;
      needs -= n.storages[m].bytes;
      if (isOne && c.indexOf[from] != kNone)
        hold_[c.indexOf[from]] += double(n.storages[m].bytes) / unit_;
    }
    room_ = double(budget - needs) / unit_;
    fixed_.assign(numStorages_, Fixed::No);
  }

  double pricePerByte(const Prices &p) const { return p.bytes / unit_; }
  size_t size() const { return numMakers_ + numStorages_ + 2 * numEdges_; }
  void fix(uint32_t storage, Fixed f) { fixed_[storage] = f; }

  // Starts from the prices in `from` (null: from 0); returns the best bound and its prices.
  // `target`: a known added cost; the search stops when the bound reaches it.
  Bound solve(const Prices *from, double target, size_t steps, uint64_t &work) {
    Bound best;
    best.cost = -1e300;
    Prices now;
    if (from)
      now = *from;
    now.chain.resize(numEdges_, 0.f);
    meanRun_.assign(numMakers_, 0.f);
    meanHave_.assign(numStorages_, 0.f);
    meanKeep_.assign(numStorages_, 0.f);
    meanOver_ = 0;
    double length = 1;
    size_t stale = 0;
    for (size_t step = 0; step < steps; ++step) {
      work += size() / kStepsPerWork + 1;
      double cost = decide(now);
      stale = cost > best.cost + 1e-4 * target ? 0 : stale + 1;
      length = stale ? length : std::min(length * 1.05, 1.5);
      if (cost > best.cost) {
        best.cost = cost;
        best.prices = now;
      }
      if (best.cost >= target)
        break;
      if (stale > 20) {
        stale = 0;
        length /= 2;
        now = best.prices;
      }
      average(step ? 0.1f : 1.f);
      double norm = direct(now);
      if (norm <= 1e-20)
        break; // the prices are optimal
      move(now, length * (goal(best.cost, target) - best.cost) / norm);
    }
    double most = 0.02;
    for (uint32_t s = 0; s < numStorages_; ++s) {
      double undecided = std::min(meanKeep_[s], 1 - meanKeep_[s]) * hold_[s];
      if (fixed_[s] == Fixed::No && undecided > most) {
        most = undecided;
        best.split = s;
      }
    }
    return best;
  }

private:
  // Decides for every maker at these prices; returns the total cost.
  double decide(const Prices &p) {
    earns_.assign(numStorages_, 0);
    for (uint32_t x = 0; x < numEdges_; ++x)
      earns_[c_.edges[x].storage] += p.chain[x];
    run_.assign(numMakers_, 0);
    have_.assign(numStorages_, 0);
    keep_.assign(numStorages_, 0);
    over_ = -room_;
    double sum = -p.bytes * room_;
    for (uint32_t i = 0; i < numMakers_; ++i) {
      const Chains::Maker &op = c_.makers[i];
      double run = op.mayRepeat ? op.cost : kNever, stay = 0;
      for (uint32_t x = op.firstEdge; x < op.firstEdge + op.numEdges; ++x)
        run += p.chain[x];
      for (uint32_t s = op.storage; s < op.storage + op.num; ++s) {
        double held = hold_[s] * p.bytes, kept = held - earns_[s];
        bool mustKeep = fixed_[s] == Fixed::Kept, mayKeep = fixed_[s] != Fixed::Evicted;
        run += (mustKeep ? held : 0) - earns_[s];
        keep_[s] = mustKeep || (mayKeep && (isNeeded_[s] || kept < 0));
        stay += keep_[s] ? kept : isNeeded_[s] ? kNever : 0;
      }
      run_[i] = run < stay;
      sum += std::min(run, stay);
      for (uint32_t s = op.storage; s < op.storage + op.num; ++s) {
        if (run_[i])
          keep_[s] = fixed_[s] == Fixed::Kept;
        have_[s] = keep_[s] || run_[i];
        over_ += keep_[s] ? hold_[s] : 0;
      }
    }
    return sum;
  }

  void average(float share) {
    auto to = [&](std::vector<float> &mean, const std::vector<char> &now) {
      for (size_t i = 0; i < mean.size(); ++i)
        mean[i] += share * (float(now[i]) - mean[i]);
    };
    to(meanRun_, run_);
    to(meanHave_, have_);
    to(meanKeep_, keep_);
    meanOver_ += share * (over_ - meanOver_);
  }

  // The cost at which a step aims: a known cost, or a little above the proven bound.
  static double goal(double proven, double target) {
    return std::min(1.02 * target, proven + std::max(0.5 * proven, 0.02 * target));
  }

  // Finds the direction of the prices. Returns its squared norm, over the prices that can follow
  // it.
  double direct(const Prices &p) {
    double sum = p.bytes > 0 || meanOver_ > 0 ? meanOver_ * meanOver_ : 0;
    direction_.resize(numEdges_);
    for (uint32_t x = 0; x < numEdges_; ++x) {
      const float g = meanRun_[c_.edges[x].maker] - meanHave_[c_.edges[x].storage];
      direction_[x] = g;
      if (g > 0 || p.chain[x] > 0)
        sum += g * g;
    }
    return sum;
  }

  void move(Prices &p, double step) const {
    p.bytes = std::max(0.0, p.bytes + step * meanOver_);
    for (uint32_t x = 0; x < numEdges_; ++x)
      p.chain[x] = std::max(0.f, p.chain[x] + float(step) * direction_[x]);
  }

  static constexpr double kNever = 1e15; // more than any cost

  const Chains &c_;
  uint32_t numMakers_, numStorages_, numEdges_; // up to e
  double unit_, room_;
  std::vector<double> hold_; // by storage: the part of `room_` that keeping it takes
  std::vector<char> isNeeded_;
  std::vector<Fixed> fixed_;

  std::vector<double> earns_;
  std::vector<char> run_, have_, keep_; // have: kept or rematerialized
  double over_ = 0;
  std::vector<float> meanRun_, meanHave_, meanKeep_;
  std::vector<float> direction_; // of the prices of `chain`
  double meanOver_ = 0;
};

// Branch and bound: splits the node of least cost again and again. The least cost left is a bound.
double branch(Moment &m, Moment::Bound root, double target, uint64_t until, uint64_t &work) {
  using Fixing = std::pair<uint32_t, Moment::Fixed>;
  struct Node {
    Moment::Bound bound;
    std::vector<Fixing> fixings;
  };
  auto isLess = [](const Node &a, const Node &b) { return a.bound.cost > b.bound.cost; };
  std::priority_queue<Node, std::vector<Node>, decltype(isLess)> open(isLess);
  open.push({std::move(root), {}});
  constexpr size_t kMostPrices = 1 << 22; // stored in all open nodes
  while (work < until && open.top().bound.cost < target && open.top().bound.split != kNone &&
         open.size() * open.top().bound.prices.chain.size() < kMostPrices) {
    Node node = open.top();
    open.pop();
    for (const Fixing &f : node.fixings)
      m.fix(f.first, f.second);
    uint32_t split = node.bound.split;
    for (Moment::Fixed f : {Moment::Fixed::Evicted, Moment::Fixed::Kept}) {
      m.fix(split, f);
      Node child;
      child.bound = m.solve(&node.bound.prices, target, kBranchSteps, work);
      child.bound.cost = std::max(child.bound.cost, node.bound.cost);
      child.fixings = node.fixings;
      child.fixings.push_back({split, f});
      open.push(std::move(child));
    }
    m.fix(split, Moment::Fixed::No);
    for (const Fixing &f : node.fixings)
      m.fix(f.first, Moment::Fixed::No);
  }
  return open.top().bound.cost;
}

// Positions at which the live bytes would exceed the budget if every storage were kept until the
// last first run that reads it: at most `most` of them, the fullest of each stretch.
std::vector<uint32_t> crowded(const Needs &n, const std::vector<TaskId> &order, int64_t budget,
                              size_t most) {
  IdVector<StorageId, uint32_t> last(n.storages.size());
  std::vector<int64_t> change(order.size() + 1, 0);
  for (uint32_t i = 0; i < order.size(); ++i) {
    const Needs::Task &task = n.tasks[order[i]];
    for (StorageId m : task.made()) {
      change[i] += n.storages[m].bytes;
      last[m] = n.storages[m].lives ? static_cast<uint32_t>(order.size() - 1) : i;
    }
    for (StorageId r : task.reads)
      last[r] = std::max(last[r], i);
  }
  for (StorageId s : n.storages.ids())
    change[last[s] + 1] -= n.storages[s].bytes;
  std::vector<int64_t> live(order.size());
  std::vector<uint32_t> full, picked;
  int64_t sum = 0;
  for (uint32_t i = 0; i < order.size(); ++i) {
    sum += change[i];
    live[i] = sum + n.tasks[order[i]].workspace;
    if (live[i] > budget)
      full.push_back(i);
  }
  most = std::min(most, full.size());
  for (size_t j = 0; j < most; ++j)
    picked.push_back(*std::max_element(full.begin() + full.size() * j / most,
                                       full.begin() + full.size() * (j + 1) / most,
                                       [&](uint32_t a, uint32_t b) { return live[a] < live[b]; }));
  return picked;
}

// The largest size of the storages to leave out.
int64_t smallBytes(const Needs &n) {
  std::vector<int64_t> bytes;
  for (const Needs::Storage &s : n.storages)
    bytes.push_back(s.bytes);
  std::sort(bytes.begin(), bytes.end());
  int64_t left = std::accumulate(bytes.begin(), bytes.end(), int64_t(0)) / kSmallShare, small = 0;
  for (int64_t b : bytes) {
    left -= b;
    if (left < 0)
      return std::min(small, b - 1); // all of one size or none
    small = b;
  }
  return small;
}

} // namespace

OverheadBound leastCost(const Problem &p, const Schedule &plan, int64_t budgetBytes,
                        double bestKnownCost, uint64_t work) {
  Needs n(p);
  std::vector<TaskId> taskOf(p.ops.size()), order;
  for (TaskId t : n.tasks.ids())
    taskOf[n.tasks[t].source] = t;
  OverheadBound result;
  double first = 0;
  for (OpIndex i : plan)
    if (taskOf[i]) {
      order.push_back(taskOf[i]);
      first += p.ops[i].cost;
      taskOf[i] = {};
    }
  result.cost = first;
  if (order.size() != n.tasks.size())
    return result;
  double target = bestKnownCost > first ? bestKnownCost - first : first;
  Chains chains(n, order, smallBytes(n));
  struct Tried {
    Moment::Bound bound;
    uint32_t position;
  };
  std::vector<Tried> tried;
  uint64_t done = 0;
  size_t size = chains.makers.size() + chains.storages.size() + 2 * chains.edges.size();
  uint64_t each = kFirstSteps * (size / kStepsPerWork + 1);
  size_t moments = static_cast<size_t>(std::clamp<uint64_t>(work / 2 / each, 1, kMoments));
  for (uint32_t position : crowded(n, order, budgetBytes, moments)) {
    Moment m(n, chains, order[position], position, budgetBytes);
    tried.push_back({m.solve(nullptr, target, kFirstSteps, done), position});
  }
  std::stable_sort(tried.begin(), tried.end(),
                   [](const Tried &a, const Tried &b) { return a.bound.cost > b.bound.cost; });
  double most = 0;
  for (size_t k = 0; k < std::min(kBest, tried.size()); ++k) {
    Moment m(n, chains, order[tried[k].position], tried[k].position, budgetBytes);
    Moment::Bound bound = std::move(tried[k].bound);
    double cost = bound.cost;
    double price = m.pricePerByte(bound.prices);
    if (done < work && cost < target) {
      Moment::Bound more = m.solve(&bound.prices, target, kMoreSteps, done);
      uint64_t until = done + (work > done ? (work - done) / (kBest - k) : 0);
      more.cost = std::max(more.cost, cost);
      price = m.pricePerByte(more.prices);
      // Of many tasks single storages are small, and branching on them gains nothing. (On five
      // plans of ResNets, GPT-2 and recurrent nets at most 0.03 % of the bound.)
      cost =
          n.tasks.size() < kManyTasks ? branch(m, std::move(more), target, until, done) : more.cost;
    }
    if (cost > most) {
      most = cost;
      result.at = n.tasks[order[tried[k].position]].source;
      result.pricePerByte = price;
    }
  }
  result.cost = first + most * (1 - 1e-9); // allows for rounding
  return result;
}

} // namespace isthmus::plan
