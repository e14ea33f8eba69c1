#include "passes/stages/task_order.h"

#include "ir/check.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <queue>

namespace isthmus {

llvm::StringRef stageOrderName(StageOrder o) {
  switch (o) {
  case StageOrder::GPipe:
    return "gpipe";
  case StageOrder::OneFOneB:
    return "1f1b";
  case StageOrder::Interleaved:
    return "interleaved";
  case StageOrder::ZeroBubble:
    return "zero-bubble";
  }
  ISTHMUS_UNREACHABLE("an unknown order");
}

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

// Simulates the devices: the next task is the one that can begin first.
class TaskSimulation {
public:
  TaskSimulation(const PipelineTasks &tasks, StageOrder order, uint32_t devices)
      : tasks_(tasks), order_(order), devices_(devices) {}

  std::vector<uint32_t> run() {
    for (const PipelineTask &t : tasks_.all)
      numStages_ = std::max(numStages_, t.stage + 1);
    setUpDevices();
    setUpNeeds();
    for (uint32_t d = 0; d < devices_.size(); ++d)
      propose(d);
    for (size_t n = 0; n < tasks_.all.size(); ++n)
      runNext();
    llvm::stable_sort(begun_, [&](uint32_t a, uint32_t b) { return begin_[a] < begin_[b]; });
    return std::move(begun_);
  }

private:
  // The tasks of a device that have not begun, the next one last.
  struct Device {
    std::vector<uint32_t> left, weights;
    double clock = 0;
    size_t forwardDone = 0, weightsDone = 0;
    uint32_t proposals = 0;
  };
  struct Proposal {
    double begin;
    uint32_t device;
    bool isWeights;
    uint32_t number; // an older one of the device is void
    bool operator>(const Proposal &b) const {
      return begin != b.begin ? begin > b.begin : device > b.device;
    }
  };

  // --- The order of each device

  uint32_t deviceOf(uint32_t stage) const { return stage % uint32_t(devices_.size()); }

  void setUpDevices() {
    std::vector<std::vector<uint32_t>> byKind[3];
    for (auto &kind : byKind)
      kind.resize(devices_.size());
    for (uint32_t i = 0; i < tasks_.all.size(); ++i)
      byKind[size_t(tasks_.all[i].kind)][deviceOf(tasks_.all[i].stage)].push_back(i);
    for (uint32_t d = 0; d < devices_.size(); ++d) {
      devices_[d].left = sequenceOf(d, std::move(byKind[0][d]), std::move(byKind[1][d]));
      devices_[d].weights = std::move(byKind[2][d]);
      sort(devices_[d].weights, [](const PipelineTask &t) { return t.batch; });
      std::reverse(devices_[d].left.begin(), devices_[d].left.end());
      std::reverse(devices_[d].weights.begin(), devices_[d].weights.end());
    }
  }

  template <typename Key> void sort(std::vector<uint32_t> &tasks, Key key) const {
    llvm::stable_sort(
        tasks, [&](uint32_t a, uint32_t b) { return key(tasks_.all[a]) < key(tasks_.all[b]); });
  }

  // Forward and backward tasks of a device in the order of the schedule.
  std::vector<uint32_t> sequenceOf(uint32_t device, std::vector<uint32_t> forward,
                                   std::vector<uint32_t> backward) const {
    const uint32_t d = uint32_t(devices_.size()), turns = (numStages_ + d - 1) / d;
    const bool isGPipe = order_ == StageOrder::GPipe;
    auto group = [&](const PipelineTask &t) { return isGPipe || turns == 1 ? 0 : t.batch / d; };
    sort(forward,
         [&](const PipelineTask &t) { return std::make_tuple(group(t), t.stage / d, t.batch); });
    sort(backward, [&](const PipelineTask &t) {
      return std::make_tuple(group(t), turns - 1 - t.stage / d, t.batch);
    });
    // As many forward tasks run ahead as it takes until the first gradient is back.
    size_t ahead = forward.size();
    if (!isGPipe && turns == 1)
      ahead = std::min<size_t>(ahead, numStages_ - device);
    else if (!isGPipe)
      ahead = std::min<size_t>(ahead, (d - device - 1) * 2 + (turns - 1) * d + 1);
    std::vector<uint32_t> out(forward.begin(), forward.begin() + ahead);
    for (size_t b = 0; b < backward.size() || ahead < forward.size(); ++b) {
      if (b < backward.size())
        out.push_back(backward[b]);
      if (ahead < forward.size())
        out.push_back(forward[ahead++]);
    }
    return out;
  }

  // --- What tasks wait for

