#include "common/base/status.h"

#include <gtest/gtest.h>

namespace cohort {
namespace {

TEST(Annotate, PutsTheContextFirstAndKeepsTheCode) {
  const absl::Status status = Annotate(absl::NotFoundError("no such file"), "reading job.json");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "reading job.json: no such file");
}

TEST(Annotate, LeavesOkAlone) { EXPECT_TRUE(Annotate(absl::OkStatus(), "x").ok()); }

}  // namespace
}  // namespace cohort
