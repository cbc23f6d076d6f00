#include "common/cluster/environment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

namespace cohort {
namespace {

using ::testing::Contains;
using ::testing::Not;

TEST(Environment, ReadsWhatIsSet) {
  setenv("COHORT_TEST_VARIABLE", "x=y", 1);
  EXPECT_EQ(ProcessEnvironment()("COHORT_TEST_VARIABLE"), "x=y");
  unsetenv("COHORT_TEST_VARIABLE");
  EXPECT_EQ(ProcessEnvironment()("COHORT_TEST_VARIABLE"), std::nullopt);
}

TEST(Environment, AChildInheritsAndOverrides) {
  setenv("COHORT_TEST_KEPT", "1", 1);
  setenv("COHORT_TEST_CHANGED", "old", 1);
  const auto child = ChildEnvironment({{"COHORT_TEST_CHANGED", "new"}, {"COHORT_TEST_ADDED", "a"}});
  EXPECT_THAT(child, Contains("COHORT_TEST_KEPT=1"));
  EXPECT_THAT(child, Contains("COHORT_TEST_CHANGED=new"));
  EXPECT_THAT(child, Contains("COHORT_TEST_ADDED=a"));
  EXPECT_THAT(child, Not(Contains("COHORT_TEST_CHANGED=old")));
}

}  // namespace
}  // namespace cohort
