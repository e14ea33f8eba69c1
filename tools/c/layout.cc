#include "tools/c/handles.h"

using namespace isthmus;
using namespace isthmus::c;

// The instances of each step, then its workspace.
static std::vector<isthmus_block> blocksOf(const plan::Problem &p, const plan::Schedule &s,
                                           const ScheduleLayout &layout) {
  std::vector<isthmus_block> blocks;
  size_t next = 0;
  for (uint32_t step = 0; step < s.size(); ++step) {
    for (; next < layout.instances.size() && layout.instances[next].first == step; ++next) {
      const plan::Instance &i = layout.instances[next];
      blocks.push_back(
          {i.made.op, i.made.output, i.first, i.last, i.bytes, layout.instanceOffset[next]});
    }
    if (const int64_t bytes = p.rounded(p.ops[s[step]].workspace))
      blocks.push_back({s[step], ISTHMUS_NONE, step, step, bytes, layout.workspaceOffset[step]});
  }
  return blocks;
}

isthmus_status isthmus_plan_layout(const isthmus_problem *problem, isthmus_plan *plan,
                                   const isthmus_block **blocks, size_t *num_blocks,
                                   int64_t *arena_bytes, isthmus_error **error) {
  return guarded(error, [&] {
    ISTHMUS_NOT_NULL(problem);
    ISTHMUS_NOT_NULL(plan);
    ISTHMUS_NOT_NULL(blocks);
    ISTHMUS_NOT_NULL(num_blocks);
    ISTHMUS_NOT_NULL(arena_bytes);
    if (isthmus_status status = checkFits(*problem, *plan, error))
      return status;
    const plan::PlanResult &r = plan->result;
    if (!plan->layout)
      plan->layout = placeSchedule(problem->problem, r.schedule, r.planned.peakBytes);
    if (plan->layout->arenaBytes == INT64_MAX)
      return fail(ISTHMUS_UNSUPPORTED, "the arena would need over 2^62 bytes", error);
    plan->blocks = blocksOf(problem->problem, r.schedule, *plan->layout);
    *blocks = plan->blocks.data();
    *num_blocks = plan->blocks.size();
    *arena_bytes = plan->layout->arenaBytes;
    return ISTHMUS_OK;
  });
}
