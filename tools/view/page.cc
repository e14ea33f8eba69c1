#include "tools/view/page.h"

#include "passes/compile/figures_json.h"
#include "passes/inspect/markup.h"
#include "tools/view/page_parts.h"

namespace isthmus {

using Json = nlohmann::ordered_json;

static llvm::StringRef kindText(size_t kind) {
  static constexpr llvm::StringRef kOfAllocator[] = {"allocated", "freed, awaits a stream",
                                                     "reserved, unused"};
  static_assert(kNumLiveKinds + std::size(kOfAllocator) == kNumBlockKinds);
  return kind < kNumLiveKinds ? liveKindText(LiveKind(kind)) : kOfAllocator[kind - kNumLiveKinds];
}

Page::Page(std::string title, const std::string &model, const std::string &graph,
           const std::string &target)
    : title(std::move(title)) {
  facts["schema"] = "isthmus.view/1";
  facts["model"] = model;
  facts["graph"] = graph;
  facts["target"] = target;
  facts["budget_bytes"] = nullptr;
  facts["figures"] = nullptr;
  facts["kinds"] = Json::array();
  for (size_t k = 0; k < kNumBlockKinds; ++k)
    facts["kinds"].push_back(kindText(k).str());
  facts["stand_ins"] = Json::array();
  for (size_t k = 0; k < kNumStandIns; ++k)
    facts["stand_ins"].push_back(standInName(StandIn(k)).str());
  facts["steps"] = Json::array();
}

Json timelessFigures(const Figures &f) {
  Json j = figuresJson(f);
  j.erase("plan_seconds");
  return j;
}

void Page::add(const std::string &name, StepTable step, Detail detail, const Figures *figures) {
  const bool isFirst = facts["steps"].empty();
  const Json &told = add(name, isFirst ? "a." : "b.", std::move(step), detail,
                         figures ? timelessFigures(*figures) : Json());
  if (isFirst)
    facts["figures"] = told["figures"];
}

Json &Page::add(const std::string &name, const std::string &prefix, StepTable step, Detail detail,
                Json figures) {
  Json told = addStep(columns, prefix, std::move(step), detail);
  told["name"] = name;
  told["prefix"] = prefix;
  told["is_whole"] = detail == Detail::Whole;
  told["figures"] = std::move(figures);
  facts["steps"].push_back(std::move(told));
  return facts["steps"].back();
}

void Page::add(llvm::ArrayRef<SamePlace> same) {
  columns.delta("same.a", same.size(), [&](size_t i) { return same[i].a; });
  columns.delta("same.b", same.size(), [&](size_t i) { return same[i].b; });
}

// Puts `text` in place of `mark`, which `page` has once.
static void fill(std::string &page, llvm::StringRef mark, llvm::StringRef text) {
  page.replace(page.find(mark.str()), mark.size(), text.str());
}

std::string pageText(const Page &p) {
  std::string page = kPageHtml;
  fill(page, "{{title}}", markupText(p.title));
  fill(page, "{{style}}", kPageStyle);
  fill(page, "{{script}}", kPageScript);
  fill(page, "{{data}}", base64(deflated(p.columns.packed(p.facts))));
  return page;
}

} // namespace isthmus
