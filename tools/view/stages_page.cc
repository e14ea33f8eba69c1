#include "tools/view/stages_page.h"

#include <cmath>

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

// Times are whole nanoseconds.
int64_t nanoseconds(double seconds) { return std::llround(1e9 * seconds); }

class StagesWriter {
public:
  StagesWriter(Page &page, const StepByPlace &s) : page_(page), to_(page.columns), s_(s) {}

  // The times of the nodes, their micro-batches, and the bars.
  void addPlace(uint32_t place, const std::string &prefix) {
    const WholeNodes &nodes = s_.places[place].nodes;
    const size_t n = nodes.of.size();
    auto time = [&](size_t i) { return s_.times.nodes[nodes.of[i].index]; };
    to_.delta(prefix + "node.begin", n, [&](size_t i) { return nanoseconds(time(i).begin); });
    to_.delta(prefix + "node.end", n, [&](size_t i) { return nanoseconds(time(i).end); });
    to_.plain(prefix + "node.batch", n,
              [&](size_t i) { return numberOf(microBatchOf(nodes.whole, nodes.of[i])); });
    std::vector<WorkBar> bars;
    for (const WorkBar &b : s_.bars)
      if (b.place == place)
        bars.push_back(b);
    to_.plain(prefix + "bar.kind", bars.size(), [&](size_t i) { return bars[i].kind; });
    to_.plain(prefix + "bar.batch", bars.size(), [&](size_t i) { return numberOf(bars[i].batch); });
    to_.delta(prefix + "bar.first", bars.size(), [&](size_t i) { return bars[i].first; });
    to_.plain(prefix + "bar.count", bars.size(), [&](size_t i) { return bars[i].count; });
  }

  void addMessages() {
    const std::vector<MessageTime> &all = s_.times.messages;
    const size_t n = all.size();
    std::vector<uint32_t> numberHere(s_.places[0].nodes.whole.numNodes()); // by node of the whole
    for (const PlacePart &p : s_.places)
      for (uint32_t i = 0; i < p.nodes.of.size(); ++i)
        numberHere[p.nodes.of[i].index] = i;
    to_.plain("message.from", n, [&](size_t i) { return all[i].from; });
    to_.plain("message.to", n, [&](size_t i) { return all[i].to; });
    to_.delta("message.send", n, [&](size_t i) { return numberHere[all[i].send.index]; });
    to_.plain("message.bytes", n, [&](size_t i) { return all[i].bytes; });
    to_.delta("message.begin", n, [&](size_t i) { return nanoseconds(all[i].begin); });
    to_.delta("message.end", n, [&](size_t i) { return nanoseconds(all[i].end); });
  }

  void addFacts() {
    page_.facts["works"] = Json::array();
    for (size_t k = 0; k < kNumWorkKinds; ++k)
      page_.facts["works"].push_back(workKindName(WorkKind(k)).str());
    page_.facts["step_ns"] = nanoseconds(s_.times.seconds);
  }

private:
  static uint32_t numberOf(std::optional<uint32_t> batch) { return batch ? *batch + 1 : 0; }

  Page &page_;
  Columns &to_;
  const StepByPlace &s_;
};

} // namespace

llvm::Error addPlaces(Page &page, const StepByPlace &steps, const Figures &figures,
                      const Target &target) {
  StagesWriter writer(page, steps);
  const Json told = timelessFigures(figures);
  for (uint32_t i = 0; i < steps.places.size(); ++i) {
    const PlacePart &p = steps.places[i];
    auto table = stepTableOf(p, target);
    if (!table)
      return table.takeError();
    const std::string prefix = "p" + std::to_string(i) + ".";
    Json &step = page.add(p.device, prefix, std::move(*table), Detail::Whole, told["stages"][i]);
    step["budget_bytes"] = p.budgetBytes ? Json(*p.budgetBytes) : Json();
    writer.addPlace(i, prefix);
  }
  page.facts["figures"] = told;
  writer.addMessages();
  writer.addFacts();
  return llvm::Error::success();
}

} // namespace isthmus
