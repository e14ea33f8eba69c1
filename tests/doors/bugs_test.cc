// A bug of the library becomes a status, whichever frame it occurs in, and the next call works.

#include "ir/check.h"
#include "tools/c/guarded.h"
#include "llvm/Support/ErrorHandling.h"
#include "gtest/gtest.h"
#include <cassert>

// Frames between the bug and the called function are lost, and so is what they own.
extern "C" const char *__asan_default_options() { return "detect_leaks=0"; }

namespace isthmus::c {
namespace {

template <typename Body>
std::string bugIn(Body body, isthmus_status expected = ISTHMUS_INTERNAL) {
  isthmus_error *error = nullptr;
  const isthmus_status status = guarded(&error, [&] {
    body();
    return ISTHMUS_OK;
  });
  EXPECT_EQ(status, expected);
  std::string message = isthmus_error_message(error);
  isthmus_error_free(error);
  EXPECT_EQ(guarded(nullptr, [] { return ISTHMUS_OK; }), ISTHMUS_OK);
  return message;
}

bool isRight(int x) { return x < 0; }

void assertAmongOwners(int x) {
  std::string owned(1000, 'x'); // something to clean up, so that the frame has tables of its own
  assert(isRight(x) && "of a frame that owns something");
  owned += "y";
}

void assertWhereNothingMayBeThrown(int x) noexcept { assert(isRight(x) && "of a noexcept frame"); }
void checkWhereNothingMayBeThrown(int x) noexcept { ISTHMUS_CHECK(isRight(x), "a check"); }
void throwIfWrong(int x) {
  if (!isRight(x))
    throw std::bad_alloc();
}
void throwWhereNothingMayBeThrown(int x) noexcept { throwIfWrong(x); }

TEST(Bugs, AreStatuses) {
  EXPECT_NE(bugIn([] { assertAmongOwners(1); }).find("of a frame that owns something"),
            std::string::npos);
  EXPECT_NE(bugIn([] { assertWhereNothingMayBeThrown(1); }).find("of a noexcept frame"),
            std::string::npos);
  EXPECT_EQ(bugIn([] { checkWhereNothingMayBeThrown(1); }).find("internal: a check (isRight(x)"),
            0u);
  EXPECT_NE(bugIn([] { throwWhereNothingMayBeThrown(1); }).find("lets none out"),
            std::string::npos);
  EXPECT_EQ(bugIn([] { llvm::report_fatal_error("of LLVM"); }), "internal: of LLVM");
  EXPECT_EQ(bugIn([] { llvm::report_bad_alloc_error("of LLVM"); }, ISTHMUS_OUT_OF_MEMORY),
            "there is no memory left");
  EXPECT_EQ(bugIn([] { throw std::bad_alloc(); }, ISTHMUS_OUT_OF_MEMORY),
            "there is no memory left");
  EXPECT_EQ(bugIn([] { throw std::length_error("too long"); }), "internal: too long");
}

// A program's progress function may call the library.
TEST(Bugs, LeadToTheInnermostCall) {
  isthmus_error *outer = nullptr;
  const isthmus_status status = guarded(&outer, [&] {
    EXPECT_NE(bugIn([] { assertAmongOwners(1); }), "");
    ISTHMUS_CHECK(isRight(1), "of the outer call");
    return ISTHMUS_OK;
  });
  EXPECT_EQ(status, ISTHMUS_INTERNAL);
  EXPECT_NE(std::string(isthmus_error_message(outer)).find("of the outer call"), std::string::npos);
  isthmus_error_free(outer);
}

TEST(BugsDeathTest, EndTheProcessWhereNoFunctionOfTheLibraryRuns) {
  EXPECT_EQ(guarded(nullptr, [] { return ISTHMUS_OK; }), ISTHMUS_OK);
  EXPECT_DEATH(assertAmongOwners(1), "of a frame that owns something");
}

} // namespace
} // namespace isthmus::c
