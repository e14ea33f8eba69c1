#include "passes/stages/order.h"

#include "ir/check.h"
#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <limits>
#include <set>

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

enum class Kind : uint8_t { Forward, Backward, Weights };

// The nodes of one kind of one stage and micro-batch.
struct Task {
  uint32_t stage = 0, batch = 0;
  Kind kind = Kind::Forward;
  double seconds = 0;
  std::vector<NodeId> nodes;
  std::vector<std::pair<uint32_t, double>> needs; // a task, and the time of its message
  bool isDone = false;
  double begin = 0, end = 0;
};

class Ordering {
public:
  Ordering(const Graph &g, const std::vector<uint32_t> &stageOf, const Target &t,
           const OrderOptions &o)
      : g_(g), stageOf_(stageOf), t_(t), o_(o), devices_(uint32_t(o.devices.size())),
        taskOf_(g.numNodes(), kNone), r_(g), isEmitted_(g.numNodes(), false) {}

  OrderedGraph run() {
    for (uint32_t s : stageOf_)
      numStages_ = std::max(numStages_, s + 1);
    findWeightNodes();
    makeTasks();
    findNeeds();
    simulate();
    return emitAll();
  }

private:
  static constexpr uint32_t kNone = ~0u;
  uint32_t deviceOf(uint32_t stage) const { return stage % devices_; }
  const std::string &nameOf(uint32_t stage) const { return o_.devices[deviceOf(stage)]; }

  // --- Tasks

  // The micro-batch of a node; none for what all of them share.
  std::optional<uint32_t> batchOf(const Node &n) const {
    if (n.is(StandIn::Chunk))
      return n.from.chunk;
    return std::nullopt;
  }

