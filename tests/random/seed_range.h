// The seeds of the graphs that a test draws, as its command line gives them.
#pragma once

#include "gtest/gtest.h"
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace isthmus {

// Runs all tests, and returns the exit status. Reads --graphs=N and --first=SEED before; an unknown
// argument is exit 2.
inline int runTestsOfSeeds(int argc, char **argv, uint64_t &numGraphs, uint64_t &firstSeed) {
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.rfind("--graphs=", 0) == 0)
      numGraphs = std::strtoull(arg.c_str() + 9, nullptr, 10);
    else if (arg.rfind("--first=", 0) == 0)
      firstSeed = std::strtoull(arg.c_str() + 8, nullptr, 10);
    else {
      std::fprintf(stderr, "unknown argument '%s', expected --graphs=N or --first=SEED\n", argv[i]);
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}

} // namespace isthmus
