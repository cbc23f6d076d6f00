
#include "common/base/machine.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// Files below a directory of the test's own, in the places where the system has them.
class CgroupTest : public ::testing::Test {
 protected:
  CgroupTest() {
    std::filesystem::remove_all(root_);
    std::filesystem::create_directories(root_);
  }
  ~CgroupTest() override { std::filesystem::remove_all(root_); }

  void Put(const std::string& path, const std::string& text) {
    const std::filesystem::path whole = root_ + path;
    std::filesystem::create_directories(whole.parent_path());
    std::ofstream(whole) << text;
  }
  CgroupLimits Read() const { return ReadCgroupLimits(root_); }

  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "cgroup-",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
};

constexpr char kUnifiedMount[] =
    "25 30 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr char kMountsOfVersion1[] =
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw shared:9 - cgroup cgroup rw,memory\n";

TEST_F(CgroupTest, WithoutAnyNothingIsLimited) {
  const CgroupLimits limits = Read();
  EXPECT_FALSE(limits.memory_bytes.has_value());
  EXPECT_FALSE(limits.processors.has_value());
}

TEST_F(CgroupTest, Version2TakesTheLeastOfItsGroupAndThoseAbove) {
  Put("/proc/self/cgroup", "0::/kubepods/pod1/box\n");
  Put("/proc/self/mountinfo", kUnifiedMount);
  Put("/sys/fs/cgroup/kubepods/memory.max", "9000\n");
  Put("/sys/fs/cgroup/kubepods/pod1/memory.max", "3000\n");
  Put("/sys/fs/cgroup/kubepods/pod1/box/memory.max", "max\n");
  Put("/sys/fs/cgroup/kubepods/pod1/cpu.max", "max 100000\n");
  Put("/sys/fs/cgroup/kubepods/pod1/box/cpu.max", "150000 100000\n");
  EXPECT_EQ(Read().memory_bytes, 3000u);
  EXPECT_EQ(Read().processors, 1.5);
}

TEST_F(CgroupTest, Version1HasAMountForEachController) {
  Put("/proc/self/cgroup", "4:memory:/docker/1f\n3:cpu,cpuacct:/docker/1f\n1:name=systemd:/x\n");
  Put("/proc/self/mountinfo", kMountsOfVersion1);
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Put("/sys/fs/cgroup/memory/docker/1f/memory.limit_in_bytes", "3221225472\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_quota_us", "50000\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/docker/1f/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(Read().memory_bytes, 3221225472u);
  EXPECT_EQ(Read().processors, 0.5);
}

TEST_F(CgroupTest, Version1SaysNoLimitWithAHugeNumberAndAQuotaOfMinusOne) {
  Put("/proc/self/cgroup", "4:memory:/\n3:cpu,cpuacct:/\n");
  Put("/proc/self/mountinfo", kMountsOfVersion1);
  Put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
  Put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
  EXPECT_FALSE(Read().memory_bytes.has_value());
  EXPECT_FALSE(Read().processors.has_value());
}

// A container without a namespace of groups: what is mounted is its own group, whose path begins
// outside of it.
TEST_F(CgroupTest, PathsBeginAtTheRootOfTheMount) {
  Put("/proc/self/cgroup", "4:memory:/docker/1f/inner\n");
  Put("/proc/self/mountinfo",
      "35 31 0:32 /docker/1f /sys/fs/cgroup/my\\040memory ro - cgroup cgroup rw,memory\n");
  Put("/sys/fs/cgroup/my memory/memory.limit_in_bytes", "7000\n");
  Put("/sys/fs/cgroup/my memory/inner/memory.limit_in_bytes", "5000\n");
  EXPECT_EQ(Read().memory_bytes, 5000u);
}

TEST_F(CgroupTest, APathOutOfTheNamespaceMeansTheMount) {
  Put("/proc/self/cgroup", "0::/../other\n");
  Put("/proc/self/mountinfo", kUnifiedMount);
  Put("/sys/fs/cgroup/memory.max", "4000\n");
  EXPECT_EQ(Read().memory_bytes, 4000u);
}

TEST_F(CgroupTest, BothVersionsAtOnce) {
  Put("/proc/self/cgroup", "4:memory:/a\n0::/\n");
  Put("/proc/self/mountinfo", absl::StrCat(kMountsOfVersion1, kUnifiedMount));
  Put("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "5000\n");
  Put("/sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Read().memory_bytes, 5000u);
  EXPECT_EQ(Read().processors, 2.0);
}

TEST_F(CgroupTest, WhatCannotBeReadLimitsNothing) {
  Put("/proc/self/cgroup", "nonsense\n0::/a\n");
  Put("/proc/self/mountinfo", absl::StrCat("short line\n", kUnifiedMount));
  Put("/sys/fs/cgroup/a/memory.max", "plenty\n");
  Put("/sys/fs/cgroup/a/cpu.max", "100000 0\n");
  EXPECT_FALSE(Read().memory_bytes.has_value());
  EXPECT_FALSE(Read().processors.has_value());
}

// A container with a part of the machine: as many threads as processors would wait for their turn.
TEST_F(CgroupTest, AQuotaBoundsTheProcessorsThatThreadsAreMadeFor) {
  const int all = ProcessorCountBelow(root_);
  EXPECT_EQ(all, ProcessorCountBelow("/no/such/directory")) << "no quota";
  Put("/proc/self/cgroup", "0::/box\n");
  Put("/proc/self/mountinfo", kUnifiedMount);
  for (const auto& [quota, processors] : std::map<std::string, int>{{"max 100000", all},
                                                                    {"1000 100000", 1},
                                                                    {"100000 100000", 1},
                                                                    {"100001 100000", 2},
                                                                    {"150000 100000", 2},
                                                                    {"900000000 100000", all}}) {
    Put("/sys/fs/cgroup/box/cpu.max", quota);
    EXPECT_EQ(ProcessorCountBelow(root_), std::min(processors, all)) << quota;
  }
}

// Every program asks there how many threads it may have, and nobody asks the machine alone.
TEST(Machine, ThreadsAreCountedInOnePlace) {
  for (const char* room : {"common", "coordinator", "ps_server", "worker"}) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(absl::StrCat(COHORT_SOURCE_DIR "/", room))) {
      const std::string path = entry.path().string();
      if (!entry.is_regular_file() || absl::EndsWith(path, "common/base/machine.cc")) continue;
      std::ifstream file(path);
      std::stringstream text;
      text << file.rdbuf();
      for (const char* name : {"hardware_concurrency", "_SC_NPROCESSORS", "get_nprocs"}) {
        EXPECT_FALSE(absl::StrContains(text.str(), name)) << path << " asks " << name;
      }
    }
  }
}

TEST(Machine, HasAProcessorAndMemory) {
  EXPECT_GE(ProcessorCount(), 1);
  EXPECT_GT(PhysicalMemory(), size_t{64} << 20);
}

}  // namespace
}  // namespace cohort
