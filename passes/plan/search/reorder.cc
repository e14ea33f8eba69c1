// Improves the order before any eviction: moves each step to a place where fewer bytes are live.
//
// A step that makes more bytes than it frees should run late, just before its first reader. A step
// that frees more than it makes should run as soon as its operands are made. Every such move lowers
// the live bytes of all steps that it passes, and raises them nowhere else. (Gradients of weights
// and optimizer updates move most.)

#include "passes/plan/search/searches.h"
#include "passes/plan/search/step_order.h"

#include <algorithm>

namespace isthmus::plan {
namespace {

constexpr int kMostPasses = 4;

class Reordering {
public:
  explicit Reordering(SearchState &state)
      : edits_(state.edits), s_(state.schedule()), g_(state.graph()) {}

  bool pass(bool late) {
    std::vector<StepId> steps = s_.profile().steps();
    steps.pop_back(); // the end
    if (late)
      std::reverse(steps.begin(), steps.end());
    bool any = false;
    for (StepId r : steps) {
      int64_t gain = bytesMade(r) - bytesFreed(r);
      if (late ? gain <= 0 : gain >= 0)
        continue;
      StepId before = late ? firstReader(r) : afterOperands(r);
      if (before == r || before == s_.next(r))
        continue;
      edits_.move(r, before);
      any = true;
    }
    return any;
  }

private:
  int64_t bytes(InstanceId c) const { return g_.storages[s_.storageOf(c)].bytes; }

  int64_t bytesMade(StepId r) const {
    int64_t sum = 0;
    for (InstanceId c : s_.made(r))
      if (!s_.readers(c).empty())
        sum += bytes(c);
    return sum;
  }

  int64_t bytesFreed(StepId r) const {
    int64_t sum = 0;
    for (uint32_t k = 0; k < s_.task(r).reads.size(); ++k)
      if (InstanceId c = s_.read(r, k); s_.lastUse(c) == r)
        sum += bytes(c);
    return sum;
  }

  StepId firstReader(StepId r) const {
    StepId first = s_.end();
    for (InstanceId c : s_.made(r))
      if (const auto &readers = s_.readers(c); !readers.empty())
        if (s_.isBefore(readers.front(), first))
          first = readers.front();
    const StepId limit = limitsByOverwrites(s_, s_.taskOf(r)).before;
    return limit && s_.isBefore(limit, first) ? limit : first;
  }

  StepId afterOperands(StepId r) const {
    StepId last = limitsByOverwrites(s_, s_.taskOf(r)).after;
    for (uint32_t k = 0; k < s_.task(r).reads.size(); ++k)
      if (StepId m = s_.maker(s_.read(r, k)); !last || s_.isBefore(last, m))
        last = m;
    return last ? s_.next(last) : r; // a step that reads nothing stays
  }

  EditLog &edits_;
  const EditableSchedule &s_;
  const StorageGraph &g_;
};

} // namespace

void reorder(SearchState &state) {
  Reordering reordering(state);
  for (int i = 0; i < kMostPasses; ++i) {
    bool any = reordering.pass(/*late=*/true);
    any |= reordering.pass(/*late=*/false);
    if (!any)
      break;
  }
  state.edits.commit();
}

} // namespace isthmus::plan
