// Options that verbs share, as values. Their spelling on the command line is in verb.h.
#pragma once

#include "ir/diagnostics.h"
#include "passes/checkpoint/policy.h"
#include "passes/chunk/request.h"
#include "passes/compile/budget.h"
#include "passes/compile/compile.h"
#include "llvm/ADT/STLExtras.h"
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace isthmus {

class UnusedDims;

// A precision of matrix products alone: tensors are f32.
constexpr const char *kTf32 = "tf32";

// The place of the channels in convolutions; `auto` is the one with which the device is faster.
constexpr const char *kAutoLayout = "auto", *kFirstLayout = "channels-first",
                     *kLastLayout = "channels-last";

// Words of --allow.
constexpr const char *kRecomputeWay = "recompute", *kInvertWay = "invert", *kFetchWay = "fetch",
                     *kEncodeWay = "encode", *kChunkWay = "chunk";

// Words of --batch-norm.
constexpr const char *kMicroNorm = "micro", *kWholeNorm = "whole";

struct ModelOptions {
  std::string model; // path, or "-"
  std::string loss;  // empty: the loss that the file names
  int64_t classAxis = 1;
  std::optional<int64_t> ignoreIndex; // a label that does not count
  std::string wrt;                    // empty: params
  std::string inputs;                 // a folder; empty: none
  std::string load;                   // a file with parameters; empty: none
  std::vector<std::string> dims;
  std::shared_ptr<UnusedDims> unusedDims; // of a command with two models; else null
  std::vector<std::string> ties;          // "A,B"
  std::string untie;                      // names, comma between
  bool eval = false, asWritten = false;
  bool keepOutputs = false;  // of a model whose loss is of a kind
  bool allowOutside = false; // weights may lie outside the model's folder
  uint64_t seed = 0;
  bool seedGiven = false;
  int threads = 0;       // 0: one for each core
  std::string precision; // empty: as the model has it
  std::string layout = kAutoLayout;
  std::string progress = "auto";
};

// Where a verb writes the graph that it makes.
struct GraphProduct {
  std::string output, weights; // empty: standard output; beside the graph
};

// How to choose a plan.
struct PlanFlags {
  std::optional<Policy> policy;
  std::optional<std::string> checkpoints; // a list of names
  std::optional<int64_t> smallestCheckpoint; // elements; none: kSmallestCheckpoint
  std::optional<Budget> budget;
  std::optional<int64_t> memoryLimit; // bytes
  std::optional<double> maxAdded;     // a share of the step's cost
  double effort = 0;                  // 0: by the size of the graph
  std::string costs;                  // a file; empty: as estimated
  std::vector<std::string> allow;     // words of --allow; empty: recompute
  std::vector<ChunkRequest> chunks;
  std::optional<int64_t> microBatches;
  std::vector<BatchRequest> batch;
  std::string batchNorm; // of micro-batches; empty: whole
  StageOptions stages;
  bool hasStages = false;            // an option asks for them
  std::string machine;               // a file; empty: none
  std::optional<int64_t> hostMemory; // bytes; none: no bound
  std::optional<double> link;        // bytes a second; none: the device's own rate
  std::optional<double> maxInverseError;
  std::optional<size_t> iterations; // of each fixed point; none: no fixed points
  bool isChosen() const { return policy || checkpoints || budget; }
  bool any() const { return plans() || microBatches || hasStages; }
  bool plans() const { return isChosen() || hasBudget() || !chunks.empty(); }
  bool hasBudget() const { return budget || memoryLimit; }
  bool allows(llvm::StringRef way) const { return llvm::is_contained(allow, way); }
};

// Checks that involve several options; also sets the console's progress. Errors are usage errors.
llvm::Error checkOptions(const ModelOptions &o);
llvm::Error checkOptions(const PlanFlags &o);

// {"A", "B"} from "A,B"; names may be quoted.
llvm::Expected<std::vector<std::pair<std::string, std::string>>> tiesOf(const ModelOptions &o);

// {"N": 8} from {"N=8"}.
llvm::Expected<std::map<std::string, int64_t>> dimBindings(const ModelOptions &o);

} // namespace isthmus
