// A lower bound on the peak: a backward search from the outputs, over sets of storages that are
// live at one moment.
//
// Take any valid schedule and a set D of instances that are live after some step. Let X be the task
// whose step made the youngest of them. While X ran, D, the operands of X and its results were
// live; before it, D without its results and with its operands. Write L for the storages of D. Two
// instances of one storage count once, so the bytes of L are no more than those of D. Let
//
//   price(L, X) = bytes(L + reads(X) + makes(X)) + workspace(X) - bytes that may be donated
//   need(L)     = min over X that make a member of L:
//                   max(price(L, X), need(L - makes(X) + reads(X)))
//   need({})    = 0
//
// Then no schedule has a peak below need(outputs). All results of X leave L together, although some
// of the instances may be older than the step. That is safe, because need() does not grow when L
// shrinks (the same moves serve a subset, at no higher prices). An operand donates its bytes only
// if its instance dies; it does not if its storage is still in L. (If the member of L is an older
// instance of it, kept by a view, both are live, which is more than the price says.)
//
// A task that may run only once runs before all tasks that depend on it. So it may be X only if
// nothing else in L depends on it.
//
// need() is a bottleneck shortest path, found best first with a rising threshold. Three rules keep
// the number of sets small:
//   - If a set reaches one of its subsets within the threshold, the subset replaces it.
//   - solo(X) is a threshold at which the operands of X can be made from nothing. It is found for
//     one task after the other. The results of X leave L at once if bytes(rest of L) + solo(X) is
//     within the threshold.
//   - Small storages count as 0 bytes and are always live (which only lowers need()).
#include "passes/plan/bounds/peak_bound.h"

#include "passes/plan/random.h"
#include "passes/plan/sizes.h"

#include <algorithm>
#include <cmath>
#include <queue>
#include <unordered_map>

namespace isthmus::plan {
namespace {

constexpr uint32_t kNone = ~0u;
constexpr int64_t kNever = INT64_MAX;
// Storages smaller than the known bound divided by this are left out.
constexpr int64_t kSmallShare = 1024;
// A step here examines one member of a set.
constexpr uint64_t kStepsPerWork = 2;
// With so many tasks, the first share of the work is done, and no upper bound on solo() is looked
// for where solo() itself is not found. (On nine networks of 5,700 to 96,000 tasks the bound
// stayed the same, and took a ninth of the time. Where it is found, it is found with far less
// work.)
constexpr size_t kMany = 5000;
constexpr uint64_t kPartIfMany = 4;

// The tasks and storages that count, and the moves that tasks which may run only once forbid.
class Moves {
public:
  Moves(const Needs &n, int64_t small) : needs(n), tasks_(n.tasks.size()) {
    for (const Needs::Storage &s : n.storages)
      bytes_.push_back(s.bytes > small ? s.bytes : 0);
    for (TaskId t : n.tasks.ids())
      for (StorageId r : n.tasks[t].reads)
        if (counts(r))
          tasks_[t].reads.push_back(r);
    findOneTime();
  }

  const Needs &needs;

  int64_t bytes(StorageId s) const { return bytes_[s]; }
  bool counts(StorageId s) const { return bytes_[s] > 0; }
  TaskId maker(StorageId s) const { return needs.storages[s].maker; }
  const Needs::Reads &reads(TaskId t) const { return tasks_[t].reads; }

  // One bit for each task that may run only once (the 64 with the largest results; others count as
  // repeatable): the bit of `t` itself, and the bits of the tasks that it depends on.
  uint64_t isOnce(TaskId t) const { return tasks_[t].isOnce; }
  uint64_t dependsOn(TaskId t) const { return tasks_[t].dependsOn; }
  // The bits of the tasks that need not run while this storage is live: it is their only result, or
  // the only result of the only reader of such a storage.
  uint64_t seals(StorageId s) const { return seals_.empty() ? 0 : seals_[s]; }

