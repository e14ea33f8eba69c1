// Reads any bytes as a schedule. The result is an error that names the file, or a schedule that is
// unchanged by printing and parsing and that can be judged. A valid schedule reads nothing that was
// overwritten.
//
// FUZZ: sources=passes/cheapest_steps.cc passes/inspect/joint_graph.cc passes/plan/**/*.cc

#include "ir/check.h"
#include "ir/diagnostics.h"
#include "passes/inspect/joint_graph.h"

#include <algorithm>

using namespace isthmus;

namespace {

constexpr const char *kProblem = R"({"format": "joint-graph/2", "name": "g", "nodes": [
  {"id": 0, "inputs": [], "bytes": 8, "cost": 0, "persistent": true},
  {"id": 1, "inputs": [0], "bytes": 64, "cost": 3},
  {"id": 2, "inputs": [1], "bytes": 32, "cost": 2},
  {"id": 3, "inputs": [2], "bytes": 0, "view": true, "cost": 0},
  {"id": 4, "inputs": [3], "out_bytes": [16, 8], "bytes": 24, "cost": 2},
  {"id": 5, "inputs": [1, 4], "bytes": 16, "cost": 1, "recomputable": false},
  {"id": 6, "inputs": [0], "bytes": 0, "view": true, "cost": 0},
  {"id": 7, "inputs": [6, 5], "bytes": 8, "cost": 1},
  {"id": 8, "phase": "update", "inputs": [7, 0], "bytes": 0, "cost": 1, "recomputable": false,
   "overwrites": [1]}], "outputs": [5, 8]})";
// The op that overwrites op 0, and the ops that read op 0: two directly and one through a view.
constexpr plan::OpIndex kUpdate = 8, kReaders[] = {1, 6, 7};

const plan::Problem &problem() {
  static const JointGraph g = llvm::cantFail(parseJointGraph(kProblem, "problem"));
  return g.problem;
}

void checkOverwrites(const plan::Schedule &s) {
  const auto update = std::find(s.begin(), s.end(), kUpdate);
  ISTHMUS_CHECK(std::count(s.begin(), s.end(), kUpdate) == 1, "an update does not run once");
  for (plan::OpIndex reader : kReaders)
    ISTHMUS_CHECK(std::find(update, s.end(), reader) == s.end(), "what was overwritten is read");
}

// The live bytes of the steps must have the peak as their maximum.
void checkPeak(const plan::Schedule &s, int64_t peakBytes) {
  std::vector<int64_t> live;
  for (plan::OpIndex i : s)
    live.push_back(problem().rounded(problem().ops[i].workspace));
  const std::vector<plan::Instance> instances = plan::instancesOf(problem(), s);
  for (const plan::Instance &made : instances) {
    for (uint32_t step = made.first; step <= made.last; ++step)
      live[step] += made.bytes;
    if (made.donatedTo != plan::Instance::kNotDonated)
      live[made.last] -= instances[made.donatedTo].bytes;
  }
  const int64_t most = live.empty() ? 0 : *std::max_element(live.begin(), live.end());
  ISTHMUS_CHECK(most == peakBytes, "the peak");
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto s = parseSchedule(text, "fuzz", "g");
  if (!s) {
    std::string message = llvm::toString(s.takeError());
    ISTHMUS_CHECK(message.find("fuzz: ") != std::string::npos, "a message: " + message);
    return 0;
  }
  auto back = parseSchedule(printSchedule("g", *s), "printed", "g");
  ISTHMUS_CHECK(back && *back == *s, "another schedule was read back");
  plan::Evaluation e = plan::evaluate(problem(), *s);
  if (!e.error.empty())
    return 0;
  checkOverwrites(*s);
  checkPeak(*s, e.peakBytes);
  return 0;
}
