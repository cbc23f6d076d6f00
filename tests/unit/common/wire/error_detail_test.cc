#include "common/wire/error_detail.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

proto::TaskRef Worker(int index) {
  proto::TaskRef ref;
  ref.set_role("worker");
  ref.set_index(index);
  return ref;
}

TEST(ErrorDetail, ClassTravelsWithTheStatus) {
  const absl::Status status = MakeError(absl::StatusCode::kUnavailable, "gone", proto::PS_LOST);
  EXPECT_EQ(ClassOf(status), proto::PS_LOST);
  EXPECT_EQ(status.message(), "gone");
  EXPECT_EQ(ClassOf(absl::UnavailableError("gone")), proto::ERROR_CLASS_UNKNOWN);
}

TEST(ErrorDetail, TheFirstOriginStays) {
  const absl::Status status = MakeError(absl::StatusCode::kInternal, "x", proto::APPLICATION);
  const absl::Status first = WithOrigin(status, Worker(1));
  EXPECT_EQ(DetailOf(WithOrigin(first, Worker(2))).origin().index(), 1);
  EXPECT_EQ(ClassOf(first), proto::APPLICATION);
  EXPECT_TRUE(WithOrigin(absl::OkStatus(), Worker(1)).ok());
}

TEST(ErrorDetail, MalformedDetailCountsAsNone) {
  absl::Status status = absl::InternalError("x");
  status.SetPayload("type.googleapis.com/cohort.proto.ErrorDetail", absl::Cord("\xff\xff"));
  EXPECT_EQ(ClassOf(status), proto::ERROR_CLASS_UNKNOWN);
}

TEST(ErrorDetail, TaskNames) {
  proto::TaskRef ref = Worker(3);
  EXPECT_EQ(TaskName(ref), "worker:3");
  ref.set_incarnation(77);
  EXPECT_EQ(TaskName(ref), "worker:3 (incarnation 77)");
}

}  // namespace
}  // namespace cohort
