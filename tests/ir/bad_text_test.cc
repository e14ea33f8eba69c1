// Checks that each wrong text in bad_text.isth gives exactly the messages that stand above its
// wrong lines.

#include "ir/text/parser.h"
#include "llvm/Support/MemoryBuffer.h"
#include <gtest/gtest.h>

using namespace isthmus;

namespace {

using Found = std::vector<std::pair<unsigned, std::string>>; // line, message

Found expectedIn(llvm::StringRef text) {
  Found out;
  unsigned line = 1;
  while (!text.empty()) {
    auto [first, rest] = text.split('\n');
    text = rest;
    llvm::StringRef message = first.ltrim();
    if (message.consume_front("// error: "))
      out.emplace_back(line + 1, message.str());
    ++line;
  }
  return out;
}

Found foundIn(llvm::StringRef text) {
  Found out;
  auto g = parseGraph(text, "t");
  if (g)
    return out;
  llvm::handleAllErrors(g.takeError(), [&](const DiagError &e) {
    EXPECT_EQ(e.kind, ErrorKind::BadInput);
    for (const Diag &d : e.diags) {
      llvm::StringRef where = d.where;
      unsigned line = 0;
      EXPECT_TRUE(where.consume_front("t:") && !where.consumeInteger(10, line)) << d.where;
      out.emplace_back(line, d.message);
    }
  });
  return out;
}

TEST(BadText, GivesTheseMessages) {
  auto file = llvm::MemoryBuffer::getFile("tests/ir/bad_text.isth");
  ASSERT_TRUE(bool(file)) << file.getError().message();
  llvm::SmallVector<llvm::StringRef, 32> cases;
  (*file)->getBuffer().split(cases, "// -----\n");
  size_t total = 0;
  for (llvm::StringRef text : cases) {
    Found expected = expectedIn(text), found = foundIn(text);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(found, expected) << text.str();
    total += expected.size();
  }
  EXPECT_GE(total, 80u);
}

std::string errorOf(llvm::StringRef text) {
  auto g = parseGraph(text, "mlp.isth");
  return g ? "" : llvm::toString(g.takeError());
}

TEST(BadText, ShowsThePlace) {
  EXPECT_EQ(
      errorOf("isthmus 1\n"
              "graph @g {\n"
              "  input %x : f32[8, 16]\n"
              "  param %w : f32[32, 4] = normal\n"
              "\t%h = add(%x, %w) {}\r\n"
              "  %\"é\" = tanh(%x, %\"é\")\n"
              "}\n"),
      "mlp.isth:5:7: error: 'add' expects shapes that broadcast to one, got 'f32[8, 16]' and "
      "'f32[32, 4]'\n"
      "\t%h = add(%x, %w) {}\n"
      "\t     ^~~~~~~~~~~\n"
      "mlp.isth:3:9: note: '%x' comes from here\n"
      "mlp.isth:4:9: note: '%w' comes from here\n"
      "mlp.isth:6:20: error: no value '%\"é\"' comes before this; did you mean '%w' or '%x'?\n"
      "  %\"é\" = tanh(%x, %\"é\")\n"
      "                  ^~~~");
}

TEST(BadText, ALongLineIsCut) {
  std::string line =
      "  %y = add(%x, %" + std::string(1000, 'a') + ", %" + std::string(1000, 'b') + ")\n";
  std::string text = errorOf("isthmus 1\ngraph @g {\n  input %x : f32[2]\n" + line + "}\n");
  EXPECT_LT(text.size(), 800u) << text;
}

TEST(BadText, StopsAfterTwentyErrors) {
  std::string text = "isthmus 1\ngraph @g {\n";
  for (int i = 0; i < 1000; ++i)
    text += "  %a = b()\n";
  auto g = parseGraph(text, "t");
  ASSERT_FALSE(bool(g));
  llvm::handleAllErrors(g.takeError(), [&](const DiagError &e) {
    ASSERT_EQ(e.diags.size(), 21u);
    EXPECT_EQ(e.diags[20].where, "t:23:8");
    EXPECT_EQ(e.diags[20].message, "more errors from here on; correct those above first");
  });
}

// Deep nesting costs no stack, and sizes that are only declared cost no memory.
TEST(BadText, NothingIsOutOfProportion) {
  EXPECT_NE(errorOf("isthmus 1\ngraph @g {\n  const %a : f32[2] = " + std::string(1 << 20, '[')),
            "");
  EXPECT_NE(
      errorOf("isthmus 1\ngraph @g {\n  %a = affine(%b) {scale = " + std::string(1 << 20, '[')),
      "");
  EXPECT_NE(errorOf("isthmus 1\n" + std::string(1 << 20, '{')), "");
  EXPECT_EQ(errorOf("isthmus 1\ngraph @g {\n  input %a : f32[1000000000000]\n  %b = relu(%a)\n  "
                    "output %b\n}\n"),
            "");
}

} // namespace
