// Options of the zoo's models on the command line.
#pragma once

#include "tools/cli/verb.h"
#include "tools/zoo/zoo.h"

namespace isthmus {

// Adds every option that some model takes, except those that the verb already has. The model checks
// its options when it is built. `options` must outlive the verb.
void addZooOptions(CLI::App &verb, ZooOptions &options, const char *group);

} // namespace isthmus
