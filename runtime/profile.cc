#include "runtime/profile.h"

#include <algorithm>
#include <chrono>

namespace isthmus {
namespace {

using Clock = std::chrono::steady_clock;

double secondsSince(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> &list) {
  auto middle = list.begin() + std::ptrdiff_t(list.size() / 2);
  std::nth_element(list.begin(), middle, list.end());
  return *middle;
}

// The time of a finish() on an idle device.
llvm::Expected<double> secondsOfAWait(Device &device) {
  std::vector<double> waits(15);
  for (double &seconds : waits) {
    const Clock::time_point start = Clock::now();
    if (llvm::Error e = device.finish())
      return e;
    seconds = secondsSince(start);
  }
  return median(waits);
}

} // namespace

llvm::Expected<std::vector<NodeProfile>> profileNodes(const Graph &graph, Executor &executor,
                                                      Device &device, const ProfileOptions &o) {
  std::vector<NodeProfile> profile(graph.numNodes());
  std::vector<std::vector<double>> seconds(graph.numNodes()); // by node and step
  size_t done = 0;
  for (int step = 0; step <= o.steps; ++step) {
    auto wait = secondsOfAWait(device);
    if (!wait)
      return wait.takeError();
    Clock::time_point last = Clock::now();
    auto note = [&](const Executor::NodeRun &run) {
      const double taken = std::max(0.0, secondsSince(last) - *wait);
      profile[run.node.index].liveBytes = run.liveBytes;
      if (step > 0)
        seconds[run.node.index].push_back(taken);
      if (o.progress)
        o.progress(++done);
      last = Clock::now();
    };
    if (llvm::Error e = executor.stepByNode(o.random, note))
      return e;
  }
  for (uint32_t i = 0; i < graph.numNodes(); ++i)
    profile[i].seconds = median(seconds[i]);
  return profile;
}

MeasuredCosts measuredCosts(const Graph &graph, llvm::ArrayRef<NodeProfile> nodes,
                            const Target &target) {
  MeasuredCosts costs;
  costs.target = target.name;
  llvm::StringMap<size_t> runs;
  double measured = 0, estimated = 0;
  for (uint32_t i = 0; i < graph.numNodes(); ++i) {
    const OpCall call = graph.call(NodeId(i));
    const double estimate = target.estimatedSeconds(call);
    if (estimate == 0) // a view, or a transfer, which takes time on the link alone
      continue;
    const std::string key = callKey(call);
    double &mean = costs.seconds[key];
    mean += (nodes[i].seconds - mean) / double(++runs[key]);
    measured += nodes[i].seconds;
    estimated += estimate;
  }
  if (estimated > 0)
    costs.perEstimate = measured / estimated;
  return costs;
}

} // namespace isthmus
