// Every block marked `isth` in the docs must be a legal graph that is unchanged by printing.

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "ir/verifier.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

// The blocks of a page. Each is preceded by as many newlines as the page has lines above it, so
// that diagnostics name the page's lines.
std::vector<std::string> blocksOf(llvm::StringRef page) {
  std::vector<std::string> out;
  std::string above;
  bool inside = false;
  while (!page.empty()) {
    auto [line, rest] = page.split('\n');
    page = rest;
    if (line.startswith("```")) {
      inside = !inside && line == "```isth";
      if (inside)
        out.push_back(above);
    } else if (inside) {
      out.back() += line.str() + "\n";
    }
    above += "\n";
  }
  return out;
}

TEST(Docs, IsthBlocksAreLegal) {
  size_t blocks = 0;
  std::error_code ec;
  for (llvm::sys::fs::directory_iterator i("docs", ec), end; i != end && !ec; i.increment(ec)) {
    if (!llvm::StringRef(i->path()).endswith(".md"))
      continue;
    auto page = llvm::MemoryBuffer::getFile(i->path());
    ASSERT_TRUE(bool(page)) << i->path();
    for (const std::string &block : blocksOf((*page)->getBuffer())) {
      ++blocks;
      auto g = parseGraph(block, i->path());
      ASSERT_TRUE(bool(g)) << llvm::toString(g.takeError());
      EXPECT_EQ(llvm::toString(verify(*g)), "");
      auto back = parseGraph(graphText(*g), "printed");
      ASSERT_TRUE(bool(back)) << llvm::toString(back.takeError());
      EXPECT_TRUE(equalGraphs(*g, *back));
    }
  }
  ASSERT_FALSE(ec) << ec.message();
  EXPECT_GE(blocks, 5u);
}

// The diagnostic that docs/language.md shows is what the parser gives.
TEST(Docs, TheDiagnosticIsAsShown) {
  auto g = parseGraph("isthmus 1\ngraph @mlp {\n  input %x : f32[8, 16]\n  param %w : f32[32, 4]\n"
                      "  %h = matmul(%x, %w)\n}\n",
                      "mlp.isth");
  ASSERT_FALSE(bool(g));
  std::string shown = "\n";
  for (char c : llvm::toString(g.takeError()) + "\n")
    shown += shown.back() == '\n' ? std::string("    ") + c : std::string(1, c);
  auto page = llvm::MemoryBuffer::getFile("docs/language.md");
  ASSERT_TRUE(bool(page));
  EXPECT_TRUE((*page)->getBuffer().contains(shown)) << shown;
}

} // namespace
