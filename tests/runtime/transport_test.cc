// What every transport does. Alone, the test runs all ends of the thread transport; under mpirun,
// each process runs its end of MPI's (tests/e2e/mpi_test.py starts it so). Over either, messages
// also go between emulated GPUs: by channels of the NCCL that nccl_stand_in.cc stands in for, and
// through the host's memory.

#include "runtime/cuda_device.h"
#include "runtime/mpi_group.h"
#include "runtime/thread_transport.h"
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <thread>

namespace isthmus {
namespace {

std::unique_ptr<ProcessGroup> group; // null if the test is alone

// Joins the processes before the first test and leaves them behind the last.
class Processes : public testing::Environment {
  void SetUp() override {
    // The libraries, as the build has them beside this test.
    setenv("ISTHMUS_CUDA_LIBRARY", "kernels/cuda/libisthmus_cuda_emulation.so", /*overwrite=*/0);
    setenv("ISTHMUS_NCCL_LIBRARY", "tests/runtime/libnccl_stand_in.so", /*overwrite=*/0);
    if (isOneOfSeveral())
      group = llvm::cantFail(joinMpiGroup());
  }
  void TearDown() override {
    if (group)
      group->end(testing::UnitTest::GetInstance()->Failed() ? 1 : 0);
  }
};
const auto *const processes = testing::AddGlobalTestEnvironment(new Processes);

// Where messages lie.
enum class Memory { Host, OneGpu, TwoGpus };

// One end in a test.
struct End {
  size_t self, count;
  Transport &transport;

  std::string device(size_t i) const { return "cpu:" + std::to_string(i % count); }
  uint64_t send(size_t to, int64_t tag, const std::vector<int> &data) const {
    return llvm::cantFail(
        transport.isend(device(to), tag, data.data(), int64_t(data.size() * sizeof(int))));
  }
  uint64_t receive(size_t from, int64_t tag, std::vector<int> &data) const {
    return llvm::cantFail(
        transport.irecv(device(from), tag, data.data(), int64_t(data.size() * sizeof(int))));
  }
  void wait(uint64_t message) const { EXPECT_EQ(llvm::toString(transport.wait(message)), ""); }
};

class Transports : public testing::TestWithParam<Memory> {
protected:
  // Runs `body` on all ends at once: each on a thread, or each in its process.
  template <typename Body> void onAllEnds(size_t count, Body body) {
    count = group ? group->size() : count;
    std::vector<std::string> devices;
    for (size_t i = 0; i < count; ++i)
      devices.push_back("cpu:" + std::to_string(i));
    if (group) {
      const Gpu gpu = gpuOf(group->rank());
      const auto transport = over(group->transport(devices), gpu);
      body(End{group->rank(), count, *transport});
      char own = 0;
      std::vector<char> all(count);
      llvm::cantFail(group->allGather(&own, 1, all.data())); // the next test's messages are its own
      return;
    }
    std::vector<Gpu> gpus;
    std::vector<std::unique_ptr<Transport>> ends = makeThreadTransport(devices);
    for (size_t i = 0; i < count; ++i) {
      gpus.push_back(gpuOf(i));
      ends[i] = over(std::move(ends[i]), gpus[i]);
    }
    std::vector<std::thread> threads;
    for (size_t i = 0; i < count; ++i)
      threads.emplace_back([&, i] { body(End{i, count, *ends[i]}); });
    for (std::thread &t : threads)
      t.join();
    ends.clear(); // before the GPUs
  }

private:
  using Gpu = std::unique_ptr<Device>;

