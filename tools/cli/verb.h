// What a verb is to the command line. The only header that brings CLI11 along.
#pragma once

#include "CLI/CLI.hpp"
#include "tools/cli/options.h"

namespace isthmus {

// Options that several verbs take, with their help texts.
void addModelOptions(CLI::App &verb, ModelOptions &o);
void addPlanOptions(CLI::App &verb, PlanOptions &o);
CLI::Option *addEffortOption(CLI::App &verb, double &effort);

// A verb: registers its options on `app`, and gives what runs when it is called.
using VerbBody = std::function<llvm::Error()>;
struct Verb {
  const char *name;
  const char *doc;     // one line
  const char *example; // one command, shown by --help
  VerbBody (*setUp)(CLI::App &app);
};

} // namespace isthmus
