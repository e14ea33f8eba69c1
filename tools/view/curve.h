// The curve of budgets: what smaller and smaller peaks cost.
#pragma once

#include "passes/compile/figures.h"
#include "tools/view/page.h"

namespace isthmus {

// Sets the page's fact `curve`: points from the highest peak down, by what is known of the plan,
// and `others`. Sets `knee` too, if the page has none and `others` bend.
void addCurve(Page &page, const Figures &f, std::vector<plan::PricePoint> others = {});

} // namespace isthmus
