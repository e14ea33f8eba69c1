// Reads any bytes as a graph. The result is an error with located diagnostics, or a legal graph
// that is unchanged by printing and parsing.

#include "ir/check.h"
#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"

using namespace isthmus;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  llvm::StringRef text(reinterpret_cast<const char *>(data), size);
  auto g = parseGraph(text, "fuzz");
  if (!g) {
    llvm::handleAllErrors(g.takeError(), [&](const DiagError &e) {
      ISTHMUS_CHECK(!e.diags.empty() && e.diags.size() <= 21, "number of diagnostics");
      for (const Diag &d : e.diags)
        ISTHMUS_CHECK(llvm::StringRef(d.where).startswith("fuzz:") && !d.message.empty(),
                      "a diagnostic's place");
    });
    return 0;
  }
  if (llvm::Error e = verify(*g))
    ISTHMUS_CHECK(false, "read an illegal graph: " + llvm::toString(std::move(e)));
  std::string printed = graphText(*g);
  auto back = parseGraph(printed, "printed");
  if (!back)
    ISTHMUS_CHECK(false, "what was printed does not parse: " + llvm::toString(back.takeError()));
  std::string reason;
  ISTHMUS_CHECK(equalGraphs(*g, *back, &reason), "graphs differ: " + reason);
  ISTHMUS_CHECK(graphText(*back) == printed, "texts differ");
  return 0;
}
