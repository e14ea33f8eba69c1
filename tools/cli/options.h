// Options that verbs share. docs/ and CONTRACT-level help texts come from what is registered here.
#pragma once

#include "CLI/CLI.hpp"
#include "ir/diagnostics.h"
#include "ir/type.h"
#include <map>
#include <string>
#include <vector>

namespace isthmus {

struct ModelOptions {
  std::string model; // path, or "-"
  std::string loss;  // empty: what the file names
  int64_t classAxis = 1;
  std::string wrt; // empty: params
  std::vector<std::string> dims;
  bool eval = false, asWritten = false;
  uint64_t seed = 0;
  int threads = 0; // 0: one for each core
  std::string precision; // empty: as the model has it
  std::string progress = "auto";
};

struct PlanOptions {
  std::string policy; // empty: none
  std::string checkpoints;
  bool checkpointsGiven = false;
  bool any() const { return !policy.empty() || checkpointsGiven; }
};

void addModelOptions(CLI::App &verb, ModelOptions &o);
void addPlanOptions(CLI::App &verb, PlanOptions &o);

// Checks that need more than one option at a time, and sets the console's progress. Errors have exit code 2.
llvm::Error checkOptions(const ModelOptions &o);
llvm::Error checkOptions(const PlanOptions &o);

// {"N": 8} from {"N=8"}.
llvm::Expected<std::map<std::string, int64_t>> dimBindings(const ModelOptions &o);

// A verb: registers its options on `app`, and gives what runs when it is called.
using VerbBody = std::function<llvm::Error()>;
struct Verb {
  const char *name;
  const char *doc;     // one line
  const char *example; // one command, shown by --help
  VerbBody (*setUp)(CLI::App &app);
};

} // namespace isthmus
