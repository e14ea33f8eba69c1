#include "passes/plan/chains/nested_schedule.h"

#include "passes/plan/chains/segment_problem.h"
#include "passes/plan/search/emit_schedule.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace isthmus::plan {
namespace {

// A text that is the same for equal problems.
std::string textOf(const Problem &p) {
  std::string text;
  auto put = [&](auto... values) {
    (text.append(reinterpret_cast<const char *>(&values), sizeof values), ...);
  };
  for (const Op &op : p.ops) {
    put(op.phase, op.cost, op.workspace, op.isPinned, op.recomputable, op.isAlternative, op.of,
        op.ofOutput, op.inputs.size(), op.outputBytes.size(), op.donations.size(),
        op.overwrites.size());
    for (const Read &r : op.inputs)
      put(r.op, r.output);
    for (int64_t bytes : op.outputBytes)
      put(bytes);
    for (const Op::Donation &d : op.donations)
      put(d.output, d.input);
    for (uint32_t input : op.overwrites)
      put(input);
  }
  for (const Read &r : p.outputs)
    put(r.op, r.output);
  return text;
}

class Composition {
public:
  Composition(const StorageGraph &g, Segments segments, int64_t budget, const SegmentPlanner &plan)
      : g_(g), segments_(std::move(segments)), budget_(budget), plan_(plan) {}

  std::vector<TaskId> run() {
    std::vector<TaskId> tasks;
    std::vector<std::vector<TaskId>> backward;
    std::vector<StorageId> kept;
    for (uint32_t k = 1; k <= segments_.num; ++k) {
      const int64_t budget = budgetOf(k);
      const SegmentProblem part = problemOf(k, g_, segments_, kept, budget);
      const Schedule &steps = planOf(part, budget);
      if (steps.empty())
        return {};
      const auto rest = std::find(steps.begin(), steps.end(), part.rest);
      append(tasks, part, steps.begin(), rest);
      append(backward.emplace_back(), part, rest, steps.end());
      kept.clear();
      for (StorageId s : keptOf(part, rest, steps.end()))
        if (isRead(segments_.in[k], s))
          kept.push_back(s);
        else // held in later segments, which do not read it
          held_ += g_.storages[s].bytes;
    }
    for (; !backward.empty(); backward.pop_back())
      tasks.insert(tasks.end(), backward.back().begin(), backward.back().end());
    return tasks;
  }

private:
  using Step = Schedule::const_iterator;

  static bool isRead(const std::vector<StorageId> &in, StorageId s) {
    return std::find(in.begin(), in.end(), s) != in.end();
  }

  // The budget less the bytes held beside the segment, in coarse steps, so that equal segments have
  // the same budget.
  int64_t budgetOf(uint32_t segment) const {
    const int64_t step = std::max<int64_t>(1, budget_ / 512);
    return budget_ - (held_ + segments_.passing[segment] + step - 1) / step * step;
  }

  const Schedule &planOf(const SegmentProblem &part, int64_t budget) {
    auto [known, isNew] = plans_.try_emplace({budget, textOf(part.problem)});
    if (isNew && (part.rest == Op::kNone || part.problem.ops[part.rest].workspace >= 0))
      known->second = plan_(part.problem, budget);
    return known->second;
  }

  static void append(std::vector<TaskId> &tasks, const SegmentProblem &part, Step from, Step to) {
    for (; from != to; ++from)
      if (TaskId t = part.taskOf[*from])
        tasks.push_back(t);
  }

  // The storages made before `from`, the rest, that the steps after it or the outputs read.
  std::vector<StorageId> keptOf(const SegmentProblem &part, Step from, Step to) const {
    std::vector<StorageId> kept;
    if (from == to)
      return kept;
    std::map<std::pair<OpIndex, uint32_t>, StorageId> made; // storages not made again since
    for (auto [s, r] : part.madeBy)
      if (r.op != part.rest)
        made[{r.op, r.output}] = s;
    auto read = [&](const Read &r) {
      if (auto found = made.find({r.op, r.output}); found != made.end()) {
        kept.push_back(found->second);
        made.erase(found);
      }
    };
    for (++from; from != to; ++from) {
      for (const Read &r : part.problem.ops[*from].inputs)
        read(r);
      if (TaskId t = part.taskOf[*from])
        for (StorageId s : g_.tasks[t].made())
          if (auto r = part.madeBy.find(s); r != part.madeBy.end())
            made.erase({r->second.op, r->second.output});
    }
    for (const Read &r : part.problem.outputs)
      read(r);
    return kept;
  }

  const StorageGraph &g_;
  const Segments segments_;
  const int64_t budget_;
  const SegmentPlanner &plan_;
  int64_t held_ = 0; // for earlier segments, unread by later ones
  std::map<std::pair<int64_t, std::string>, Schedule> plans_; // by budget and problem
};

} // namespace

std::vector<TaskId> nestedSchedule(const StorageGraph &g, int64_t budget, uint32_t leastTasks,
                                   const SegmentPlanner &plan) {
  std::optional<Segments> segments = segmentsOf(g, leastTasks);
  if (!segments)
    return {};
  std::vector<TaskId> tasks = Composition(g, *std::move(segments), budget, plan).run();
  if (tasks.empty())
    return {};
  const Evaluation judged = evaluate(g.problem(), emitSchedule(g, tasks));
  return judged.error.empty() && judged.peakBytes <= budget ? tasks : std::vector<TaskId>();
}

} // namespace isthmus::plan
