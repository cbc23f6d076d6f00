#include <gtest/gtest.h>

#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/nccl/nccl_groups.h"

namespace cohort {
namespace {

Implementation OverFake(size_t piece_bytes) {
  Implementation nccl = {"NCCL's stand-in", [piece_bytes](int size) {
                           NcclGroupSpec spec;
                           spec.size = size;
                           spec.piece_bytes = piece_bytes;
                           return std::make_unique<FakeNcclRanks>(spec);
                         }};
  nccl.first_call = NcclCommunicator::kCallsToJoin;
  nccl.zeros_of_the_tree = false;
  return nccl;
}

TEST(NcclConformance, Reductions) { CheckReductions(OverFake(8192)); }
TEST(NcclConformance, Long) { CheckLong(OverFake(1 << 18)); }
TEST(NcclConformance, Roots) { CheckRoots(OverFake(1 << 16)); }
TEST(NcclConformance, PartsOfUnequalSizes) { CheckUnequalParts(OverFake(1 << 15)); }
TEST(NcclConformance, Barrier) { CheckBarrier(OverFake(8192)); }
TEST(NcclConformance, ManyAtOnce) { CheckManyAtOnce(OverFake(8192)); }
TEST(NcclConformance, SpecialValues) { CheckSpecialValues(OverFake(8192)); }
TEST(NcclConformance, DifferentCallsEndTheGroupWithBothInWords) { CheckMismatch(OverFake(8192)); }
TEST(NcclConformance, RefusedCalls) { CheckRefusedCalls(OverFake(8192)); }
TEST(NcclConformance, AbortsReachAllRanks) {
  CheckAbort(OverFake(8192));
  for (int turn = 0; turn < 20; ++turn) CheckAbortsTogether(OverFake(8192));
}
TEST(NcclConformance, FailureAfterSomeCalls) { CheckFailureAfterSomeCalls(OverFake(8192)); }
TEST(NcclConformance, CallsThatTakeTooLongNameWhoIsMissing) { CheckTimeout(OverFake(8192)); }

}  // namespace
}  // namespace cohort
