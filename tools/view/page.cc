#include "tools/view/page.h"

#include "passes/inspect/markup.h"
#include "tools/view/page_parts.h"

namespace isthmus {

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