  // price(L, X). `has` tells whether a storage is in L; `live` is the bytes of L.
  template <typename Has> int64_t price(TaskId x, int64_t live, Has has) const {
    const Needs::Task &task = needs.tasks[x];
    int64_t price = live + task.workspace;
    for (StorageId r : reads(x))
      price += has(r) ? 0 : bytes(r);
    for (StorageId m : task.made()) {
      price += has(m) ? 0 : bytes(m);
      for (const Needs::Task::Donation &d : task.donations)
        if (d.made == m && !has(d.read)) {
          price -= bytes(m);
          break;
        }
    }
    return std::max(price, live); // one operand may not donate to two results
  }

private:
  struct TaskMoves {
    Needs::Reads reads; // those that count
    uint64_t isOnce = 0, dependsOn = 0;
  };

  void findOneTime() {
    std::vector<std::pair<int64_t, TaskId>> once; // bytes made, negative
    for (TaskId t : needs.tasks.ids()) {
      int64_t made = 0;
      for (StorageId m : needs.tasks[t].made())
        made += bytes(m);
      if (!needs.tasks[t].mayRepeat && made > 0)
        once.push_back({-made, t});
    }
    if (once.empty())
      return;
    std::sort(once.begin(), once.end());
    once.resize(std::min<size_t>(once.size(), 64));
    for (size_t k = 0; k < once.size(); ++k)
      tasks_[once[k].second].isOnce = uint64_t(1) << k;
    IdVector<StorageId, TaskId> reader(bytes_.size()); // the only reader, if not shared
    IdVector<StorageId, char> isShared(bytes_.size(), 0);
    for (TaskId t : needs.tasks.ids())
      for (StorageId r : needs.tasks[t].reads) { // small storages too
        const TaskMoves &from = tasks_[maker(r)];
        tasks_[t].dependsOn |= from.dependsOn | from.isOnce;
        isShared[r] |= bool(reader[r]);
        reader[r] = t;
      }
    seals_.resize(bytes_.size());
    for (size_t k = 0; k < once.size(); ++k)
      for (TaskId t = once[k].second; t;) {
        StorageId s = onlyMade(t);
        if (!s)
          break;
        seals_[s] |= uint64_t(1) << k;
        t = isShared[s] ? TaskId() : reader[s];
      }
  }

  StorageId onlyMade(TaskId t) const {
    StorageId only;
    for (StorageId s : needs.tasks[t].made())
      if (counts(s)) {
        if (only)
          return {};
        only = s;
      }
    return only;
  }

  IdVector<StorageId, int64_t> bytes_;
  IdVector<TaskId, TaskMoves> tasks_;
  IdVector<StorageId, uint64_t> seals_;
};

// Computes need(L) for one L after the other, with the values of solo() that are known by then.
//
// The sets form a tree. If an ancestor contains a new set, the ancestor dies with all its other
// descendants, and the new set takes its place. A move to an existing set, or to a superset of one,
// is parked at that set, and is tried again if that set dies. So each move of a live set is either
// still to be tried, or is covered by a live set that needs no more than the set to which the move
// leads.
class Search {
public:
  explicit Search(const Moves &m)
      : moves_(m), solo_(m.needs.tasks.size(), kNever), in_(m.needs.storages.size(), 0) {
    Random random{1};
    for (size_t s = 0; s < m.needs.storages.size(); ++s)
      code_.push_back(random.next());
    maxElements_ = (size_t(1) << 22) + 64 * m.needs.storages.size();
  }

  struct Result {
    int64_t atLeast; // need(L), or `floor` if larger; a lower bound if not found
    bool isFound;
  };

  Result need(const auto &storages, int64_t floor, uint64_t work) {
    reset();
    threshold_ = floor;
    uint64_t until = work_ + work;
    set_.assign(storages.begin(), storages.end());
    std::sort(set_.begin(), set_.end());
    set_.erase(
        std::remove_if(set_.begin(), set_.end(), [&](StorageId s) { return !moves_.counts(s); }),
        set_.end());
    add(kNone, kStrip, floor);
    Move m;
    while (!isFound_ && work_ < until && elements_.size() < maxElements_ && next(m))
      follow(m);
    return {threshold_, isFound_};
  }

  void setSolo(TaskId t, int64_t bytes) { solo_[t] = bytes; }

private:
  static constexpr TaskId kStrip = {}; // not a task: removes what solo() allows

