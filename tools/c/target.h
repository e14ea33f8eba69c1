// The machine that a program compiles for, from its functions and its text.
#pragma once

#include "passes/compile/compile.h"
#include "tools/c/isthmus.h"

namespace isthmus::c {

// `given` may be null: a common machine without workspaces. Errors: malformed text.
llvm::Expected<Target> targetOf(const isthmus_target *given);

// The target's function for first steps; it has one. The graph goes to it in a file of a temporary
// folder, with its weights.
FirstStep firstStepOf(const isthmus_target &target, uint64_t seed);

} // namespace isthmus::c
