// Options of the zoo's models on the command line.
#pragma once

#include "tools/cli/verb.h"
#include "tools/zoo/zoo.h"

namespace isthmus {

// Every option that some model takes, but for those that the verb has already; which model takes
// which is checked where it is built. `options` must outlive the verb.
void addZooOptions(CLI::App &verb, ZooOptions &options, const char *group);

} // namespace isthmus
