#include "common/base/status.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "absl/strings/cord.h"

namespace cohort {
namespace {

TEST(Annotate, PutsTheContextFirstAndKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no such file"), "reading job.json");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "reading job.json: no such file");
}

TEST(Annotate, LeavesOkAlone) { EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok()); }

TEST(Annotate, KeepsPayloads) {
  absl::Status status = absl::UnavailableError("x");
  status.SetPayload("url", absl::Cord("bytes"));
  EXPECT_EQ(Annotate(status, "y").GetPayload("url"), absl::Cord("bytes"));
}

TEST(RepeatsMessage, SeesAMessageBehindContextsOnly) {
  EXPECT_TRUE(RepeatsMessage("x: y", "x: y"));
  EXPECT_TRUE(RepeatsMessage("a: b: x: y", "x: y"));
  EXPECT_TRUE(RepeatsMessage("x: y", "a: b: x: y"));
  EXPECT_FALSE(RepeatsMessage("closure 11 failed", "1 failed"));
  EXPECT_FALSE(RepeatsMessage("x: y", "x"));
  EXPECT_FALSE(RepeatsMessage("x: y and z", "x: y"));
}

TEST(ErrnoStatus, NamesContextAndCause) {
  const absl::Status status = ErrnoStatus(ENOSPC, "cannot write f");
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(status.message(), "cannot write f: No space left on device");
}

}  // namespace
}  // namespace cohort
