#include "ir/json.h"
#include "passes/inspect/joint_graph.h"

namespace isthmus {

using Json = nlohmann::json;
using plan::Op;
using plan::Read;

namespace plan {

static void to_json(Json &j, const Read &r) { j = {r.op, r.output}; }
static void to_json(Json &j, const Op::Donation &d) { j = {d.output, d.input}; }

} // namespace plan

// One read of the wait for a prefetch stands for all outputs of its start.
static std::vector<Read> readsOf(const Op &op) {
  std::vector<Read> reads = op.inputs;
  if (op.transfer == Op::Transfer::WaitPrefetch)
    reads.erase(reads.begin() + 1, reads.begin() + std::ptrdiff_t(op.outputBytes.size()));
  return reads;
}

static std::vector<int64_t> bytesOf(const Op &op) {
  const bool isMade = !op.outputBytes.empty() && !op.waitsForTransfer();
  return isMade ? op.outputBytes : std::vector<int64_t>{0};
}

static Json ofOf(const Op &op) {
  if (op.of == Op::kNone)
    return nullptr;
  return op.ofOutput == Op::kAllOutputs ? Json(op.of) : Json(Read{op.of, op.ofOutput});
}

// A list for each field is far smaller and faster than an object for each op.
std::string printOps(const std::string &name, const plan::Problem &p) {
  constexpr const char *kKinds[] = {"computes", "starts_offload", "waits_offload",
                                    "starts_prefetch", "waits_prefetch"}; // by Op::Transfer
  auto list = [&p](auto fieldOf) {
    Json all = Json::array();
    for (const Op &op : p.ops)
      all.push_back(fieldOf(op));
    return all;
  };
  Json ops;
  ops["name"] = list([](const Op &op) { return op.name; });
  ops["reads"] = list(readsOf);
  ops["cost"] = list([](const Op &op) { return op.cost; });
  ops["bytes"] = list(bytesOf);
  ops["phase"] = list([](const Op &op) { return kPhaseNames[size_t(op.phase)]; });
  ops["pinned"] = list([](const Op &op) { return op.isPinned; });
  ops["recomputable"] = list([](const Op &op) { return op.recomputable; });
  ops["workspace"] = list([](const Op &op) { return op.workspace; });
  ops["view_of"] = list([](const Op &op) { return op.isView() ? Json(op.viewOf) : Json(); });
  ops["may_reuse"] = list([](const Op &op) { return op.donations; });
  ops["kind"] = list([&](const Op &op) { return kKinds[size_t(op.transfer)]; });
  ops["of"] = list(ofOf);
  ops["transfer_time"] = list([](const Op &op) { return op.transferTime; });
  ops["overwrites"] = list([](const Op &op) { return op.overwrites; });
  return jsonText(Json{{"name", name},
                       {"order", kOrderNames[size_t(p.order)]},
                       {"alignment", p.alignment},
                       {"outputs", p.outputs},
                       {"forward_outputs", p.forwardOutputs},
                       {"ops", std::move(ops)}});
}

} // namespace isthmus
