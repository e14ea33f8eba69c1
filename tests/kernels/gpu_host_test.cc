// Tests what is known of GPUs without a GPU: their rates, the search for their libraries, and the
// addition of a bias to a library's result.

#include "ir/op_registry.h"
#include "ir/target.h"
#include "kernels/cuda/bias.h"
#include "kernels/cuda/candidates.h"
#include "kernels/cuda/library_search.h"
#include "kernels/cuda/rates.h"
#include "tests/testing/example.h"
#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

namespace isthmus::cuda {
namespace {

namespace fs = std::filesystem;

GpuShape h200() {
  GpuShape s;
  s.major = 9;
  s.multiprocessors = 132;
  s.hertz = 1.83e9;
  s.memoryHertz = 3.2e9;
  s.memoryBits = 6144;
  return s;
}

double rateOf(const GpuRates &r, DType t) { return r.contractionFlopsPerSecond[size_t(t)]; }

// The rates agree with the manufacturer's data to within 5 %.
TEST(GpuRates, AreThoseOfTheWhitePapers) {
  GpuRates strict = gpuRates(h200(), false), tf32 = gpuRates(h200(), true);
  auto near = [](double got, double want) { EXPECT_NEAR(got / want, 1, 0.05); };
  near(strict.flopsPerSecond, 67e12 * 0.923); // the data sheet assumes a higher clock
  near(strict.bytesPerSecond, 4.8e12 * 1.024);
  near(rateOf(strict, DType::F32), rateOf(strict, DType::F32));
  EXPECT_EQ(rateOf(strict, DType::F32), strict.flopsPerSecond);
  near(rateOf(tf32, DType::F32), 495e12);
  near(rateOf(strict, DType::BF16), 989e12);
  near(rateOf(strict, DType::F16), 989e12);
  near(rateOf(strict, DType::F64), 67e12 * 0.923);
  EXPECT_EQ(rateOf(strict, DType::I32), 0);
  GpuShape a100;
  a100.major = 8;
  a100.multiprocessors = 108;
  a100.hertz = 1.41e9;
  near(rateOf(gpuRates(a100, false), DType::BF16), 312e12);
  near(rateOf(gpuRates(a100, true), DType::F32), 156e12);
}

TEST(GpuRates, AreKnownOfGenerationsToCome) {
  GpuShape s = h200();
  s.major = 99;
  for (bool tf32 : {false, true}) {
    GpuRates r = gpuRates(s, tf32);
    EXPECT_GT(r.flopsPerSecond, 0);
    EXPECT_GT(r.bytesPerSecond, 0);
  }
}

// A product has a rate that depends on the types of its operands; other ops have the arithmetic
// rate.
TEST(GpuRates, DecideWhatACallCosts) {
  Target target;
  GpuRates rates = gpuRates(h200(), false);
  target.flopsPerSecond = rates.flopsPerSecond;
  target.bytesPerSecond = 1e30;
  target.contractionFlopsPerSecond = rates.contractionFlopsPerSecond;
  target.launchSeconds = 0;
  auto seconds = [&](const std::string &call) { return target.seconds(parseExample(call)->call); };
  double f32 = seconds("matmul(f32[512, 512], f32[512, 512])");
  double bf16 = seconds("matmul(bf16[512, 512], bf16[512, 512])");
  EXPECT_NEAR(f32 / bf16, 16, 1e-9);
  EXPECT_EQ(seconds("exp(f32[512])"), seconds("exp(bf16[512])"));
  target.contractionFlopsPerSecond = {};
  EXPECT_EQ(seconds("matmul(f32[512, 512], f32[512, 512])"),
            seconds("matmul(bf16[512, 512], bf16[512, 512])"));
}

// A temporary folder in place of the system's root.
class Folders : public ::testing::Test {
protected:
  Folders() : root_(fs::temp_directory_path() / ("folders" + std::to_string(getpid()))) {
    fs::create_directories(root_);
  }
  ~Folders() override { fs::remove_all(root_); }

