#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/worker/collective/conformance/cases.h"
#include "tests/unit/worker/collective/nccl/nccl_groups.h"
#include "worker/collective/nccl/nccl_library.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

using Tables = std::vector<absl::StatusOr<const NcclTable*>>;

NcclGroupSpec Ranks(int size) {
  NcclGroupSpec spec;
  spec.size = size;
  return spec;
}

// All ranks say this of how they could not join, and every call ends with it.
void ExpectNotJoined(NcclRanks& ranks, int size, absl::StatusCode code, const std::string& words) {
  for (int rank = 0; rank < size; ++rank) {
    const absl::Status joined = ranks.Joined(rank);
    EXPECT_EQ(joined, ranks.Joined(0));
    EXPECT_EQ(joined.code(), code) << joined;
    EXPECT_THAT(std::string(joined.message()), HasSubstr(words));
  }
  const auto calls = CallsOf(size, CollectiveCall());
  const GroupResult result = RunGroup(ranks, calls, RandomInputs(calls, 1), Place::kApart, 0);
  for (const absl::Status& status : result.statuses) EXPECT_EQ(status, ranks.Joined(0));
}

TEST(NcclJoin, RanksWithoutTheModuleAreNamedOnAllRanks) {
  FakeNccl fake(3);
  const auto missing = LoadNccl("/nowhere/libcohort_nccl.so");
  NcclRanks ranks(Tables{&fake.table(), missing, missing}, Ranks(3));
  ExpectNotJoined(ranks, 3, absl::StatusCode::kFailedPrecondition,
                  "the ranks cannot use NCCL: rank 1: NCCL is not available: loading "
                  "/nowhere/libcohort_nccl.so: ");
  EXPECT_THAT(std::string(ranks.Joined(0).message()), HasSubstr("; rank 2: NCCL is not"));
  EXPECT_EQ(fake.counters().joined, 0);
}

TEST(NcclJoin, RanksWithoutTheirGpuAreNamedOnAllRanks) {
  FakeNccl fake(2);
  NcclRanks ranks(Tables(3, &fake.table()), Ranks(3));
  ExpectNotJoined(ranks, 3, absl::StatusCode::kFailedPrecondition,
                  "rank 2: gpu:2 is not there: this machine has 2 GPUs; use those that");
}

TEST(NcclJoin, VersionsOfNcclMustBeOne) {
  FakeNccl one(2);
  FakeNccl other(2);
  other.SetVersion(23007);
  NcclRanks ranks({&one.table(), &other.table()}, Ranks(2));
  ExpectNotJoined(ranks, 2, absl::StatusCode::kFailedPrecondition,
                  "rank 0 has NCCL 2.28.9 and rank 1 NCCL 2.30.7; install one version");
}

// Two machines which do not reach each other: all ranks are there, and NCCL waits.
TEST(NcclJoin, GpusThatDoNotMeetEndAtTheTimeout) {
  FakeNccl one(2);
  FakeNccl other(2);
  NcclGroupSpec spec = Ranks(2);
  spec.join_timeout = absl::Milliseconds(50);
  NcclRanks ranks({&one.table(), &other.table()}, spec);
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(ranks.Joined(rank).code(), absl::StatusCode::kDeadlineExceeded);
  }
  EXPECT_THAT(std::string(ranks.Joined(1).message()), HasSubstr("within 50ms"));
}

TEST(NcclJoin, ARankThatEndsMeanwhileEndsAll) {
  FakeNccl one(2);
  FakeNccl other(2);
  NcclRanks ranks({&one.table(), &other.table()}, Ranks(2));
  ranks.End(1);
  EXPECT_THAT(std::string(ranks.Joined(0).message()),
              HasSubstr("a rank ends before the ranks have joined"));
}

TEST(NcclJoin, PassesKeepWhatTheySay) {
  NcclPass pass;
  pass.nccl_version = 22809;
  pass.piece_bytes = 1 << 20;
  pass.id[0] = 1;
  pass.id[127] = 2;
  const NcclPass usable = DecodePass(EncodePass(pass));
  EXPECT_TRUE(usable.usable.ok());
  EXPECT_EQ(usable.nccl_version, 22809);
  EXPECT_EQ(usable.piece_bytes, size_t{1} << 20);
  EXPECT_EQ(usable.id, pass.id);
  pass.usable = absl::InternalError(std::string(5000, 'x'));
  const NcclPass refused = DecodePass(EncodePass(pass));
  EXPECT_EQ(refused.usable.message(), std::string(NcclPass::kBytes - 144, 'x'));
  const NcclPass passes[] = {usable, refused};
  EXPECT_THAT(std::string(CheckPasses(passes).message()), HasSubstr("rank 1: xxx"));
}

TEST(NcclJoin, PiecesMustBeOfOneSize) {
  NcclPass one;
  one.piece_bytes = 4096;
  NcclPass other = one;
  other.piece_bytes = 8192;
  const NcclPass same[] = {one, one};
  EXPECT_TRUE(CheckPasses(same).ok());
  const NcclPass passes[] = {one, other};
  EXPECT_THAT(std::string(CheckPasses(passes).message()),
              AllOf(HasSubstr("4096"), HasSubstr("rank 1 of 8192")));
}

}  // namespace
}  // namespace cohort