  // Null if messages lie in the host's memory.
  static Gpu gpuOf(size_t end) {
    if (GetParam() == Memory::Host)
      return nullptr;
    return llvm::cantFail(
        makeCudaDevice({.index = GetParam() == Memory::TwoGpus ? int(end % 2) : 0}));
  }
  static std::unique_ptr<Transport> over(std::unique_ptr<Transport> end, const Gpu &gpu) {
    return gpu ? gpu->transportOver(std::move(end)) : std::move(end);
  }
};

std::string nameOf(const testing::TestParamInfo<Memory> &info) {
  switch (info.param) {
  case Memory::Host:
    return "Host";
  case Memory::OneGpu:
    return "OneGpu";
  case Memory::TwoGpus:
    return "TwoGpus";
  }
  return "";
}
INSTANTIATE_TEST_SUITE_P(, Transports,
                         testing::Values(Memory::Host, Memory::OneGpu, Memory::TwoGpus), nameOf);

void sleepSome(std::mt19937 &draws) {
  std::this_thread::sleep_for(std::chrono::microseconds(draws() % 300));
}

TEST_P(Transports, KeepsTheOrderOfEqualTags) {
  onAllEnds(2, [](const End &end) {
    constexpr int kMessages = 20;
    std::vector<std::vector<int>> sent, got(kMessages, std::vector<int>(3));
    std::vector<uint64_t> started;
    for (int i = 0; i < kMessages; ++i)
      sent.push_back({int(end.self), i, -i});
    for (int i = 0; i < kMessages; ++i) {
      started.push_back(end.send(end.self + 1, 7, sent[i]));
      started.push_back(end.receive(end.self + end.count - 1, 7, got[i]));
    }
    for (uint64_t message : started)
      end.wait(message);
    const int from = int((end.self + end.count - 1) % end.count);
    for (int i = 0; i < kMessages; ++i)
      EXPECT_EQ(got[i], (std::vector<int>{from, i, -i}));
  });
}

TEST_P(Transports, TagsDistinguishMessages) {
  onAllEnds(2, [](const End &end) {
    const std::vector<int> one{1}, two{2};
    std::vector<int> gotOne(1), gotTwo(1);
    const size_t from = end.self + end.count - 1;
    const uint64_t a = end.send(end.self + 1, 1, one), b = end.send(end.self + 1, 2, two);
    const uint64_t c = end.receive(from, 2, gotTwo), d = end.receive(from, 1, gotOne);
    for (uint64_t message : {d, c, b, a}) // waits may come in any order
      end.wait(message);
    EXPECT_EQ(gotOne, one);
    EXPECT_EQ(gotTwo, two);
    end.wait(d); // again: it is complete
  });
}

TEST_P(Transports, ZeroBytes) {
  onAllEnds(3, [](const End &end) {
    std::vector<int> nothing;
    const uint64_t sent = end.send(end.self + 1, 0, nothing);
    end.wait(end.receive(end.self + end.count - 1, 0, nothing));
    end.wait(sent);
  });
}

TEST_P(Transports, OtherNumbersOfBytesAreErrors) {
  for (size_t bytes : {2, 4}) // fewer and more than are received
    onAllEnds(2, [&](const End &end) {
      std::vector<int> data(bytes), got(3);
      if (end.self == 0) {
        llvm::consumeError(end.transport.wait(end.send(1, 5, data)));
      } else if (end.self == 1) {
        const std::string e = llvm::toString(end.transport.wait(end.receive(0, 5, got)));
        EXPECT_NE(e, "");
        if (!group || bytes < got.size()) {
          EXPECT_NE(e.find("where 12 are received"), std::string::npos) << e;
        }
      }
    });
}

TEST_P(Transports, UnknownDevice) {
  onAllEnds(2, [](const End &end) {
    int byte = 0;
    auto sent = end.transport.isend("cpu:99", 0, &byte, 1);
    auto got = end.transport.irecv("tpu:0", 0, &byte, 1);
    EXPECT_NE(llvm::toString(sent.takeError()).find("'cpu:99', which is no device of this step"),
              std::string::npos);
    EXPECT_NE(llvm::toString(got.takeError()).find("'tpu:0'"), std::string::npos);
  });
}

TEST_P(Transports, MeasuresHowLongItWaited) {
  onAllEnds(2, [](const End &end) {
    std::vector<int> data{1};
    (void)end.transport.takeWaited();
    if (end.self == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      end.wait(end.send(1, 3, data));
    } else if (end.self == 1) {
      end.wait(end.receive(0, 3, data));
      EXPECT_GT(end.transport.takeWaited(), 0.02);
      EXPECT_EQ(end.transport.takeWaited(), 0);
    }
  });
}

// Every end sends messages of many sizes to every other, and all do so at different speeds.
TEST_P(Transports, ManyMessagesAtDifferentSpeeds) {
  onAllEnds(6, [](const End &end) {
    constexpr int kRounds = 30;
    std::mt19937 draws(unsigned(end.self) + 1);
    auto contents = [](size_t from, size_t to, int round) {
      const size_t size = (from * 31 + to * 17 + size_t(round) * 101) % 5000;
      std::vector<int> data(size * size_t(1 + 20 * (round % 7 == 0)));
      std::iota(data.begin(), data.end(), int(from * 1000 + to * 100) + round);
      return data;
    };
    for (int round = 0; round < kRounds; ++round) {
      std::vector<std::vector<int>> sent(end.count), got(end.count);
      std::vector<uint64_t> started;
      for (size_t other = 0; other < end.count; ++other) {
        if (other == end.self)
          continue;
        sent[other] = contents(end.self, other, round);
        got[other].resize(contents(other, end.self, round).size());
        started.push_back(end.receive(other, round % 3, got[other]));
        sleepSome(draws);
        started.push_back(end.send(other, round % 3, sent[other]));
      }
      std::shuffle(started.begin(), started.end(), draws);
      for (uint64_t message : started) {
        sleepSome(draws);
        end.wait(message);
      }
      for (size_t other = 0; other < end.count; ++other) {
        if (other != end.self) {
          EXPECT_EQ(got[other], contents(other, end.self, round));
        }
      }
    }
  });
}

TEST_P(Transports, AbortEndsItsOwnWaits) {
  if (group)
    GTEST_SKIP() << "the processes of a group end together";
  onAllEnds(2, [](const End &end) {
    std::vector<int> never(1);
    const uint64_t message = end.receive(end.self + 1, 9, never);
    end.transport.abort("end " + std::to_string(end.self) + " failed");
    EXPECT_NE(llvm::toString(end.transport.wait(message)).find("failed"), std::string::npos);
  });
}

TEST_P(Transports, AbortWakesTheWaitsOfOthers) {
  if (group)
    GTEST_SKIP() << "the processes of a group end together";
  std::atomic<int> woken = 0;
  onAllEnds(4, [&](const End &end) {
    std::vector<int> never(1);
    if (end.self == 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30)); // the others are asleep
      end.transport.abort("the step failed on cpu:0");
      end.transport.abort("a later reason"); // the first one stays
      return;
    }
    const uint64_t first = end.receive(0, 1, never), later = end.receive(0, 2, never);
    EXPECT_EQ(llvm::toString(end.transport.wait(first)), "error: the step failed on cpu:0");
    EXPECT_EQ(llvm::toString(end.transport.wait(later)), "error: the step failed on cpu:0");
    ++woken;
  });
  EXPECT_EQ(woken, 3);
}

// MPI sends such a message in pieces.
TEST_P(Transports, MoreThanAGibibyte) {
  if (!group || !std::getenv("ISTHMUS_FULL"))
    GTEST_SKIP() << "it takes 2 GiB of memory: ISTHMUS_FULL=1, under mpirun";
  onAllEnds(2, [](const End &end) {
    std::vector<int> data((size_t(1) << 28) + 3, 0);
    if (end.self == 0) {
      std::iota(data.begin(), data.end(), 5);
      end.wait(end.send(1, 0, data));
    } else if (end.self == 1) {
      end.wait(end.receive(0, 0, data));
      EXPECT_EQ(data.front(), 5);
      EXPECT_EQ(data[size_t(1) << 28], 5 + (1 << 28));
      EXPECT_EQ(data.back(), 5 + (1 << 28) + 2);
    }
  });
}

} // namespace
} // namespace isthmus