  void make(const std::string &folder) { fs::create_directories(root_.string() + folder); }
  void link(const std::string &from, const std::string &to) {
    fs::create_directories(fs::path(root_.string() + from).parent_path());
    std::ofstream(root_.string() + "/file");
    fs::create_symlink(to, root_.string() + from);
  }
  std::vector<std::string> found(std::map<std::string, std::string> environment = {}) {
    Surroundings s;
    s.root = root_.string();
    s.ourFolder = root_.string() + "/ours/bin";
    s.environment = [&](const char *name) {
      std::string value = environment[name];
      return value.empty() ? "" : root_.string() + value;
    };
    std::vector<std::string> relative;
    for (const std::string &folder : libraryFolders(s))
      relative.push_back(folder.substr(root_.string().size()));
    return relative;
  }
  using Names = std::vector<std::string>;
  const fs::path root_;
};

TEST_F(Folders, OfAToolkitAndBesideUs) {
  make("/ours/bin");
  make("/ours/lib");
  make("/usr/local/cuda/lib64");
  make("/usr/local/cuda-13.0/lib64");
  make("/opt/toolkit/lib64");
  make("/opt/toolkit/targets/x86_64-linux/lib");
  EXPECT_EQ(found(), (Names{"/ours/bin", "/ours/lib", "/usr/local/cuda/lib64",
                            "/usr/local/cuda-13.0/lib64"}));
  Names withHome = found({{"CUDA_HOME", "/opt/toolkit"}});
  EXPECT_EQ(withHome[2], "/opt/toolkit/lib64");
  EXPECT_EQ(withHome[3], "/opt/toolkit/targets/x86_64-linux/lib");
}

TEST_F(Folders, OfWheels) {
  make("/venv/lib/python3.12/site-packages/nvidia/cudnn/lib");
  make("/venv/lib/python3.12/site-packages/nvidia/cu13/lib");
  make("/venv/lib/python3.12/site-packages/nvidia/nothing");
  make("/home/me/.local/lib/python3.11/site-packages/nvidia/cudnn/lib");
  make("/usr/local/lib/python3.11/dist-packages/nvidia/cublas/lib");
  Names wheels = {"/venv/lib/python3.12/site-packages/nvidia/cudnn/lib",
                  "/venv/lib/python3.12/site-packages/nvidia/cu13/lib"};
  Names all = found({{"VIRTUAL_ENV", "/venv"}, {"HOME", "/home/me"}});
  EXPECT_EQ(all, (Names{wheels[0], wheels[1],
                        "/home/me/.local/lib/python3.11/site-packages/nvidia/cudnn/lib",
                        "/usr/local/lib/python3.11/dist-packages/nvidia/cublas/lib"}));
  // With PATH alone, python3 there links to the environment's, which links to the system's.
  link("/venv/bin/python3", "../../file");
  link("/bin/python3", "../venv/bin/python3");
  Names byPath = found({{"PATH", "/bin"}});
  ASSERT_GE(byPath.size(), 2u);
  EXPECT_EQ(Names(byPath.begin(), byPath.begin() + 2), wheels);
}

TEST_F(Folders, OfConda) {
  make("/conda/lib");
  EXPECT_EQ(found({{"CONDA_PREFIX", "/conda"}}), Names{"/conda/lib"});
}

// A library that is rejected is skipped, with the reason; the next one is used.
TEST_F(Folders, HoldLibrariesThatAreRefused) {
  make("/a");
  make("/b");
  const std::string a = root_.string() + "/a", b = root_.string() + "/b", name = "libm-copy.so";
  std::ofstream(a + "/" + name) << "no library";
  fs::copy_file("tests/kernels/libempty_library.so", b + "/" + name);
  int asked = 0;
  auto accept = [&](void *) { return std::string(++asked > 1 ? "" : "is too old"); };
  FoundLibrary none = findLibrary(name, a, {a, b}, accept);
  EXPECT_EQ(none.handle, nullptr);
  ASSERT_EQ(none.refused.size(), 3u); // beside the program, in a, in b
  EXPECT_EQ(none.refused[2], b + "/" + name + " is too old");
  FoundLibrary one = findLibrary(name, a, {a, b}, accept);
  EXPECT_NE(one.handle, nullptr);
  EXPECT_EQ(one.path, b + "/" + name);
}

TEST_F(Folders, HoldWhatLibrariesAskFor) {
  make("/lib");
  const std::string folder = root_.string() + "/lib/";
  for (const char *name : {"libnvrtc.so.13", "libnvrtc-builtins.so.13.2", "libother.so"})
    std::ofstream(folder + name);
  EXPECT_EQ(librariesBeside(folder + "libnvrtc.so.13", "libnvrtc-builtins.so."),
            Names{folder + "libnvrtc-builtins.so.13.2"});
  EXPECT_TRUE(librariesBeside("/no/such/folder/libnvrtc.so.13", "lib").empty());
}

// Kernels that count their runs and fail on request.
class CountedKernel : public PreparedKernel {
public:
  CountedKernel(const Queue &queue, int64_t bytes, bool runs, int *times)
      : queue_(queue), bytes_(bytes), runs_(runs), times_(times) {}
  int64_t workspaceBytes() const override { return bytes_; }
  void run(const KernelArgs &) override {
    ++*times_;
    if (!runs_)
      queue_.failure = "it was told to fail";
  }

private:
  const Queue &queue_;
  int64_t bytes_;
  bool runs_;
  int *times_;
};

struct CandidatesOf {
  Queue queue;
  std::vector<int> times;
  std::vector<std::unique_ptr<PreparedKernel>> kernels;

