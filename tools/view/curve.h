// The curve of budgets: what smaller and smaller peaks cost.
#pragma once

#include "passes/compile/figures.h"
#include "tools/view/page.h"

namespace isthmus {

// Sets the page's facts `knee`, and `curve`: points from the highest peak down, by what is known of
// the plan, and those of `others` that are better than these.
void addCurve(Page &page, const Figures &f, const std::vector<plan::PricePoint> &others);

} // namespace isthmus
