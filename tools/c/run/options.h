// Checks the options of sessions and targets.
#pragma once

#include "tools/c/guarded.h"
#include "tools/c/run/isthmus_run.h"

namespace isthmus::c {

isthmus_status checkOptions(const isthmus_run_options *options, isthmus_run_error **error);

} // namespace isthmus::c
