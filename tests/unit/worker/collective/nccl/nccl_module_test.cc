#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/collective/nccl/nccl_local_group.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

constexpr char kModule[] = COHORT_BIN_DIR "/libcohort_nccl.so";
constexpr bool kBuilt = COHORT_HAVE_NCCL;

std::string Error(const std::string& path) {
  const auto table = LoadNccl(path);
  EXPECT_EQ(table.status().code(), absl::StatusCode::kFailedPrecondition);
  return std::string(table.status().message());
}

TEST(NcclModule, IsLookedForBesideTheExecutable) {
  EXPECT_THAT(NcclModulePath(), AllOf(StartsWith("/"), HasSubstr("/tests/libcohort_nccl.so")));
}

TEST(NcclModule, ThatIsNotThereIsNamedWithWhatToDo) {
  EXPECT_THAT(Error("/nowhere/libcohort_nccl.so"),
              AllOf(StartsWith("NCCL is not available: loading /nowhere/libcohort_nccl.so: "),
                    HasSubstr("No such file"), HasSubstr("build with -DCOHORT_CUDA=ON")));
}

TEST(NcclModule, OfAnotherBuildIsRefused) {
  EXPECT_THAT(Error(COHORT_OTHER_VERSION),
              HasSubstr("is of another build (version 4 of its table, not 3)"));
  EXPECT_THAT(Error("libm.so.6"), HasSubstr("(version 0 of its table"));
}

// One executable runs with and without a GPU: it needs no library of CUDA's to start.
TEST(NcclModule, ExecutablesAreNotLinkedWithCuda) {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  std::stringstream bytes;
  bytes << file.rdbuf();
  EXPECT_TRUE(absl::StrContains(bytes.str(), absl::StrCat("lib", "protobuf.so.")));
  for (const char* const name : {"cuda.so.", "cudart.so.", "nccl.so."}) {
    EXPECT_FALSE(absl::StrContains(bytes.str(), absl::StrCat("lib", name))) << name;
  }
}

// The rest runs wherever the module is built, with and without a GPU.
class BuiltModule : public testing::Test {
 protected:
  void SetUp() override {
    if (!kBuilt) GTEST_SKIP() << "needs a build with NCCL";
    const auto table = LoadNccl(kModule);
    ASSERT_TRUE(table.ok()) << table.status();
    table_ = *table;
  }
  const NcclTable* table_ = nullptr;
};

TEST_F(BuiltModule, IsOfThisVersionAndFillsItsTable) {
  EXPECT_EQ(table_->version, kNcclTableVersion);
  // Everything behind the two first members is a function.
  const auto* const functions = reinterpret_cast<void* const*>(&table_->error_words);
  const auto* const end = reinterpret_cast<void* const*>(table_ + 1);
  for (const auto* function = functions; function < end; ++function) {
    EXPECT_NE(*function, nullptr) << "function " << function - functions;
  }
  EXPECT_EQ((*LoadNccl(kModule))->version, kNcclTableVersion) << "again";
}

TEST_F(BuiltModule, GpusThatAreNotThereAreNotJoined) {
  const auto group = NcclLocalGroup::Open(*table_, {4096});
  EXPECT_THAT(std::string(group.status().message()),
              StartsWith("joining the GPUs of this worker: "));
  EXPECT_TRUE(absl::IsUnavailable(group.status()));
}

TEST_F(BuiltModule, MakesIdsOfGroups) {
  int32_t version = 0;
  EXPECT_EQ(table_->nccl_version(table_->self, &version), kNcclDone);
  EXPECT_GT(version, 21400) << "NCCL since 2.14 has communicators that do not block";
  std::array<uint8_t, kNcclIdBytes> one = {};
  std::array<uint8_t, kNcclIdBytes> other = {};
  EXPECT_EQ(table_->unique_id(table_->self, one.data()), kNcclDone);
  EXPECT_EQ(table_->unique_id(table_->self, other.data()), kNcclDone);
  EXPECT_NE(one, other);
}

TEST_F(BuiltModule, SaysInWordsWhichDeviceIsNotThere) {
  int32_t count = 0;
  const int32_t code = table_->device_count(table_->self, &count);
  const absl::Status beyond = CheckNcclDevice(*table_, count);
  EXPECT_EQ(beyond.code(), absl::StatusCode::kFailedPrecondition);
  if (code != kNcclDone) {
    EXPECT_THAT(std::string(beyond.message()),
                AllOf(StartsWith("no GPU can be used: looking for GPUs: CUDA: "),
                      HasSubstr("install the driver that nvidia-smi needs, or use cpu devices")));
    NcclContext* context = nullptr;
    EXPECT_NE(table_->open(table_->self, 0, &context), kNcclDone);
    EXPECT_EQ(context, nullptr);
    return;
  }
  EXPECT_THAT(std::string(beyond.message()), HasSubstr("is not there: this machine has"));
  EXPECT_EQ(CheckNcclDevice(*table_, 0).ok(), count > 0);
}

}  // namespace
}  // namespace cohort
