// `explain --json`: one object, schema isthmus.explain/1; keys are only ever added.

#include "tools/cli/explanation.h"

#include "passes/compile/figures_json.h"

namespace isthmus {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char *kKindKeys[kNumLiveKinds] = {"saved_activations",
                                                  "recomputed",
                                                  "fetched",
                                                  "rebuilt",
                                                  "encoded",
                                                  "chunked",
                                                  "passing_activations",
                                                  "activation_gradients",
                                                  "parameter_gradients",
                                                  "other_outputs",
                                                  "workspace",
                                                  "other",
                                                  "received"};
constexpr const char *kDecisionKeys[] = {"kept",    "recomputed", "fetched", "rebuilt",
                                         "encoded", "output",     "passing", "gradient"};
constexpr const char *kWhyKeys[] = {"taken",        "end",        "small",      "kind_of_op",
                                    "same_storage", "not_read",   "in_segment", "not_product",
                                    "not_named",    "not_in_cut", "no_gain",    "price"};

Json dims(const Type &t) {
  Json out = Json::array();
  for (int64_t d : t.dims)
    out.push_back(d);
  return out;
}

class Writer {
public:
  explicit Writer(const ExplainedPlan &e) : e_(e), g_(e.plan.graph) {}

  Json run() {
    const Figures &r = e_.plan.figures;
    Json j;
    j["schema"] = "isthmus.explain/1";
    j["model"] = e_.model;
    j["target"] = e_.target;
    j["costs"] = r.costs;
    j["policy_used"] = plannedByText(r.policyUsed).str();
    j["budget_bytes"] = e_.plan.budgetBytes ? Json(*e_.plan.budgetBytes) : Json();
    j["arena_bytes"] = r.arenaBytes;
    j["persistent_bytes"] = r.persistentBytes;
    j["baseline_us"] = e_.why.baselineUs;
    j["planned_us"] = e_.why.plannedUs;
    j["recompute_overhead"] = r.recomputeOverhead;
    j["recomputations"] = e_.why.recomputations;
    j["baseline"] = peak(e_.plan.original, e_.why.baseline);
    j["planned"] = peak(g_, e_.why.planned);
    for (size_t k = 0; k < std::size(kDecisionKeys); ++k)
      j["totals"][kDecisionKeys[k]] = {{"tensors", e_.why.totals[k].tensors},
                                       {"bytes", e_.why.totals[k].bytes}};
    j["never_whole"] = Json::array();
    j["put_together"] = Json::array();
    for (const ChunkedValue &c : e_.why.chunked)
      chunked(c, j[c.whole ? "put_together" : "never_whole"]);
    j["tensors"] = Json::array();
    for (const TensorDecision &f : e_.why.tensors)
      j["tensors"].push_back(tensor(f));
    j["bottlenecks"] = bottlenecks();
    j["price"] = price();
    return j;
  }

private:
  void chunked(const ChunkedValue &c, Json &list) const {
    list.push_back({{"name", g_.valueName(c.value).str()},
                    {"op", g_.node(g_.value(c.value).def).op->name},
                    {"bytes", g_.type(c.value).bytes()},
                    {"chunks", c.chunks},
                    {"most_bytes", c.mostBytes},
                    {"from_index", c.first},
                    {"to_index", c.last}});
    if (c.whole)
      list.back()["whole"] = g_.valueName(c.whole).str();
  }

  Json node(const Graph &g, uint32_t i) const { return g.nodeName(NodeId(i)).str(); }

  Json peak(const Graph &g, const PeakContents &c) const {
    Json j;
    j["peak_bytes"] = c.bytes;
    j["node"] = c.node ? node(g, c.node.index) : Json();
    j["node_op"] = c.node ? Json(g.node(c.node).op->name) : Json();
    j["node_index"] = c.node ? Json(c.node.index) : Json();
    j["nodes"] = g.numNodes();
    for (size_t k = 0; k < kNumLiveKinds; ++k)
      j["bytes_by_kind"][kKindKeys[k]] = c.bytesOf[k];
    j["tensors"] = Json::array();
    for (const LiveTensor &l : c.tensors) {
      if (j["tensors"].size() == e_.options.top)
        break;
      Json t;
      t["name"] = l.value ? Json(g.valueName(l.value).str()) : Json();
      t["op"] = g.node(l.value ? g.value(l.value).def : NodeId(l.first)).op->name;
      t["shape"] = l.value ? dims(g.type(l.value)) : Json();
      t["type"] = l.value ? Json(g.type(l.value).str()) : Json();
      t["bytes"] = l.bytes;
      t["kind"] = kKindKeys[size_t(l.kind)];
      t["from"] = node(g, l.first);
      t["to"] = node(g, l.last);
      t["from_index"] = l.first;
      t["to_index"] = l.last;
      j["tensors"].push_back(std::move(t));
    }
    return j;
  }

