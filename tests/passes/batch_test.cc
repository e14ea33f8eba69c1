// The zoo builds its models for any number of examples; its graphs are the expected results.

#include "passes/lower/batch.h"

#include "ir/equal_graphs.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "tools/zoo/zoo.h"
#include "llvm/Support/FormatVariadic.h"
#include <gtest/gtest.h>
#include <map>
#include <regex>

namespace isthmus {
namespace {

// The factors of a model's own loss depend on the number of examples; a factor of 1 is not printed.
std::string textWithoutFactors(const Graph &g) {
  const std::regex factors(" \\{scale = [^,}]*(, shift = [^,}]*)?\\}");
  return std::regex_replace(graphText(g), factors, "");
}

TEST(Batch, EveryModelOfTheZoo) {
  const std::map<std::string, ZooOptions> small = {
      {"gpt2", {{"depth", "1"}, {"width", "8"}, {"heads", "2"}, {"tokens", "4"}, {"vocab", "9"}}},
      {"resnet", {{"depth", "8"}}},
      {"revnet", {{"depth", "1"}}},
      {"irevnet", {{"depth", "1"}}},
      {"iresnet", {{"depth", "1"}}},
      {"realnvp", {{"depth", "2"}, {"width", "4"}}},
      {"glow", {{"depth", "2"}, {"width", "4"}}},
      {"nice", {{"width", "8"}}}};
  for (const ZooModel &model : zooModels()) {
    auto it = small.find(model.name);
    ZooOptions options = it == small.end() ? ZooOptions() : it->second;
    // In some models 3 and 4 are also sizes that do not depend on the batch.
    for (auto [from, to] : {std::pair("3", "7"), {"4", "1"}, {"1", "6"}, {"32", "33"}}) {
      options["batch"] = from;
      const Graph g = llvm::cantFail(buildZoo(model.name, options));
      options["batch"] = to;
      const Graph want = llvm::cantFail(buildZoo(model.name, options));
      auto got = withBatch(g, atoi(to));
      ASSERT_TRUE(bool(got)) << model.name << ": " << llvm::toString(got.takeError());
      const std::string what = model.name + ", " + from + " to " + to + ": ";
      ASSERT_EQ(got->numValues(), want.numValues()) << what;
      for (uint32_t i = 0; i < want.numValues(); ++i) {
        const llvm::StringRef name = want.valueName(ValueId(i));
        const ValueId same = got->find(name);
        ASSERT_TRUE(same) << what << name.str();
        EXPECT_EQ(got->type(same).str(), want.type(ValueId(i)).str()) << what << name.str();
      }
      std::string why;
      if (want.loss)
        EXPECT_EQ(textWithoutFactors(*got), textWithoutFactors(want)) << what;
      else
        EXPECT_TRUE(equalGraphs(*got, want, &why)) << what << why;
    }
  }
}

std::string failure(llvm::StringRef text, int64_t batch) {
  auto g = parseGraph(text, "g.isth");
  EXPECT_TRUE(bool(g));
  auto got = withBatch(*g, batch);
  return got ? "no error" : llvm::toString(got.takeError());
}

TEST(Batch, WhatCannotBe) {
  const std::string table = failure(R"(isthmus 2
graph @g {
  input %x : f32[4, 3]
  param %position : f32[4, 3]
  %y = add(%x, %position)
  output %y
}
)",
                                    8);
  EXPECT_NE(table.find("g.isth:5"), std::string::npos) << table;
  EXPECT_NE(failure("isthmus 2\ngraph @g {\n  input %x : f32[]\n  output %x\n}\n", 8)
                .find("no input of the graph has a first size"),
            std::string::npos);
  EXPECT_NE(failure("isthmus 2\ngraph @g {\n  input %x : f32[1, 1048576]\n  output %x\n}\n",
                    int64_t(1) << 50)
                .find("over 2^60 bytes"),
            std::string::npos);
}

// Sizes of broadcasts, draws, slices and reshapes that follow the examples are changed. Other
// inputs are not, and neither is the reshape of a weight, although a size of the weight equals the
// batch.
TEST(Batch, SizesThatAreSpelledOut) {
  auto text = [](int examples) {
    return llvm::formatv(R"(isthmus 2
graph @g {{
  input %x : f32[{0}, 6]
  input %other : f32[3, 6]
  param %b : f32[6]
  param %w : f32[4, 6]
  %noise = uniform() {{dims = [{0}, 6], stream = 2}
  %all = broadcast(%b) {{dims = [{0}, 6]}
  %t = add(%x, %all)
  %s = add(%t, %noise)
  %part = slice(%s) {{starts = [0, 2], limits = [{0}, 5]}
  %flat = reshape(%part) {{dims = [{1}]}
  %v = reshape(%w) {{dims = [4, 3, 2]}
  output %flat
  output %v
  output %other
}
)",
                         examples, 3 * examples)
        .str();
  };
  const Graph want = llvm::cantFail(parseGraph(text(9), "g.isth"));
  std::string why;
  EXPECT_TRUE(equalGraphs(
      llvm::cantFail(withBatch(llvm::cantFail(parseGraph(text(4), "g.isth")), 9)), want, &why))
      << why;
}

TEST(Batch, DifferentiatedGraphs) {
  auto g =
      parseGraph("isthmus 2\ngraph @g {\n  input %x : f32[4]\n  %y = exp(%x) backward\n  output "
                 "%y\n}\n",
                 "g.isth");
  ASSERT_TRUE(bool(g)) << llvm::toString(g.takeError());
  auto got = withBatch(*g, 8);
  ASSERT_FALSE(bool(got));
  EXPECT_NE(llvm::toString(got.takeError()).find("the forward graph that they were made of"),
            std::string::npos);
}

} // namespace
} // namespace isthmus