  struct Set {
    uint32_t begin, size; // in elements_
    int64_t bytes;
    int64_t spare;      // the threshold from which on it can be stripped
    uint64_t sum, bits; // of its members' codes; sets of equal sums count as equal
    uint32_t parent;
    TaskId task; // the task of the move from `parent`
    uint32_t firstChild = kNone, nextSibling = kNone, firstParked = kNone;
    bool isDead = false;
  };

  struct Move {
    int64_t price, after; // `after`: live bytes after it, backwards
    uint32_t set;
    TaskId task;
    uint32_t serial;
  };
  struct DearerFirst {
    bool operator()(const Move &a, const Move &b) const {
      return a.price != b.price ? a.price > b.price : a.serial > b.serial;
    }
  };
  struct LargerFirst {
    bool operator()(const Move &a, const Move &b) const {
      return a.after != b.after ? a.after > b.after : a.serial < b.serial;
    }
  };
  struct Parked {
    uint32_t set;
    TaskId task;
    int64_t price;
    uint32_t next;
  };

  void reset() {
    sets_.clear();
    elements_.clear();
    parked_.clear();
    open_ = {};
    blocked_ = {};
    bySum_.clear();
    isFound_ = false;
    serial_ = 0;
  }

  // Takes the move within the threshold that leaves the fewest bytes live. If there is none, the
  // threshold rises.
  bool next(Move &m) {
    ++work_;
    if (!open_.empty()) {
      m = open_.top();
      open_.pop();
      return true;
    }
    while (!blocked_.empty() && sets_[blocked_.top().set].isDead)
      blocked_.pop();
    if (blocked_.empty())
      return false;
    m = blocked_.top();
    threshold_ = std::max(threshold_, m.price);
    if (sets_[m.set].spare <= threshold_) {
      m.task = kStrip;
      sets_[m.set].spare = kNever;
    } else {
      blocked_.pop();
    }
    return true;
  }

  void follow(const Move &m) {
    const Set &from = sets_[m.set];
    if (from.isDead)
      return;
    set_.assign(elements_.begin() + from.begin, elements_.begin() + from.begin + from.size);
    work_ += from.size + 4;
    if (m.task != kStrip) {
      set_.erase(std::remove_if(set_.begin(), set_.end(),
                                [&](StorageId s) { return moves_.maker(s) == m.task; }),
                 set_.end());
      size_t old = set_.size();
      for (StorageId r : moves_.reads(m.task))
        if (!std::binary_search(set_.begin(), set_.begin() + old, r))
          set_.push_back(r);
      std::sort(set_.begin(), set_.end());
    }
    add(m.set, m.task, m.price);
  }

  // Adds the set in set_, which `task` reaches from `parent`.
  void add(uint32_t parent, TaskId task, int64_t price) {
    Set s;
    s.spare = strip();
    s.size = static_cast<uint32_t>(set_.size());
    s.bytes = 0;
    s.sum = s.bits = 0;
    for (StorageId x : set_) {
      s.bytes += moves_.bytes(x);
      s.sum += code_[x];
      s.bits |= uint64_t(1) << (code_[x] >> 58);
    }
    if (set_.empty()) {
      isFound_ = true;
      return;
    }
    // `above`: the topmost ancestor that contains it. `within`: a live set that it contains.
    uint32_t above = kNone, within = kNone;
    if (auto it = bySum_.find(s.sum); it != bySum_.end() && !sets_[it->second].isDead)
      within = it->second;
    for (uint32_t a = parent; a != kNone; a = sets_[a].parent) {
      ++work_;
      if (sets_[a].sum == s.sum)
        continue;
      if (isSubset(s, set_.data(), sets_[a], &elements_[sets_[a].begin]))
        above = a;
      else if (within == kNone && isSubset(sets_[a], &elements_[sets_[a].begin], s, set_.data()))
        within = a;
    }
    if (within != kNone) {
      // (A live set contains none of its descendants.)
      for (uint32_t a = within; a != kNone && above != kNone; a = sets_[a].parent)
        if (a == above)
          above = kNone;
      if (above == kNone) {
        park(within, parent, task, price);
      } else {
        if (sets_[above].parent != kNone)
          park(within, sets_[above].parent, sets_[above].task, threshold_);
        kill(above);
      }
      return;
    }
    if (above != kNone) {
      parent = sets_[above].parent;
      task = sets_[above].task;
      kill(above);
    }
    uint32_t me = static_cast<uint32_t>(sets_.size());
    s.parent = parent;
    s.task = task;
    s.begin = static_cast<uint32_t>(elements_.size());
    elements_.insert(elements_.end(), set_.begin(), set_.end());
    if (parent != kNone) {
      s.nextSibling = sets_[parent].firstChild;
      sets_[parent].firstChild = me;
    }
    sets_.push_back(s);
    bySum_[s.sum] = me;
    expand(me);
  }

