#include "passes/place/place_schedule.h"

namespace isthmus {
namespace {

// Instances joined by donations share one buffer, that of the first in the chain.
class SchedulePlacing {
public:
  SchedulePlacing(const plan::Problem &p, const plan::Schedule &s) : p_(p), s_(s) {
    out_.instances = plan::instancesOf(p, s);
    out_.instanceOffset.assign(out_.instances.size(), 0);
    out_.workspaceOffset.assign(s.size(), 0);
  }

  ScheduleLayout run(int64_t peakBytes, const OffsetOptions &options) {
    addInstances();
    for (uint32_t step = 0; step < s_.size(); ++step)
      add({p_.rounded(p_.ops[s_[step]].workspace), step, step + 1}, out_.workspaceOffset[step]);
    out_.arenaBytes = assignOffsets(buffers_, peakBytes, options);
    if (out_.arenaBytes == INT64_MAX)
      return std::move(out_);
    for (size_t i = 0; i < buffers_.size(); ++i)
      *places_[i] = buffers_[i].offset;
    for (size_t i = 0; i < out_.instances.size(); ++i) // a giver comes before its taker
      if (uint32_t to = out_.instances[i].donatedTo; to != plan::Instance::kNotDonated)
        out_.instanceOffset[to] = out_.instanceOffset[i];
    return std::move(out_);
  }

private:
  void addInstances() {
    const auto &all = out_.instances;
    std::vector<uint32_t> last(all.size());
    std::vector<bool> takes(all.size());
    for (size_t i = all.size(); i-- > 0;) {
      last[i] = all[i].last;
      if (uint32_t to = all[i].donatedTo; to != plan::Instance::kNotDonated) {
        last[i] = std::max(last[i], last[to]);
        takes[to] = true;
      }
    }
    for (size_t i = 0; i < all.size(); ++i)
      if (!takes[i])
        add({all[i].bytes, all[i].first, last[i] + 1}, out_.instanceOffset[i]);
  }

  void add(Buffer b, int64_t &place) {
    if (b.bytes <= 0)
      return;
    buffers_.push_back(b);
    places_.push_back(&place);
  }

  const plan::Problem &p_;
  const plan::Schedule &s_;
  ScheduleLayout out_;
  std::vector<Buffer> buffers_;
  std::vector<int64_t *> places_; // by buffer: where its offset goes
};

} // namespace

ScheduleLayout placeSchedule(const plan::Problem &p, const plan::Schedule &s, int64_t peakBytes,
                             const OffsetOptions &options) {
  return SchedulePlacing(p, s).run(peakBytes, options);
}

} // namespace isthmus
