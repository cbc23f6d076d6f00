#include "common/base/status.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cerrno>
#include <utility>

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

TEST(ErrnoStatus, ATooLargeFileCountsAsAFullDiskAndNamesWhatRefusesIt) {
  rlimit limit = {};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlim_t before = std::exchange(limit.rlim_cur, 4096);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  const absl::Status limited = ErrnoStatus(EFBIG, "cannot write f");
  limit.rlim_cur = before;
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(limited.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(limited.message(),
            "cannot write f: File too large: a file of this process may have 4096 bytes (ulimit "
            "-f); raise the limit");
  if (before != RLIM_INFINITY) GTEST_SKIP() << "this shell has a limit";
  EXPECT_EQ(ErrnoStatus(EFBIG, "cannot write f").message(),
            "cannot write f: File too large for this file system");
}

}  // namespace
}  // namespace cohort
