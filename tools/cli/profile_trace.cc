#include "tools/cli/profile_report.h"

#include "ir/json.h"

namespace isthmus {

Part partOf(const Node &n) {
  switch (n.from.kind) {
  case StandIn::Clone:
  case StandIn::Boundary:
    return Part::Recomputed;
  case StandIn::Inverse:
  case StandIn::Helper:
    return Part::Rebuilt;
  case StandIn::Encoding:
    return Part::Encoded;
  case StandIn::Transfer:
    return Part::Copied;
  case StandIn::Chunk:
  case StandIn::None:
    break;
  }
  if (n.op->effect == Effect::Ordered) // a transfer of the model's own
    return Part::Copied;
  return n.phase == Phase::Forward    ? Part::Forward
         : n.phase == Phase::Backward ? Part::Backward
                                      : Part::Update;
}

llvm::StringRef partName(Part p) {
  static constexpr const char *kNames[kParts] = {"forward", "recomputed", "rebuilt", "encoded",
                                                 "copied",  "backward",   "update"};
  return kNames[size_t(p)];
}

namespace {

using Json = nlohmann::ordered_json;
constexpr int kProcess = 1;

// Each part has a row of its own, which the trace format calls a thread.
int rowOf(Part part) { return int(part) + 1; }

Json rowName(Part part) {
  return {{"ph", "M"},
          {"pid", kProcess},
          {"tid", rowOf(part)},
          {"name", "thread_name"},
          {"args", {{"name", partName(part).str()}}}};
}

} // namespace

std::string traceText(const ProfiledStep &p) {
  Json events = Json::array();
  for (size_t part = 0; part < kParts; ++part)
    events.push_back(rowName(Part(part)));
  double now = 0; // microseconds
  for (uint32_t i = 0; i < p.graph.numNodes(); ++i) {
    const Node &n = p.graph.node(NodeId(i));
    const double us = 1e6 * p.nodes[i].seconds;
    events.push_back({{"ph", "C"},
                      {"pid", kProcess},
                      {"ts", now},
                      {"name", "live bytes"},
                      {"args", {{"bytes", p.nodes[i].liveBytes}}}});
    if (!n.op->is(kView))
      events.push_back({{"ph", "X"},
                        {"pid", kProcess},
                        {"tid", rowOf(partOf(n))},
                        {"ts", now},
                        {"dur", us},
                        {"name", p.graph.nodeName(NodeId(i)).str()},
                        {"cat", partName(partOf(n)).str()},
                        {"args", {{"node", i + 1}, {"call", callKey(p.graph.call(NodeId(i)))}}}});
    now += us;
  }
  Json trace;
  trace["displayTimeUnit"] = "ms";
  trace["otherData"] = {{"model", p.model}, {"target", p.target.name}};
  trace["traceEvents"] = std::move(events);
  return jsonText(trace) + "\n";
}

} // namespace isthmus
