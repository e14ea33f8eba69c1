// What calls took on a device, as a file: `profile` writes it, --costs reads it.
//
// {"schema": "isthmus.costs/1", "target": "cpu avx512 threads=2", "per_estimate": 1.3,
//  "ops": {"relu(f32[2, 3]) : (f32[2, 3])": 0.7}}
//
// Costs are microseconds by callKey (ir/op_def.h), and `per_estimate` is what a call that is not
// there takes, in units of what the roofline says.
#pragma once

#include "ir/target.h"

namespace isthmus {

std::string costsText(const MeasuredCosts &costs);

// Errors, with the path: not such a file; a cost that is no time.
llvm::Expected<std::shared_ptr<const MeasuredCosts>> readCosts(const std::string &path);

} // namespace isthmus
