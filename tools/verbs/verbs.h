// The verbs of the command line, one file each.
#pragma once

#include "tools/cli/verb.h"

namespace isthmus {

extern const Verb kOpt, kRun, kTrain, kPlan, kExplain, kProfile, kVerify, kGrad, kInvert, kImport,
    kZoo, kDot, kViewVerb, kSweep, kOps, kDevices, kSelftest;

} // namespace isthmus
