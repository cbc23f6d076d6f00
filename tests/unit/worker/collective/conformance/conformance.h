#pragma once

// What every Communicator and every algorithm has to pass. Each check is one test of the room that
// has the implementation: TEST(ShmCommunicator, Reductions) { CheckReductions(Shm()); }

#include "tests/unit/worker/collective/conformance/group_run.h"

namespace cohort {

// Every type and reduction, 1 to 8 ranks, lengths 0, 1, 2, 1001 and 4096: the bits of the tree on
// every rank, or of the ring's order for the ring.
void CheckReductions(const Implementation& implementation);
// 1,045,991 elements in each operation by each algorithm, all-reduce of each type too.
void CheckLong(const Implementation& implementation);
// Broadcast and reduce from and to every root.
void CheckRoots(const Implementation& implementation);
// Reduce-scatter, all-gather and all-to-all with unequal and empty parts.
void CheckUnequalParts(const Implementation& implementation);
// No rank leaves a barrier before the last has come.
void CheckBarrier(const Implementation& implementation);
// Twenty operations under way at once, started in turns.
void CheckManyAtOnce(const Implementation& implementation);
// Infinities, NaN, negative zeros, halves at their limits.
void CheckSpecialValues(const Implementation& implementation);

// Different calls: both in words on all ranks, at once.
void CheckMismatch(const Implementation& implementation);
// A call that cannot be ends the group with what is wrong.
void CheckRefusedCalls(const Implementation& implementation);
// All calls under way and all later ones end with the cause of the first Abort.
void CheckAbort(const Implementation& implementation);
// Each rank aborts after 0 to 16 calls: all that the others start ends, with the right bits or with
// that cause.
void CheckFailureAfterSomeCalls(const Implementation& implementation);
// Abort on several ranks at the same time: one cause for all.
void CheckAbortsTogether(const Implementation& implementation);
// A call that takes too long names who has not come.
void CheckTimeout(const Implementation& implementation);

// One sum of all ranks, in place and apart, by this algorithm.
void CheckOneAllReduce(GroupUnderTest& group, int size, DType dtype, int64_t count,
                       CollectiveAlgorithm algorithm);

// All of the above but the last.
void CheckAll(const Implementation& implementation);

// What the ring gives: the sum of a chunk starts at the rank of its number and goes round.
std::vector<std::byte> RingReference(const CollectiveCall& call,
                                     const std::vector<std::vector<std::byte>>& inputs);

}  // namespace cohort
