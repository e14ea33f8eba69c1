// The interface of a verb. This is the only header that includes CLI11.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/cli/optimizer_flags.h"
#include "tools/cli/options.h"

namespace isthmus {

// Options that several verbs take, with their help texts.
void addModelOptions(CLI::App &verb, ModelOptions &o);
void addPlanFlags(CLI::App &verb, PlanFlags &o);
// Takes texts of --batch or --whole (parseBatchRequest). Errors: CLI::ValidationError.
void takeBatch(const char *option, llvm::ArrayRef<std::string> texts, PlanFlags &o);
// -o and --weights; `what` is the product: "the inverse".
void addGraphProduct(CLI::App &verb, const std::string &what, GraphProduct &product);
// `doc` follows the names of the optimizers. The value that --optimizer has before parsing is its
// default.
void addOptimizerFlags(CLI::App &verb, OptimizerFlags &f, const char *doc);
CLI::Option *addEffortOption(CLI::App &verb, double &effort);
// A file or a folder; an empty name is an error.
CLI::Option *addPathOption(CLI::App &verb, const std::string &names, std::string &path,
                           const std::string &doc);
// Validators: a whole number from 1 on; one from 0 on; a number from 0 on; a number of threads that
// a machine can start; any number of 64 bits without a sign.
CLI::Validator positiveInteger();
CLI::Validator nonNegativeInteger();
CLI::Validator nonNegativeNumber();
CLI::Validator threadCount();
CLI::Validator seedNumber();

// A verb: `setUp` registers its options on `app` and returns the function that runs it.
using VerbBody = std::function<llvm::Error()>;
struct Verb {
  const char *name;
  const char *doc;     // one line
  const char *example; // a command, or a few, one a line; shown by --help
  VerbBody (*setUp)(CLI::App &app);
};

} // namespace isthmus
