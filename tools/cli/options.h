// Options that verbs share, as values. How they are spelled on the command line is in verb.h.
#pragma once

#include "ir/diagnostics.h"
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace isthmus {

// A precision of products alone: tensors are f32.
constexpr const char *kTf32 = "tf32";

// Where convolutions have their channels; `auto` is what the device is faster with.
constexpr const char *kAutoLayout = "auto", *kFirstLayout = "channels-first",
                     *kLastLayout = "channels-last";

// Words of --allow.
constexpr const char *kRecomputeWay = "recompute", *kInvertWay = "invert", *kFetchWay = "fetch",
                     *kEncodeWay = "encode";

struct ModelOptions {
  std::string model; // path, or "-"
  std::string loss;  // empty: what the file names
  int64_t classAxis = 1;
  std::optional<int64_t> ignoreIndex; // a label that does not count
  std::string wrt;                    // empty: params
  std::string inputs;                 // a folder; empty: none
  std::string load;                   // a file with parameters; empty: none
  std::vector<std::string> dims;
  std::vector<std::string> ties; // "A,B"
  std::string untie;             // names, comma between
  bool eval = false, asWritten = false;
  bool allowOutside = false; // weights may lie outside the model's folder
  uint64_t seed = 0;
  int threads = 0;       // 0: one for each core
  std::string precision; // empty: as the model has it
  std::string layout = kAutoLayout;
  std::string progress = "auto";
};

// Where a graph goes that a verb makes.
struct GraphProduct {
  std::string output, weights; // empty: standard output; beside the graph
};

// Of a fixed point: the graph has nodes for each.
constexpr size_t kMostIterations = 10'000;

// How a plan is chosen, as it was typed.
struct PlanFlags {
  std::string policy; // empty: none
  std::string checkpoints;
  bool checkpointsGiven = false;
  std::string budget, memoryLimit; // empty: none
  double effort = 0;               // 0: by the size of the graph
  std::string costs;               // a file; empty: as estimated
  std::vector<std::string> allow;  // ways for tensors to come back; empty: recompute
  std::string hostMemory, link;    // empty: no bound; as fast as the device says
  std::optional<double> maxInverseError;
  std::optional<size_t> iterations; // of each fixed point; none: these are not used
  bool any() const { return !policy.empty() || checkpointsGiven || hasBudget(); }
  bool hasBudget() const { return !budget.empty() || !memoryLimit.empty(); }
};

// Checks that need more than one option at a time, and sets the console's progress. Errors are
// usage errors.
llvm::Error checkOptions(const ModelOptions &o);
llvm::Error checkOptions(const PlanFlags &o);

// {"A", "B"} from "A,B"; names may stand in quotes.
llvm::Expected<std::vector<std::pair<std::string, std::string>>> tiesOf(const ModelOptions &o);

// {"N": 8} from {"N=8"}.
llvm::Expected<std::map<std::string, int64_t>> dimBindings(const ModelOptions &o);

} // namespace isthmus