  Json gap(const IdleInterval &g) const {
    return {{"from", node(g_, g.from)},
            {"to", node(g_, g.to)},
            {"nodes", g.to - g.from},
            {"most_live_bytes", g.live}};
  }

  Json tensor(const TensorDecision &f) const {
    Json j;
    j["name"] = g_.valueName(f.value).str();
    j["op"] = g_.node(g_.value(f.value).def).op->name;
    j["shape"] = dims(g_.type(f.value));
    j["type"] = g_.type(f.value).str();
    j["bytes"] = f.bytes;
    j["decision"] = kDecisionKeys[size_t(f.kind)];
    j["at_peak"] = f.isAtPeak;
    j["recomputations"] = f.recomputations;
    j["fetches"] = f.fetches;
    j["rebuildings"] = f.rebuildings;
    j["rebuild_us"] = f.rebuildUs;
    j["encoded_bytes"] = f.encodedBytes;
    j["link_us"] = f.linkUs;
    j["run_us"] = f.runUs;
    j["added_us"] = f.addedUs;
    j["added_share"] = e_.why.baselineUs > 0 ? f.addedUs / e_.why.baselineUs : 0;
    j["from"] = node(g_, f.first);
    j["to"] = node(g_, f.last);
    j["is_checkpoint"] = f.isCheckpoint;
    j["kept"] = f.kept ? gap(*f.kept) : Json();
    j["away"] = Json::array();
    for (const IdleInterval &g : f.away) {
      Json away = gap(g);
      away["byte_nodes"] = f.bytes * int64_t(g.to - g.from);
      j["away"].push_back(std::move(away));
    }
    j["eviction"] = Json();
    if (f.eviction)
      j["eviction"] = {{"runs", f.eviction->runs},
                       {"us", f.eviction->us},
                       {"peak_bytes", f.eviction->peakBytes}};
    j["text"] = decisionText(e_, f);
    j["why"] = whyText(e_, f);
    return j;
  }

  Json bottlenecks() const {
    Json all = Json::array();
    for (const BottleneckDecision &b : e_.why.bottlenecks)
      all.push_back({{"name", g_.valueName(b.value).str()},
                     {"bytes", b.tensor.bytes},
                     {"taken", isTaken(b)},
                     {"reason", kWhyKeys[size_t(b.why)]},
                     {"why", whyText(e_, b)}});
    return all;
  }

  // Extrapolates the bound's price to a budget that is two hundredths larger or smaller.
  Json other(int sign) const {
    const int64_t step = *e_.plan.budgetBytes / 50;
    const double us = e_.why.plannedUs - sign * *e_.usPerMiB() * (double(step) / double(1 << 20));
    return {{"budget_bytes", *e_.plan.budgetBytes + sign * step},
            {"us", std::max(us, e_.why.baselineUs)},
            {"us_per_mib", *e_.usPerMiB()}};
  }

  Json price() const {
    const int64_t saved = e_.why.baseline.bytes - e_.why.planned.bytes;
    Json j;
    j["saved_bytes"] = saved;
    j["added_us"] = e_.why.plannedUs - e_.why.baselineUs;
    j["us_per_mib"] =
        saved > 0 ? Json((e_.why.plannedUs - e_.why.baselineUs) / (double(saved) / double(1 << 20)))
                  : Json();
    const bool isPriced = e_.usPerMiB().has_value();
    const bool isLeast = e_.plan.figures.smallestBudgetBytes == e_.plan.budgetBytes;
    j["method"] = isPriced ? Json("the bound's price at the budget") : Json();
    j["us_per_mib_at_budget"] = isPriced ? Json(*e_.usPerMiB()) : Json();
    j["lower_bound_overhead"] = isPriced ? Json(*e_.plan.figures.lowerBoundOverhead) : Json();
    j["more"] = isPriced ? other(1) : Json();
    j["less"] = isPriced && !isLeast ? other(-1) : Json();
    j["knee"] = kneeJson(e_.plan.figures);
    return j;
  }

  const ExplainedPlan &e_;
  const Graph &g_;
};

} // namespace

std::string explanationJson(const ExplainedPlan &e) { return jsonText(Writer(e).run(), 2) + "\n"; }

} // namespace isthmus
