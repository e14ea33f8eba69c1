// A sweep as a drawing, and as a page with the drawing and its figures.
#pragma once

#include "tools/sweep/row.h"

namespace isthmus {

std::string pictureText(const SweepTable &t); // SVG
std::string pageText(const SweepTable &t);    // HTML that loads nothing

} // namespace isthmus
