// Runs a fuzz target as a test, without libFuzzer: its seeds, and a few mutations of each. So every
// target compiles and links where clang is not installed, and an input that once failed stays
// mended.
//
// Usage: replay TARGET    its path without an end: seeds are in TARGET_seeds/, and TARGET_seeds.sh
// writes more

#include "ir/file.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"

#include <cstdlib>
#include <gtest/gtest.h>
#include <random>

// The target's functions, and libFuzzer's that it may call: https://llvm.org/docs/LibFuzzer.html
extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
extern "C" __attribute__((weak)) size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                                                size_t maxSize, unsigned seed);

static std::mt19937 rng(1);

// Changes a byte, or cuts the end off.
extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t) {
  if (size == 0)
    return 0;
  const size_t at = rng() % size;
  if (rng() % 4 == 0)
    return at;
  data[at] = uint8_t(rng());
  return size;
}

namespace {

constexpr size_t kMaxSize = 4096; // as tests/fuzz/run has it
constexpr int kMutations = 50;
std::string target;

std::vector<std::string> filesOf(const std::string &folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (llvm::sys::fs::directory_iterator i(folder, error), end; !error && i != end;
       i.increment(error))
    files.push_back(i->path());
  std::sort(files.begin(), files.end());
  return files;
}

// Returns the paths of all seeds: those that are kept, and those that the target's script writes.
std::vector<std::string> seeds() {
  const std::string script = target + "_seeds.sh", written = testing::TempDir() + "/seeds";
  std::vector<std::string> files = filesOf(target + "_seeds");
  if (!llvm::sys::fs::exists(script))
    return files;
  EXPECT_FALSE(llvm::sys::fs::create_directories(written));
  const std::string command = llvm::formatv("bash '{0}' '{1}'", script, written);
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  for (std::string &file : filesOf(written))
    files.push_back(std::move(file));
  return files;
}

TEST(Replay, SeedsAndMutations) {
  const std::vector<std::string> files = seeds();
  ASSERT_FALSE(files.empty()) << target << " has no seeds";
  const auto mutate = LLVMFuzzerCustomMutator;
  for (const std::string &file : files) {
    SCOPED_TRACE(file);
    auto content = isthmus::readFile(file);
    ASSERT_TRUE(bool(content)) << llvm::toString(content.takeError());
    const std::vector<uint8_t> seed((*content)->getBufferStart(), (*content)->getBufferEnd());
    LLVMFuzzerTestOneInput(seed.data(), seed.size());
    if (seed.size() > kMaxSize)
      continue;
    for (int k = 0; k < kMutations; ++k) {
      std::vector<uint8_t> data = seed;
      data.resize(kMaxSize);
      data.resize(mutate ? mutate(data.data(), seed.size(), kMaxSize, rng())
                         : LLVMFuzzerMutate(data.data(), seed.size(), kMaxSize));
      LLVMFuzzerTestOneInput(data.data(), data.size());
    }
  }
}

} // namespace

int main(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (argc != 2) {
    llvm::errs() << "usage: replay TARGET\n";
    return 2;
  }
  target = argv[1];
  return RUN_ALL_TESTS();
}
