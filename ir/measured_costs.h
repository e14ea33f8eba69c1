// The text of measured costs of a device's calls: `profile` writes it, --costs and programs give
// it.
//
// {"schema": "isthmus.costs/1", "target": "cpu avx512 threads=2", "per_estimate": 1.3,
//  "ops": {"relu(f32[2, 3]) : (f32[2, 3])": 0.7}}
//
// Costs are microseconds by callKey (op_def.h). `per_estimate` is the time of a call that the text
// lacks, as a multiple of its roofline estimate.
#pragma once

#include "ir/target.h"

namespace isthmus {

std::string costsText(const MeasuredCosts &costs);

// Errors: malformed text; a cost that is not a time.
llvm::Expected<std::shared_ptr<const MeasuredCosts>> parseCosts(llvm::StringRef text);
// The same for a file, with its path in errors.
llvm::Expected<std::shared_ptr<const MeasuredCosts>> readCosts(const std::string &path);

} // namespace isthmus
