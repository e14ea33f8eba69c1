// An internal error ends the command line with exit code 5, and saves the graph for a report.

#include "ir/check.h"
#include "ir/text/parser.h"
#include "ir/text/printer.h"
#include "tools/cli/bug.h"
#include "tools/cli/exit.h"
#include "llvm/Support/MemoryBuffer.h"
#include "gtest/gtest.h"
#include <cstdlib>

namespace isthmus {
namespace {

const char *const kText = "isthmus 2\ngraph @odd {\n  input %x : f32[2]\n"
                          "  %y = exp(%x) : f32[2]\n  output %y\n}\n";

// The folder in which graphs are saved.
const bool kIsSet = setenv("TMPDIR", testing::TempDir().c_str(), /*overwrite=*/1) == 0;

// Returns the path in the message "the graph was saved as 'PATH'".
std::string savedAs(llvm::StringRef talk) {
  return talk.split("the graph was saved as '").second.split('\'').first.str();
}

TEST(Bug, IsAnErrorWithTheGraph) {
  ASSERT_TRUE(kIsSet);
  Graph g = llvm::cantFail(parseGraph(kText, "odd.isth"));
  GraphAtHand atHand(g);
  std::string talk = llvm::toString(withSavedGraph(internalError("it is odd")));
  auto saved = llvm::MemoryBuffer::getFile(savedAs(talk));
  ASSERT_TRUE(bool(saved)) << talk;
  EXPECT_EQ((*saved)->getBuffer(), kText);
  EXPECT_EQ(talk.find("--"), std::string::npos);
}

TEST(Bug, OtherErrorsSaveNothing) {
  Graph g = llvm::cantFail(parseGraph(kText, "odd.isth"));
  GraphAtHand atHand(g);
  EXPECT_EQ(llvm::toString(withSavedGraph(makeError("a bad file"))), "error: a bad file");
}

TEST(BugDeathTest, EndsTheProcess) {
  Graph g = llvm::cantFail(parseGraph(kText, "odd.isth"));
  guardBugs();
  GraphAtHand atHand(g);
  EXPECT_EXIT(ISTHMUS_CHECK(g.numNodes() > 7, "too few"), testing::ExitedWithCode(kFailed),
              "error: internal: too few .*numNodes.*\n"
              "note: the graph was saved as '.*isthmus-bug.*\\.isth'\n"
              "note: this is a bug in isthmus; please report it");
}

// Without the command line's handler, the check aborts like an assertion.
TEST(BugDeathTest, AbortsByDefault) {
  setBugHandler(nullptr);
  EXPECT_EXIT(ISTHMUS_CHECK(1 > 7, "odd"), testing::KilledBySignal(SIGABRT),
              "internal: odd \\(1 > 7, at .*bug_test.cc");
}

} // namespace
} // namespace isthmus
