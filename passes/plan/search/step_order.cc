#include "passes/plan/search/step_order.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

// In an order by phases, alternatives of the backward phase come after the first backward step.
bool isTooEarly(const EditableSchedule &s, TaskId t, StepId before) {
  const StorageGraph &g = s.graph();
  if (g.order != Order::Phases || !g.isAlternative(t) || !g.tasks[t].isBackward)
    return false;
  if (!g.firstBackward)
    return true;
  InstanceId first = s.instances(g.tasks[g.firstBackward].firstMade).front();
  return s.position(before) <= s.position(s.maker(first));
}

} // namespace

StepLimits limitsByOverwrites(const EditableSchedule &s, TaskId t) {
  const StorageGraph &g = s.graph();
  StepLimits limits;
  for (TaskId overwriter : g.overwritersOf(t)) { // which runs once
    StepId r = s.maker(s.instances(g.tasks[overwriter].firstMade).front());
    if (!limits.before || s.isBefore(r, limits.before))
      limits.before = r;
  }
  for (TaskId reader : g.readersOfOverwritten(t))
    for (InstanceId c : s.instances(g.tasks[reader].firstMade))
      if (StepId r = s.maker(c);
          s.taskOf(r) == reader && (!limits.after || s.isBefore(limits.after, r)))
        limits.after = r;
  return limits;
}

bool mayStand(const EditableSchedule &s, TaskId t, StepId before) {
  const StepLimits limits = limitsByOverwrites(s, t);
  return !isTooEarly(s, t, before) && (!limits.after || s.isBefore(limits.after, before)) &&
         (!limits.before || !s.isBefore(limits.before, before));
}

StepRange rangeOf(const EditableSchedule &s, StepId r) {
  StepRange range{0, s.position(s.end())};
  auto after = [&](StepId x) { range.low = std::max(range.low, s.position(x) + 1); };
  auto before = [&](StepId x) { range.high = std::min(range.high, s.position(x)); };
  const StorageGraph::Reads &reads = s.task(r).reads;
  for (uint32_t k = 0; k < reads.size(); ++k) {
    after(s.maker(s.read(r, k)));
    if (InstanceId next = s.oldestAfter(reads[k], r))
      before(s.maker(next));
  }
  for (InstanceId c : s.made(r)) {
    if (!s.readers(c).empty())
      before(s.readers(c).front());
    if (InstanceId old = s.newestBefore(s.storageOf(c), r))
      after(s.lastUse(old));
    if (InstanceId next = s.oldestAfter(s.storageOf(c), r))
      before(s.maker(next));
  }
  const StepLimits limits = limitsByOverwrites(s, s.taskOf(r));
  if (limits.after)
    after(limits.after);
  if (limits.before)
    before(limits.before);
  return range;
}

} // namespace isthmus::plan
