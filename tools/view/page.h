// A page in HTML that shows a step: its live bytes, its arena, its graph.
#pragma once

#include "tools/view/step_columns.h"

namespace isthmus {

struct Page {
  std::string title;
  // What the page tells besides the tables: see docs/view.md, "The data of a page".
  nlohmann::ordered_json facts;
  Columns columns;
};

// One file. It loads nothing from elsewhere, and says so to the browser, which then refuses any
// request. Text of the model is in the compressed data alone, never in markup, but for the title,
// which is escaped.
std::string pageText(const Page &p);

} // namespace isthmus
