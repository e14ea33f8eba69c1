// A target as text, for programs that plan for a machine on which they do not run.
//
// {"schema": "isthmus.target/1", "name": "cpu avx2 threads=2", "device_kind": "cpu",
//  "alignment": 64, "fuses_bias": true,
//  "flops_per_second": 2e11, "bytes_per_second": 3e10, "launch_seconds": 1e-6,
//  "contraction_flops_per_second": {"bf16": 4e11}, "link_bytes_per_second": 5e9,
//  "channels_last": ["f32"]}
//
// "schema" and "name" must be there; every other key has the default of ir/target.h. The text has
// no workspaces and no measured costs.
#pragma once

#include "ir/target.h"

namespace isthmus {

std::string targetText(const Target &t);

// Errors: malformed text; an unknown key; a rate, size or type that is none.
llvm::Expected<Target> parseTarget(llvm::StringRef text);

} // namespace isthmus
