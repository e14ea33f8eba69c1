#include "passes/stages/order.h"

#include "passes/rebuild.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLExtras.h"
#include <set>

namespace isthmus {

namespace {

class Ordering {
public:
  Ordering(const Graph &g, const std::vector<uint32_t> &stageOf, const Target &t,
           const OrderOptions &o)
      : g_(g), stageOf_(stageOf), t_(t), o_(o), devices_(uint32_t(o.devices.size())),
        taskOf_(g.numNodes(), kNone), r_(g), isEmitted_(g.numNodes(), false) {}

  OrderedGraph run() {
    findWeightNodes();
    makeTasks();
    findNeeds();
    return emitAll();
  }

private:
  static constexpr uint32_t kNone = OrderedGraph::kNoTask;
  uint32_t deviceOf(uint32_t stage) const { return stage % devices_; }
  const std::string &nameOf(uint32_t stage) const { return o_.devices[deviceOf(stage)]; }

  // --- PipelineTasks

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

  TaskKind kindOf(NodeId id) const {
    const Node &n = g_.node(id);
    return n.phase == Phase::Forward ? TaskKind::Forward
           : isForWeights_[id.index] ? TaskKind::Weights
                                     : TaskKind::Backward;
  }

  void makeTasks() {
    bool hasBatches = false;
    for (uint32_t i = 0; i < g_.numNodes(); ++i)
      hasBatches |= batchOf(g_.node(NodeId(i))).has_value();
    std::map<std::tuple<uint32_t, uint32_t, TaskKind>, uint32_t> numbers;
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
        nodes_.emplace_back();
      }
      nodes_[it->second].push_back(NodeId(i));
      PipelineTask &task = tasks_[it->second];
      task.seconds += t_.seconds(g_.call(NodeId(i))) / o_.machine.speedOf(nameOf(task.stage));
      taskOf_[i] = it->second;
    }
  }

  // What the nodes of a task read, also by way of nodes of no task.
  void findNeeds() {
    needs_.resize(tasks_.size());
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
        through[i] = lastOfEach(all);
      else
        for (uint32_t other : all)
          if (other != taskOf_[i])
            addNeed(taskOf_[i], other, 0);
    }
  }

  // Of the tasks of one stage and kind the one of the last micro-batch: a device runs them in
  // order.
  std::vector<uint32_t> lastOfEach(const std::set<uint32_t> &tasks) const {
    std::map<std::pair<uint32_t, TaskKind>, uint32_t> last;
    for (uint32_t t : tasks) {
      auto [it, isNew] = last.try_emplace({tasks_[t].stage, tasks_[t].kind}, t);
      if (!isNew && tasks_[it->second].batch < tasks_[t].batch)
        it->second = t;
    }
    std::vector<uint32_t> out;
    for (const auto &entry : last)
      out.push_back(entry.second);
    return out;
  }

  void addNeed(uint32_t task, uint32_t other, double seconds) {
    for (PipelineTasks::Need &need : needs_[task])
      if (need.task == other) {
        need.seconds = std::max(need.seconds, seconds);
        return;
      }
    needs_[task].push_back({other, seconds});
  }

  // --- The graph

  OrderedGraph emitAll() {
    r_.copyInputs();
    for (size_t t = 0; t < tasks_.size(); ++t)
      out_.tasks.add(tasks_[t], needs_[t]);
    for (uint32_t t : tasksInOrder(out_.tasks, o_.order, devices_))
      for (NodeId id : nodes_[t])
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
      out_.taskOf.push_back(taskOf_[id.index]);
      stack.pop_back();
    }
  }

  const Graph &g_;
  const std::vector<uint32_t> &stageOf_;
  const Target &t_;
  const OrderOptions &o_;
  const uint32_t devices_;
  std::vector<bool> isForWeights_; // by node
  std::vector<PipelineTask> tasks_;
  std::vector<std::vector<NodeId>> nodes_;              // by task
  std::vector<std::vector<PipelineTasks::Need>> needs_; // by task
  std::vector<uint32_t> taskOf_;                        // by node; kNone: of no micro-batch
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