  explicit CandidatesOf(size_t most) : times(most) {}
  void add(const char *library, int64_t bytes, bool runs) {
    kernels.push_back(std::make_unique<CountedKernel>(queue, bytes, runs, &times[kernels.size()]));
    kernels.back()->library = library;
  }
};

TEST(Candidates, TakeTheFirstThatRunsAndKeepToIt) {
  CandidatesOf c(4);
  c.add("a", 100, false);
  c.add("a", 200, true); // needs a larger workspace than was planned
  c.add("a", 50, true);
  c.add("cuda", 0, true);
  Candidates all(c.queue, "call", std::move(c.kernels));
  EXPECT_EQ(all.workspaceBytes(), 100);
  all.run({});
  all.run({});
  EXPECT_EQ(c.times, (std::vector<int>{1, 0, 2, 0}));
  EXPECT_EQ(all.workspaceBytes(), 100);
  EXPECT_EQ(c.queue.failure, nullptr);
  EXPECT_EQ(c.queue.notes.size(), 1u);
  EXPECT_FALSE(all.isSubstitute());
}

TEST(Candidates, EndWithOurOwn) {
  CandidatesOf c(2);
  c.add("a", 100, false);
  c.add("cuda", 0, true);
  Candidates all(c.queue, "call", std::move(c.kernels));
  EXPECT_FALSE(all.isSubstitute());
  all.run({});
  EXPECT_TRUE(all.isSubstitute());
  EXPECT_EQ(all.library, "cuda");
  EXPECT_EQ(c.queue.failure, nullptr);
  EXPECT_EQ(c.queue.notes,
            std::vector<std::string>{"call: a fails (it was told to fail), so our own kernel, "
                                     "which is slow, runs"});
}

TEST(Candidates, FailWhereTheLastFails) {
  CandidatesOf c(2);
  c.add("a", 0, false);
  c.add("cuda", 0, false);
  Candidates all(c.queue, "call", std::move(c.kernels));
  all.run({});
  EXPECT_STREQ(c.queue.failure, "it was told to fail");
}

// An error that a launch reports also counts, and must not be attributed to the next candidate.
TEST(Candidates, AskTheDriver) {
  static int failures;
  failures = 1;
  CandidatesOf c(2);
  c.add("a", 0, true);
  c.add("cuda", 0, true);
  c.queue.launchFailure = []() -> const char * { return failures-- > 0 ? "of a launch" : nullptr; };
  Candidates all(c.queue, "call", std::move(c.kernels));
  all.run({});
  EXPECT_EQ(c.times, (std::vector<int>{1, 1}));
  EXPECT_TRUE(all.isSubstitute());
}

} // namespace
} // namespace isthmus::cuda
