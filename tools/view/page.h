// A page in HTML that shows a step: its live bytes, its arena, its graph.
#pragma once

#include "passes/compile/figures.h"
#include "passes/inspect/same_place.h"
#include "tools/view/step_columns.h"

namespace isthmus {

struct Page {
  std::string title;
  // What the page tells besides the tables: see docs/view.md, "The data of a page".
  nlohmann::ordered_json facts;
  Columns columns;

  // `target`: what sizes and times are meant for; may be empty.
  Page(std::string title, const std::string &model, const std::string &graph,
       const std::string &target);
  // The first step is the one that the page is about, and a second one is drawn beside it. Figures
  // are not told if they are null.
  void add(const std::string &name, StepTable step, Detail detail, const Figures *figures);
  // A step whose columns have the prefix. Returns its facts, to which others may be added.
  nlohmann::ordered_json &add(const std::string &name, const std::string &prefix, StepTable step,
                              Detail detail, nlohmann::ordered_json figures);
  // Where the two steps are equally far.
  void add(llvm::ArrayRef<SamePlace> same);
};

// The figures of a report, without the time that the search took, so that the same plan gives the
// same page.
nlohmann::ordered_json timelessFigures(const Figures &f);

// One file. It loads nothing from elsewhere, and says so to the browser, which then refuses any
// request. Text of the model is in the compressed data alone, never in markup, but for the title,
// which is escaped.
std::string pageText(const Page &p);

} // namespace isthmus