  bool isSubset(const Set &a, const StorageId *as, const Set &b, const StorageId *bs) {
    if (a.size > b.size || a.bytes > b.bytes || (a.bits & ~b.bits))
      return false;
    work_ += a.size + b.size;
    return std::includes(bs, bs + b.size, as, as + a.size);
  }

  void park(uint32_t at, uint32_t set, TaskId task, int64_t price) {
    parked_.push_back({set, task, price, sets_[at].firstParked});
    sets_[at].firstParked = static_cast<uint32_t>(parked_.size() - 1);
  }

  void kill(uint32_t top) {
    stack_ = {top};
    while (!stack_.empty()) {
      Set &s = sets_[stack_.back()];
      stack_.pop_back();
      ++work_;
      if (s.isDead)
        continue;
      s.isDead = true;
      for (uint32_t i = s.firstParked; i != kNone; i = parked_[i].next)
        push({parked_[i].price, 0, parked_[i].set, parked_[i].task, 0});
      for (uint32_t c = s.firstChild; c != kNone; c = sets_[c].nextSibling)
        stack_.push_back(c);
    }
  }

  void push(Move m) {
    m.serial = serial_++;
    if (m.price <= threshold_)
      open_.push(m);
    else
      blocked_.push(m);
  }

  void expand(uint32_t me) {
    int64_t live = sets_[me].bytes;
    ++stamp_;
    for (StorageId x : set_)
      in_[x] = stamp_;
    auto has = [&](StorageId s) { return in_[s] == stamp_; };
    TaskId last;
    found_.clear();
    for (size_t k = set_.size(); k-- > 0;) {
      TaskId x = moves_.maker(set_[k]);
      if (x == last) // results of one task are adjacent
        continue;
      last = x;
      const Needs::Task &task = moves_.needs.tasks[x];
      work_ += moves_.reads(x).size() + task.numMade + task.donations.size();
      if (moves_.isOnce(x) & dependsOnBut(x))
        continue;
      int64_t after = live;
      bool isSubset = true;
      for (StorageId r : moves_.reads(x))
        if (!has(r)) {
          after += moves_.bytes(r);
          isSubset = false;
        }
      for (StorageId m : task.made())
        after -= has(m) ? moves_.bytes(m) : 0;
      Move move = {moves_.price(x, live, has), after, me, x, 0};
      if (isSubset && move.price <= threshold_) {
        push(move);
        return; // no other is better
      }
      found_.push_back(move);
    }
    for (const Move &m : found_)
      push(m);
  }

  // The one-time tasks on which members of set_ depend, results of `t` left out.
  uint64_t dependsOnBut(TaskId t) {
    if (!moves_.isOnce(t))
      return 0;
    uint64_t on = 0;
    for (StorageId s : set_)
      if (moves_.maker(s) != t)
        on |= moves_.dependsOn(moves_.maker(s));
    work_ += set_.size();
    return on;
  }

  // Removes from set_ the storages that can be made with the rest as background. Returns the
  // threshold from which on another one can be removed.
  int64_t strip() {
    int64_t live = 0;
    order_.clear();
    for (StorageId s : set_) {
      live += moves_.bytes(s);
      const int64_t solo = solo_[moves_.maker(s)];
      order_.push_back({solo == kNever ? kNever : solo - moves_.bytes(s), s});
    }
    std::sort(order_.begin(), order_.end());
    work_ += 2 * set_.size();
    while (true) {
      size_t k = 0;
      Dependence d = dependence();
      while (k < order_.size() && d.forbids(moves_, order_[k].second))
        ++k;
      if (k == order_.size())
        return kNever;
      if (int64_t needs = saturatingSum(live, order_[k].first); needs > threshold_)
        return needs;
      StorageId s = order_[k].second;
      live -= moves_.bytes(s);
      order_.erase(order_.begin() + k);
      set_.erase(std::lower_bound(set_.begin(), set_.end(), s));
      work_ += set_.size() / 4 + 1;
    }
  }

