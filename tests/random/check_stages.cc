// Checks training graphs whose nodes run on several devices.

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "passes/place/place.h"
#include "passes/rewrite/original.h"
#include "passes/rewrite/rematerialize.h"
#include "passes/simplify/dce.h"
#include "passes/stages/checkpoint_mode.h"
#include "passes/stages/early_recomputation.h"
#include "passes/stages/messages.h"
#include "passes/stages/programs.h"
#include "runtime/session.h"
#include "tests/random/check_graph.h"
#include <random>

namespace isthmus {

using llvm::toString;

namespace {

// Two to four devices: of each node at random, or in runs of nodes.
Graph placedAtRandom(Graph g, std::mt19937_64 &random) {
  const uint64_t devices = 2 + random() % 3;
  const bool inRuns = random() % 2;
  uint64_t device = 0;
  for (uint32_t i = 0; i < g.numNodes(); ++i) {
    if (!inRuns || random() % 5 == 0)
      device = random() % devices;
    g.editNode(NodeId(i)).device = "cpu:" + std::to_string(device);
  }
  return g;
}

// Any order in which operands come before their readers, and some ops run again.
plan::Schedule randomSchedule(const plan::Problem &p, std::mt19937_64 &random) {
  std::vector<bool> hasRun(p.ops.size(), false);
  plan::Schedule out;
  std::vector<plan::OpIndex> left;
  for (plan::OpIndex i = 0; i < p.ops.size(); ++i)
    if (p.ops[i].isPinned)
      hasRun[i] = true;
    else
      left.push_back(i);
  auto isReady = [&](plan::OpIndex op) {
    return llvm::all_of(p.ops[op].inputs, [&](const plan::Read &r) { return hasRun[r.op]; });
  };
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (size_t i = 0; i < left.size(); ++i)
      if (isReady(left[i]))
        ready.push_back(i);
    const size_t taken = ready[random() % ready.size()];
    const plan::OpIndex op = left[taken];
    left.erase(left.begin() + ptrdiff_t(taken));
    for (const plan::Read &r : p.ops[op].inputs)
      if (p.ops[r.op].recomputable && !p.ops[r.op].isPinned && random() % 3 == 0)
        out.push_back(r.op);
    hasRun[op] = true;
    out.push_back(op);
  }
  return out;
}

} // namespace

// The programs of a graph give the bits of the whole, each with the peak that its part of the
// problem has, whatever the schedules of the devices; the graph can be recovered.
std::string GraphChecker::stages(const Case &c) {
  auto want = runner_.reference(c.training, c.inputs);
  if (!want)
    return toString(want.takeError());
  std::mt19937_64 random(c.seed);
  const Graph placed = placedAtRandom(c.training, random);
  if (Places(placed).isOne())
    return "";
  const Graph g = withMessages(placed);
  if (llvm::Error e = verify(g))
    return toString(std::move(e)) + "\n" + graphText(g);
  if (std::string d = roundTrip(g); !d.empty())
    return d;
  std::string reason;
  if (!equalGraphs(originalOf(g), placed, &reason))
    return "its original is not the graph: " + reason;
  auto p = extractProblem(g, runner_.plain().target());
  if (!p)
    return toString(p.takeError());
  const std::vector<PlaceProblem> places = placeProblems(g, *p, Places(g));
  for (int way = 0; way < 6; ++way) {
    std::vector<plan::Schedule> schedules;
    std::vector<int64_t> peaks;
    for (const PlaceProblem &place : places) {
      schedules.push_back(way < 3 ? checkpointed(g, *p, place, CheckpointMode(way))
                                  : randomSchedule(place.problem, random));
      plan::Evaluation e = plan::evaluate(place.problem, schedules.back());
      if (way == 5 && e.error.empty()) {
        const int64_t peak = e.peakBytes;
        schedules.back() = recomputedBeforeWaits(g, *p, place, schedules.back(), peak);
        e = plan::evaluate(place.problem, schedules.back());
        if (e.peakBytes > peak)
          return "to recompute earlier raised the peak";
      }
      if (!e.error.empty())
        return "a schedule of a device: " + e.error;
      peaks.push_back(e.peakBytes);
    }
    const Graph planned = rematerialize(g, *p, joined(g, *p, places, schedules));
    const std::string what = "way " + std::to_string(way) + ": ";
    if (llvm::Error e = verify(planned))
      return what + toString(std::move(e)) + "\n" + graphText(planned);
    if (std::string d = roundTrip(planned); !d.empty())
      return what + d;
    if (!equalGraphs(withoutDeadNodes(originalOf(planned)), withoutDeadNodes(placed), &reason))
      return what + "its original is not the graph: " + reason;
    auto got = executePrograms(planned, c, peaks);
    if (!got)
      return what + toString(got.takeError());
    if (std::string d = bitsDiffer(planned, *got, *want); !d.empty())
      return what + d;
  }
  ++counts.placed;
  return "";
}

std::string GraphChecker::roundTrip(const Graph &g) {
  std::string reason;
  auto parsed = parseGraph(graphText(g), "staged.isth");
  if (!parsed)
    return toString(parsed.takeError());
  return equalGraphs(g, *parsed, &reason) ? "" : "printed and parsed it is another: " + reason;
}

llvm::Expected<std::vector<Tensor>>
GraphChecker::executePrograms(const Graph &g, const Case &c, llvm::ArrayRef<int64_t> peaks) {
  const std::vector<Program> programs = programsOf(g);
  std::vector<Layout> layouts;
  std::vector<SessionProgram> parts;
  for (size_t i = 0; i < programs.size(); ++i) {
    auto layout = place(programs[i].graph, runner_.plain().target());
    if (!layout)
      return layout.takeError();
    if (layout->peakBytes != peaks[i])
      return makeError("the layout's peak on {0} is {1}, predicted were {2}", programs[i].device,
                       layout->peakBytes, peaks[i]);
    layouts.push_back(std::move(*layout));
  }
  for (size_t i = 0; i < programs.size(); ++i)
    parts.push_back({programs[i].device, &programs[i].graph, &layouts[i], programs[i].inputs,
                     programs[i].outputs});
  std::vector<Tensor> inputs;
  for (const Input &i : g.inputs())
    inputs.push_back(c.inputs.at(g.valueName(i.value).str()));
  auto session = Session::open(g, parts, runner_.plain(), runner_.key().seed, inputs);
  if (!session)
    return session.takeError();
  for (int step = 0; step < 2; ++step)
    if (llvm::Error e = (*session)->step(runner_.key().step))
      return e;
  std::vector<Tensor> out;
  for (ValueId v : g.outputs()) {
    auto t = (*session)->fetch(v);
    if (!t)
      return t.takeError();
    out.push_back(std::move(*t));
  }
  return out;
}

} // namespace isthmus
