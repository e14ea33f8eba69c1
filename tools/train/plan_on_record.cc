#include "tools/train/plan_on_record.h"

#include "ir/place.h"
#include "ir/units.h"

namespace isthmus {
namespace {

bool hasMarks(const Graph &g) {
  return g.countNodes([](const Node &n) { return n.hasMark(kCheckpointMark); }) > 0;
}

Policy policyOnRecord(const Graph &planned) {
  switch (planned.record.policy) {
  case PlannedBy::Speed:
    return Policy::Speed;
  case PlannedBy::Memory:
  case PlannedBy::Frontiers:
    return Policy::Memory;
  case PlannedBy::Collection: // a list of names is not on record
    return hasMarks(planned) ? Policy::Collection : Policy::None;
  default:
    return Policy::None;
  }
}

Ways waysOf(const Graph &planned) {
  auto has = [&](StandIn kind) {
    return planned.countNodes([kind](const Node &n) { return n.is(kind); }) > 0;
  };
  Ways ways;
  ways.invert = has(StandIn::Inverse);
  ways.fetch = has(StandIn::Transfer);
  ways.encode = has(StandIn::Encoding);
  ways.chunk = has(StandIn::Chunk) && Places(planned).isOne(); // stages have no such way
  return ways;
}

} // namespace

void planAsOnRecord(const Graph &planned, CompileOptions &o) {
  const GraphRecord &r = planned.record;
  const std::string why = "the step is planned anew with its updates: ";
  if (r.budgetBytes) {
    o.plan = Budget{Budget::Bytes, *r.budgetBytes};
    o.ways = waysOf(planned);
    o.note({why + "within the budget on record, " + bytesText(*r.budgetBytes),
            {"budget", "", "choose another"}});
  } else {
    const Policy policy = policyOnRecord(planned);
    o.plan = PolicyOptions{policy, {}};
    if (policy != Policy::None)
      o.note(why + "by policy " + plannedByText(r.policy).str());
    else if (planned.hasClones())
      o.note({why + "it keeps all activations", {"budget", "", "plan it"}});
  }
  if (planned.numReplaced() > 0 && !o.ways.chunk)
    o.note({why + "not in the file's chunks", {"microbatches", "", "divide it"}});
}

} // namespace isthmus
