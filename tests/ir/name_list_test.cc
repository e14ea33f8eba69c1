// Tests of name patterns.
#include "ir/name_list.h"
#include <gtest/gtest.h>

namespace isthmus {
namespace {

bool matches(const char *list, llvm::StringRef name) {
  return matchesAny(parseNameList(list), name);
}

TEST(NameList, StarsAndQuestionMarks) {
  EXPECT_TRUE(matches("block*", "block"));
  EXPECT_TRUE(matches("block*.?", "block12.w"));
  EXPECT_FALSE(matches("block*.?", "block12.ww"));
  EXPECT_TRUE(matches("*a*b", "xaab"));
  EXPECT_FALSE(matches("?", ""));
  EXPECT_FALSE(matches("block*", "a.block"));
  EXPECT_TRUE(matches("%x , y", "y"));
}

// Characters that are special in other pattern languages are plain characters here.
TEST(NameList, OnlyStarsAndQuestionMarksAreWild) {
  EXPECT_TRUE(matches("layers[0]*", "layers[0].weight"));
  EXPECT_FALSE(matches("layers[0]*", "layers0.weight"));
  EXPECT_TRUE(matches("a\\b*", "a\\bc"));
  EXPECT_TRUE(matches("\"a*,b\"", "a*,b"));
  EXPECT_FALSE(matches("\"a*,b\"", "ax,b"));
}

// The time of a match grows with the product of the two lengths; it is not exponential.
TEST(NameList, ManyStarsTakeNoTime) {
  std::string pattern, name(2000, 'a');
  for (int i = 0; i < 40; ++i)
    pattern += "a*";
  EXPECT_FALSE(matches((pattern + "b").c_str(), name));
  EXPECT_TRUE(matches(pattern.c_str(), name));
}

} // namespace
} // namespace isthmus
