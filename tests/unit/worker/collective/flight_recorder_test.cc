#include "worker/collective/flight_recorder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::HasSubstr;

TEST(FlightRecorder, SaysWhoIsWaitedForAndWhatWasDoneLast) {
  FlightRecorder recorder({{"workers", 3}, 2, 4, {}});
  EXPECT_EQ(recorder.LastDone(), "no call");
  const absl::Time start = absl::FromUnixSeconds(1000);
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.dtype = DType::kBfloat16;
  call.name = "bucket 3";
  std::vector<std::byte> memory(64);
  call.input = memory;
  recorder.Started({7, &call, CollectiveAlgorithm::kTwoShot, {0, 1, 3}}, start);
  recorder.Heard(7, 1, start + absl::Microseconds(20));
  EXPECT_THAT(recorder.Newest(1),
              HasSubstr("7 all-reduce 'bucket 3' 64 bfloat16 two-shot under-way "
                        "1970-01-01T00:16:40+00:00 20us - [0,3]"));
  EXPECT_EQ(recorder.LastDone(), "no call");
  recorder.Heard(7, 0, start + absl::Microseconds(30));
  recorder.Heard(7, 3, start + absl::Microseconds(40));
  recorder.Ended(7, absl::OkStatus(), start + absl::Microseconds(55));
  EXPECT_THAT(recorder.Newest(1), HasSubstr("done 1970-01-01T00:16:40+00:00 40us 55us []"));
  EXPECT_EQ(recorder.LastDone(), "call 7, all-reduce 'bucket 3'");
}

TEST(FlightRecorder, KeepsTheLast4096) {
  FlightRecorder recorder({{"workers", 3}, 0, 1, {}});
  CollectiveCall call;
  call.op = CollectiveOp::kBarrier;
  for (uint64_t sequence = 0; sequence < 5000; ++sequence) {
    recorder.Started({sequence, &call, CollectiveAlgorithm::kAuto, {}}, absl::UnixEpoch());
    recorder.Ended(sequence, sequence < 4999 ? absl::OkStatus() : absl::CancelledError("x"),
                   absl::UnixEpoch());
  }
  const std::vector<FlightRecord> records = recorder.Records();
  ASSERT_EQ(records.size(), 4096u);
  EXPECT_EQ(records.front().sequence, 904u);
  EXPECT_EQ(records.back().sequence, 4999u);
  EXPECT_EQ(records.back().state, FlightRecord::State::kFailed);
  EXPECT_EQ(recorder.LastDone(), "call 4998, barrier");
}

}  // namespace
}  // namespace cohort