  void setUpNeeds() {
    const size_t n = tasks_.all.size();
    begin_.assign(n, 0);
    ready_.assign(n, 0);
    missing_.assign(n, 0);
    firstUser_.assign(n + 1, 0);
    for (const PipelineTasks::Need &need : tasks_.needs)
      ++firstUser_[need.task + 1];
    for (size_t i = 0; i < n; ++i)
      firstUser_[i + 1] += firstUser_[i];
    users_.resize(tasks_.needs.size());
    std::vector<uint32_t> at(firstUser_.begin(), firstUser_.end() - 1);
    for (uint32_t i = 0; i < n; ++i)
      for (const PipelineTasks::Need &need : tasks_.needsOf(i)) {
        ++missing_[i];
        users_[at[need.task]++] = {i, need.seconds};
      }
  }

  double readyAt(uint32_t task) const { return missing_[task] ? kNever : ready_[task]; }

  // --- The simulation

  // The task that the device would run next, if it can run one.
  void propose(uint32_t number) {
    Device &d = devices_[number];
    auto beginOf = [&](const std::vector<uint32_t> &from) {
      return from.empty() ? kNever : std::max(d.clock, readyAt(from.back()));
    };
    const double next = beginOf(d.left), weights = beginOf(d.weights);
    ++d.proposals;
    // Weights fill the time until the next task, and memory bounds how long they wait.
    const bool fills =
        weights <= next &&
        (next == kNever || weights + tasks_.all[d.weights.back()].seconds <= next + 1e-12 ||
         owesWeights(number));
    if (const double begin = fills ? weights : next; begin < kNever)
      proposals_.push({begin, number, fills, d.proposals});
  }

  // Whether the device holds as many micro-batches for weights as 1F1B holds in all.
  bool owesWeights(uint32_t number) const {
    const Device &d = devices_[number];
    if (d.left.empty() || tasks_.all[d.left.back()].kind != TaskKind::Forward)
      return false;
    return d.forwardDone - std::min(d.forwardDone, d.weightsDone) >= numStages_ - number;
  }

  void runNext() {
    while (!proposals_.empty() &&
           proposals_.top().number != devices_[proposals_.top().device].proposals)
      proposals_.pop();
    if (proposals_.empty()) // tasks wait for one another; nodes do not
      return runFirstLeft();
    const Proposal p = proposals_.top();
    proposals_.pop();
    run(p.device, p.isWeights);
  }

  void runFirstLeft() {
    for (bool isWeights : {false, true})
      for (uint32_t d = 0; d < devices_.size(); ++d)
        if (!(isWeights ? devices_[d].weights : devices_[d].left).empty())
          return run(d, isWeights);
  }

  void run(uint32_t number, bool isWeights) {
    Device &d = devices_[number];
    std::vector<uint32_t> &from = isWeights ? d.weights : d.left;
    const uint32_t task = from.back();
    from.pop_back();
    const double ready = readyAt(task);
    begin_[task] = ready < kNever ? std::max(d.clock, ready) : d.clock;
    d.clock = begin_[task] + tasks_.all[task].seconds;
    d.forwardDone += tasks_.all[task].kind == TaskKind::Forward;
    d.weightsDone += tasks_.all[task].kind == TaskKind::Weights;
    begun_.push_back(task);
    for (uint32_t u = firstUser_[task]; u < firstUser_[task + 1]; ++u) {
      const auto [user, message] = users_[u];
      ready_[user] = std::max(ready_[user], d.clock + message);
      --missing_[user];
      const uint32_t other = deviceOf(tasks_.all[user].stage);
      if (missing_[user] == 0 && other != number && isNext(devices_[other], user))
        propose(other);
    }
    propose(number);
  }

  static bool isNext(const Device &d, uint32_t task) {
    return (!d.left.empty() && d.left.back() == task) ||
           (!d.weights.empty() && d.weights.back() == task);
  }

  const PipelineTasks &tasks_;
  const StageOrder order_;
  std::vector<Device> devices_;
  uint32_t numStages_ = 0;
  std::vector<double> begin_, ready_;            // by task; ready as far as its needs are done
  std::vector<uint32_t> missing_;                // by task: needs that are not done
  std::vector<uint32_t> firstUser_;              // by task, as PipelineTasks::firstNeed
  std::vector<std::pair<uint32_t, double>> users_; // the tasks that need it, and their messages
  std::priority_queue<Proposal, std::vector<Proposal>, std::greater<>> proposals_;
  std::vector<uint32_t> begun_;
};

} // namespace

std::vector<uint32_t> tasksInOrder(const PipelineTasks &tasks, StageOrder order, uint32_t devices) {
  return TaskSimulation(tasks, order, devices).run();
}

} // namespace isthmus
