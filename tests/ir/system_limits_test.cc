// What a container, a batch system or a shell allows is read from the system's files. The files
// here are written as those of Docker, Kubernetes and Slurm are (cgroups(7), both versions).
#include "ir/system_limits.h"

#include "gtest/gtest.h"
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

namespace isthmus {
namespace {

class Limits : public testing::Test {
protected:
  void SetUp() override {
    std::filesystem::remove_all(root_);
    write("/proc/meminfo",
          "MemTotal:  8388608 kB\nMemFree:  1024 kB\nMemAvailable:    4194304 kB\n");
  }
  void write(const std::string &path, const std::string &text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  // A hierarchy of version 2, whose folder `top` is mounted, and the process's group in it.
  void unified(const std::string &top, const std::string &group) {
    write("/proc/self/cgroup", "0::" + group + "\n");
    write("/proc/self/mountinfo",
          "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
          "31 22 0:27 " +
              top + " /sys/fs/cgroup ro,nosuid shared:9 - cgroup2 cgroup rw,nsdelegate\n");
  }
  // The same of version 1, with both controllers.
  void separate(const std::string &top, const std::string &group) {
    write("/proc/self/cgroup",
          "5:cpu,cpuacct:" + group + "\n4:memory:" + group + "\n1:name=systemd:/\n");
    write("/proc/self/mountinfo",
          "32 31 0:29 " + top +
              " /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
              "35 31 0:32 " +
              top +
              " /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
              "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
  }
  // What a group may have of memory and what it has, in a folder of either version.
  void memory(const std::string &folder, const std::string &limit, const std::string &used) {
    const bool isUnified = folder.rfind("/memory", 0) != 0;
    const std::string at = "/sys/fs/cgroup" + folder + "/memory.";
    write(at + (isUnified ? "max" : "limit_in_bytes"), limit + "\n");
    write(at + (isUnified ? "current" : "usage_in_bytes"), used + "\n");
  }
  std::string root_ = testing::TempDir() + "/limits";
};

TEST_F(Limits, OfTheMachineAlone) {
  const AvailableMemory m = availableMemory(0, root_);
  EXPECT_EQ(m.bytes, int64_t(4) << 30);
  EXPECT_EQ(m.str(), "4096.0 MiB available");
  EXPECT_GE(availableCores(root_), 1);
}

TEST_F(Limits, NothingIsTold) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(availableMemory(0, root_).bytes, INT64_MAX);
  EXPECT_EQ(availableCores(root_), availableCores(root_ + "/none"));
}

TEST_F(Limits, AContainerSeesItsOwnGroupAtTheTop) {
  unified("/", "/");
  memory("", "209715200", "62914560");
  write("/sys/fs/cgroup/memory.stat",
        "anon 52428800\nfile 10485760\ninactive_file 6291456\nactive_file 4194304\n");
  write("/sys/fs/cgroup/cpu.max", "100000 100000\n");
  // Ten MiB of files that were read are given up when memory is needed.
  EXPECT_EQ(availableMemory(0, root_).str(),
            "150.0 MiB available (the control group '/' may have 200.0 MiB)");
  EXPECT_EQ(availableCores(root_), 1);
}

TEST_F(Limits, TheLeastOfNestedGroupsCounts) {
  unified("/", "/slurm/job_7/step_0");
  memory("/slurm/job_7/step_0", "max", "1048576");
  memory("/slurm/job_7", "1073741824", "1048576");
  memory("/slurm", "2147483648", "2146435072");
  write("/sys/fs/cgroup/slurm/job_7/step_0/cpu.max", "max 100000\n");
  write("/sys/fs/cgroup/slurm/cpu.max", "50000 100000\n");
  // Of the outer group others have taken all but one MiB.
  EXPECT_EQ(availableMemory(0, root_).str(),
            "1.0 MiB available (the control group '/slurm' may have 2048.0 MiB)");
  EXPECT_EQ(availableCores(root_), 1);
}

TEST_F(Limits, WhatWasPromisedIsNotFree) {
  EXPECT_EQ(availableMemory(int64_t(1) << 30, root_).bytes, int64_t(3) << 30);
  EXPECT_EQ(availableMemory(int64_t(5) << 30, root_).bytes, 0);
}

TEST_F(Limits, OfVersionOne) {
  separate("/", "/job");
  memory("/memory/job", "104857600", "4194304");
  write("/sys/fs/cgroup/memory/job/memory.stat",
        "inactive_file 1\ntotal_inactive_file 1048576\ntotal_active_file 1048576\n");
  memory("/memory", "9223372036854771712", "4294967296");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_quota_us", "30000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/job/cpu.cfs_period_us", "100000\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  write("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(availableMemory(0, root_).str(),
            "98.0 MiB available (the control group '/job' may have 100.0 MiB)");
  EXPECT_EQ(availableCores(root_), 1);
}

// Docker with version 1: the process's path is that of the host, and the mounted folder is the
// container's.
TEST_F(Limits, AContainerOfVersionOneSeesTheHostsPaths) {
  separate("/docker/12ab", "/docker/12ab");
  memory("/memory", "104857600", "0");
  EXPECT_EQ(availableMemory(0, root_).bytes, 104857600);
}

// A neighbour's name may begin with that of the group that is mounted.
TEST_F(Limits, AGroupBesideTheOneThatIsMounted) {
  separate("/docker/12ab", "/docker/12abcd/x");
  memory("/memory", "104857600", "0");
  EXPECT_EQ(availableMemory(0, root_).bytes, 104857600);
}

TEST_F(Limits, AGroupThatHasTakenTooMuchHasNothingLeft) {
  unified("/", "/");
  memory("", "1048576", "2097152");
  EXPECT_EQ(availableMemory(0, root_).bytes, 0);
}

TEST_F(Limits, OfTheAddressSpace) {
  write("/proc/self/statm", "1000 10 5 1 0 10 0\n");
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_AS, &before), 0);
  const rlimit limited{rlim_t(1) << 31, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limited), 0);
  const AvailableMemory m = availableMemory(0, root_);
  setrlimit(RLIMIT_AS, &before);
  EXPECT_EQ(m.bytes, (int64_t(1) << 31) - 1000 * sysconf(_SC_PAGESIZE));
  EXPECT_EQ(m.limit, "the process may have 2048.0 MiB: ulimit -v");
}

} // namespace
} // namespace isthmus