  // The one-time tasks on which at least one member of set_ depends, those on which at least two
  // depend, and those that are sealed.
  struct Dependence {
    uint64_t once = 0, twice = 0, sealed = 0;

    // Whether making `s` while the others are live would rerun a task on which they depend.
    bool forbids(const Moves &m, StorageId s) const {
      TaskId t = m.maker(s);
      uint64_t on = m.dependsOn(t), seals = m.seals(s);
      uint64_t others = twice | (once & ~on);
      // (A member that is a seal itself may be made before the others.)
      return (on | m.isOnce(t)) & others & ~(sealed & ~seals);
    }
  };

  Dependence dependence() {
    Dependence d;
    for (StorageId s : set_) {
      uint64_t on = moves_.dependsOn(moves_.maker(s));
      d.twice |= d.once & on;
      d.once |= on;
      d.sealed |= moves_.seals(s);
    }
    work_ += set_.size() / 4;
    return d;
  }

  const Moves &moves_;
  IdVector<TaskId, int64_t> solo_;
  IdVector<StorageId, uint64_t> code_;
  IdVector<StorageId, uint64_t> in_; // by storage: the last set that contained it
  uint64_t stamp_ = 0;               // never reset, so that no search has to clear `in_`
  size_t maxElements_;

  std::vector<Set> sets_;
  std::vector<StorageId> elements_;
  std::vector<Parked> parked_;
  std::priority_queue<Move, std::vector<Move>, LargerFirst> open_;
  std::priority_queue<Move, std::vector<Move>, DearerFirst> blocked_;
  std::unordered_map<uint64_t, uint32_t> bySum_;
  int64_t threshold_ = 0;
  bool isFound_ = false;
  uint32_t serial_ = 0;
  uint64_t work_ = 0;

  std::vector<StorageId> set_;
  std::vector<uint32_t> stack_;
  std::vector<Move> found_;
  std::vector<std::pair<int64_t, StorageId>> order_;
};

} // namespace

int64_t leastPeak(const Needs &n, int64_t known, uint64_t work) {
  const bool areMany = n.tasks.size() >= kMany;
  work *= kStepsPerWork;
  work /= areMany ? kPartIfMany : 1;
  std::vector<StorageId> outputs;
  for (StorageId s : n.storages.ids())
    if (n.storages[s].lives)
      outputs.push_back(s);
  Moves moves(n, known / kSmallShare);
  Search search(moves);
  IdVector<TaskId, int64_t> least(n.tasks.size()); // lower bounds on solo()
  uint64_t each = work / 8 / std::max<size_t>(n.tasks.size(), 1);
  for (TaskId x : n.tasks.ids()) {
    int64_t floor = moves.price(x, 0, [](StorageId) { return false; });
    for (StorageId r : moves.reads(x))
      floor = std::max(floor, least[moves.maker(r)]);
    Search::Result found = search.need(moves.reads(x), floor, each);
    least[x] = found.atLeast;
    known = std::max(known, found.atLeast);
    // If not found: look for a threshold at which it is.
    double low = double(found.atLeast), high = low * 4;
    for (int i = 0; i < 4 && !found.isFound && !areMany; ++i) {
      double middle = std::sqrt(low * high);
      Search::Result r =
          search.need(moves.reads(x), static_cast<int64_t>(std::min(middle, 0x1p62)), each);
      (r.isFound ? high : low) = middle;
      if (r.isFound)
        search.setSolo(x, r.atLeast);
    }
    if (found.isFound)
      search.setSolo(x, found.atLeast);
  }
  return search.need(outputs, known, work / 2).atLeast;
}

} // namespace isthmus::plan
