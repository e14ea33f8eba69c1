// Tests which paths of a command are the same file, and which of them are an error.

#include "tools/cli/exit.h"
#include "tools/cli/paths.h"

#include "ir/file.h"
#include "llvm/Support/FileSystem.h"
#include <gtest/gtest.h>
#include <unistd.h>

using namespace isthmus;

namespace {

class Paths : public testing::Test {
protected:
  void SetUp() override {
    llvm::SmallString<128> made;
    ASSERT_FALSE(llvm::sys::fs::createUniqueDirectory("isthmus", made));
    folder = made.str().str();
    EXPECT_FALSE(writeFileAtomically(in("model"), "m"));
    EXPECT_EQ(::symlink("model", in("link").c_str()), 0);
    EXPECT_EQ(::symlink("new", in("dangling").c_str()), 0);
  }
  void TearDown() override { llvm::sys::fs::remove_directories(folder); }
  std::string in(const char *name) const { return folder + "/" + name; }

  // The exit code of the check; 0 if there is no error.
  static int codeOf(const CommandPaths &paths) {
    int code = 0;
    llvm::handleAllErrors(paths.check(), [&](const DiagError &e) { code = exitCodeOf(e); });
    return code;
  }

  std::string folder;
};

TEST_F(Paths, AnOutputIsNoInput) {
  for (const char *name : {"model", "link", "../model", "none"}) {
    CommandPaths paths;
    paths.reads("MODEL", in("model"));
    paths.writes("--report", in(name));
    bool isModel = name != std::string("../model") && name != std::string("none");
    EXPECT_EQ(codeOf(paths), isModel ? 2 : 0) << name;
  }
}

TEST_F(Paths, AnOutputIsNoOtherOutput) {
  for (auto [first, second, code] : {std::tuple("new", "new", 2),
                                     {"new", "dangling", 2},
                                     {"model", "link", 2},
                                     {"new", "newer", 0},
                                     {"a", "b", 0}}) {
    CommandPaths paths;
    paths.writes("-o", in(first));
    paths.writes("--report", in(second));
    EXPECT_EQ(codeOf(paths), code) << first << " and " << second;
  }
}

TEST_F(Paths, TheErrorNamesBoth) {
  CommandPaths paths;
  paths.reads("MODEL", in("model"));
  paths.writes("--report", in("link"));
  EXPECT_EQ(llvm::toString(paths.check()), "error: --report would write '" + in("link") +
                                               "', which is also read, as MODEL ('" + in("model") +
                                               "'); give it another name");
}

TEST_F(Paths, WhatKeepsNothingLosesNothing) {
  CommandPaths paths;
  paths.reads("MODEL", "/dev/null");
  paths.writes("-o", "/dev/null");
  paths.writes("--report", "/dev/null");
  paths.writes("--dot", "");
  paths.writes("--curve", "");
  EXPECT_EQ(codeOf(paths), 0);
  paths.writes("--curve", "-");
  EXPECT_EQ(codeOf(paths), 0);
  paths.writes("--dot", "-");
  EXPECT_EQ(codeOf(paths), 2);
}

TEST_F(Paths, WhatCannotBeWrittenIsToldBefore) {
  CommandPaths taken, missing, made;
  taken.writes("-o", folder);
  EXPECT_EQ(codeOf(taken), 1);
  missing.writes("-o", in("no/such"));
  EXPECT_EQ(codeOf(missing), 1);
  made.writesFolder("--outputs", in("out"));
  made.writes("--outputs", in("out/y.npy"));
  EXPECT_EQ(codeOf(made), 0);
  made.writes("--report", in("out/y.npy"));
  EXPECT_EQ(codeOf(made), 2);
}

} // namespace