  // Backward nodes that no other stage waits for.
  void findWeightNodes() {
    isForWeights_.assign(g_.numNodes(), false);
    if (o_.order != StageOrder::ZeroBubble)
      return;
    std::vector<bool> isAwaited(g_.numValues(), false);
    for (uint32_t i = uint32_t(g_.numNodes()); i-- > 0;) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase != Phase::Backward)
        continue;
      bool awaited = false;
      for (uint32_t r = 0; r < n.numResults; ++r)
        awaited |= isAwaited[n.result(r).index];
      isForWeights_[i] = !awaited;
      for (ValueId v : n.operands)
        if (const NodeId def = g_.value(v).def; def && !Graph::isReplaced(def))
          // A sum that goes on from that of another micro-batch is no message.
          if (awaited || stageOf_[def.index] != stageOf_[i])
            isAwaited[v.index] = true;
    }
  }

  Kind kindOf(NodeId id) const {
    const Node &n = g_.node(id);
    return n.phase == Phase::Forward ? Kind::Forward
           : isForWeights_[id.index] ? Kind::Weights
                                     : Kind::Backward;
  }

  void makeTasks() {
    bool hasBatches = false;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      hasBatches |= batchOf(g_.node(NodeId(i))).has_value();
    std::map<std::tuple<uint32_t, uint32_t, Kind>, uint32_t> numbers;
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      const Node &n = g_.node(NodeId(i));
      if (n.phase == Phase::Update)
        continue;
      std::optional<uint32_t> batch = batchOf(n);
      if (!batch && hasBatches)
        continue;
      const auto key = std::make_tuple(stageOf_[i], batch.value_or(0), kindOf(NodeId(i)));
      auto [it, isNew] = numbers.try_emplace(key, uint32_t(tasks_.size()));
      if (isNew) {
        tasks_.emplace_back();
        std::tie(tasks_.back().stage, tasks_.back().batch, tasks_.back().kind) = key;
      }
      Task &task = tasks_[it->second];
      task.nodes.push_back(NodeId(i));
      task.seconds += t_.seconds(g_.call(NodeId(i))) / o_.machine.speedOf(nameOf(task.stage));
      taskOf_[i] = it->second;
    }
  }

  // What the nodes of a task read, also by way of nodes of no task.
  void findNeeds() {
    std::vector<std::vector<uint32_t>> through(g_.numNodes()); // of nodes of no task
    for (uint32_t i = 0; i < g_.numNodes(); ++i) {
      std::set<uint32_t> all;
      for (ValueId v : g_.node(NodeId(i)).operands) {
        const NodeId def = g_.value(v).def;
        if (!def || Graph::isReplaced(def))
          continue;
        if (taskOf_[def.index] == kNone) {
          all.insert(through[def.index].begin(), through[def.index].end());
          continue;
        }
        all.insert(taskOf_[def.index]);
        if (const uint32_t own = taskOf_[i]; own != kNone && own != taskOf_[def.index])
          addNeed(own, taskOf_[def.index],
                  deviceOf(stageOf_[i]) == deviceOf(stageOf_[def.index])
                      ? 0
                      : o_.machine.linkOf(nameOf(stageOf_[def.index]), nameOf(stageOf_[i]))
                            .secondsOf(g_.type(v).bytes()));
      }
      if (taskOf_[i] == kNone)
        through[i].assign(all.begin(), all.end());
      else
        for (uint32_t other : all)
          if (other != taskOf_[i])
            addNeed(taskOf_[i], other, 0);
    }
  }

  void addNeed(uint32_t task, uint32_t other, double seconds) {
    for (auto &[known, time] : tasks_[task].needs)
      if (known == other) {
        time = std::max(time, seconds);
        return;
      }
    tasks_[task].needs.push_back({other, seconds});
  }

  // --- The order of each device

  // The tasks of a kind of one device, as `before` sorts them.
  template <typename Key> std::vector<uint32_t> sorted(uint32_t device, Kind kind, Key key) const {
    std::vector<uint32_t> out;
    for (uint32_t i = 0; i < tasks_.size(); ++i)
      if (tasks_[i].kind == kind && deviceOf(tasks_[i].stage) == device)
        out.push_back(i);
    llvm::stable_sort(out, [&](uint32_t a, uint32_t b) { return key(tasks_[a]) < key(tasks_[b]); });
    return out;
  }

  // Forward and backward tasks of a device in the order of the schedule, which zero-bubble's weight
  // tasks are not part of.
  std::vector<uint32_t> sequenceOf(uint32_t device) const {
    const uint32_t d = devices_, turns = (numStages_ + d - 1) / d;
    const bool isGPipe = o_.order == StageOrder::GPipe;
    auto group = [&](const Task &t) { return isGPipe || turns == 1 ? 0 : t.batch / d; };
    std::vector<uint32_t> forward = sorted(device, Kind::Forward, [&](const Task &t) {
      return std::make_tuple(group(t), t.stage / d, t.batch);
    });
    std::vector<uint32_t> backward = sorted(device, Kind::Backward, [&](const Task &t) {
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

  // --- The simulation

  double readyAt(const Task &t) const {
    double at = 0;
    for (const auto &[other, message] : t.needs) {
      if (!tasks_[other].isDone)
        return std::numeric_limits<double>::infinity();
      at = std::max(at, tasks_[other].end + message);
    }
    return at;
  }

  void simulate() {
    std::vector<std::vector<uint32_t>> left(devices_), weights(devices_);
    std::vector<double> clock(devices_, 0);
    done_.assign(devices_, {});
    for (uint32_t d = 0; d < devices_; ++d) {
      left[d] = sequenceOf(d);
      std::reverse(left[d].begin(), left[d].end());
      weights[d] = sorted(d, Kind::Weights, [](const Task &t) { return t.batch; });
      std::reverse(weights[d].begin(), weights[d].end());
    }
    for (size_t n = 0; n < tasks_.size(); ++n) {
      // The next task is that which may begin first.
      uint32_t device = kNone;
      bool isWeights = false;
      double best = std::numeric_limits<double>::infinity();
      for (uint32_t d = 0; d < devices_; ++d) {
        const double next =
            left[d].empty() ? best : std::max(clock[d], readyAt(tasks_[left[d].back()]));
        const double weight =
            weights[d].empty() ? best : std::max(clock[d], readyAt(tasks_[weights[d].back()]));
        if (next < best || (device == kNone && next < std::numeric_limits<double>::infinity()))
          best = next, device = d, isWeights = false;
        // Weights fill the time until the next task, and memory bounds how long they wait.
        const bool fills =
            !weights[d].empty() &&
            (weight + tasks_[weights[d].back()].seconds <= next + 1e-12 || owesWeights(d, left[d]));
        if (fills && weight <= best)
          best = weight, device = d, isWeights = true;
      }
      if (device == kNone) // tasks wait for one another; nodes do not
        device = firstLeft(left, weights, isWeights);
      run(device, isWeights ? weights[device] : left[device], clock);
    }
  }

  // Whether the device holds as many micro-batches for weights as 1F1B holds in all.
  bool owesWeights(uint32_t device, const std::vector<uint32_t> &left) const {
    if (left.empty() || tasks_[left.back()].kind != Kind::Forward)
      return false;
    const size_t begun = done_[device].forward, finished = done_[device].weights;
    return begun - std::min(begun, finished) >= numStages_ - device;
  }

  uint32_t firstLeft(const std::vector<std::vector<uint32_t>> &left,
                     const std::vector<std::vector<uint32_t>> &weights, bool &isWeights) const {
    for (isWeights = false;; isWeights = true)
      for (uint32_t d = 0; d < devices_; ++d)
        if (!(isWeights ? weights[d] : left[d]).empty())
          return d;
  }

  void run(uint32_t device, std::vector<uint32_t> &from, std::vector<double> &clock) {
    Task &t = tasks_[from.back()];
    const double ready = readyAt(t);
    t.begin = ready < std::numeric_limits<double>::infinity() ? std::max(clock[device], ready)
                                                              : clock[device];
    t.end = clock[device] = t.begin + t.seconds;
    t.isDone = true;
    done_[device].forward += t.kind == Kind::Forward;
    done_[device].weights += t.kind == Kind::Weights;
    begun_.push_back(from.back());
    from.pop_back();
  }

  // --- The graph

  OrderedGraph emitAll() {
    r_.copyInputs();
    llvm::stable_sort(begun_, [&](uint32_t a, uint32_t b) {
      return std::make_pair(tasks_[a].begin, tasks_[a].stage) <
             std::make_pair(tasks_[b].begin, tasks_[b].stage);
    });
    for (uint32_t t : begun_)
      for (NodeId id : tasks_[t].nodes)
        emit(id);
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      emit(NodeId(i));
    out_.graph = r_.finish();
    return std::move(out_);
  }

  // After the nodes that it needs.
  void emit(NodeId first) {
    std::vector<NodeId> stack{first};
    while (!stack.empty()) {
      const NodeId id = stack.back();
      if (isEmitted_[id.index]) {
        stack.pop_back();
        continue;
      }
      const size_t before = stack.size();
      for (ValueId v : g_.node(id).operands)
        if (const NodeId def = g_.value(v).def;
            def && !Graph::isReplaced(def) && !isEmitted_[def.index])
          stack.push_back(def);
      if (stack.size() > before)
        continue;
      isEmitted_[id.index] = true;
      Node &n = r_.to().editNode(r_.copyNode(id));
      if (!g_.node(id).isStandIn() && !n.from.sourceIndex)
        n.from.sourceIndex = id.index;
      out_.stageOf.push_back(stageOf_[id.index]);
      stack.pop_back();
    }
  }

  const Graph &g_;
  const std::vector<uint32_t> &stageOf_;
  const Target &t_;
  const OrderOptions &o_;
  const uint32_t devices_;
  uint32_t numStages_ = 0;
  std::vector<bool> isForWeights_; // by node
  std::vector<Task> tasks_;
  std::vector<uint32_t> taskOf_; // by node; kNone: of no micro-batch
  std::vector<uint32_t> begun_;
  struct Done {
    size_t forward = 0, weights = 0;
  };
  std::vector<Done> done_; // by device: tasks
  Rebuilder r_;
  std::vector<bool> isEmitted_;
  OrderedGraph out_;
};

} // namespace

OrderedGraph inPipelineOrder(const Graph &g, const std::vector<uint32_t> &stageOf, const Target &t,
                             const OrderOptions &o) {
  return Ordering(g, stageOf, t, o).run();
}

} // namespace isthmus
