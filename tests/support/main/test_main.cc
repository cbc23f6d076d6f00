// Runs the tests of a binary, with the invariants of state machines checked behind each call.

#include "common/base/invariants.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

int main(int argc, char** argv) {
  cohort::CheckInvariantsFromNowOn();
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
