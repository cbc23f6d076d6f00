// Operations above 2 GiB, by each way between two ranks. The memory is virtual: one MiB, mapped
// again and again, then a tail of its own, so that elements above 2 GiB are really sent and
// received and cost nothing.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/wire/grpc/grpc_transport.h"
#include "common/wire/inprocess_transport.h"
#include "tests/unit/worker/collective/lane_groups.h"
#include "tests/unit/worker/collective/over_tcp.h"
#include "tests/unit/worker/collective/shm/shm_groups.h"

namespace cohort {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kRepeats = 2048;
constexpr size_t kTail = 3 * 4096;

// Thread-compatible.
class RepeatedMemory {
 public:
  RepeatedMemory() : fd_(memfd_create("repeated", 0)) {
    void* const all = mmap(nullptr, size(), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (fd_ < 0 || all == MAP_FAILED || ftruncate(fd_, kMiB) != 0) return;
    data_ = static_cast<std::byte*>(all);
    for (size_t i = 0; i < kRepeats; ++i) {
      void* const part =
          mmap(data_ + i * kMiB, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd_, 0);
      if (part == MAP_FAILED) data_ = nullptr;
      if (data_ == nullptr) return;
    }
  }
  ~RepeatedMemory() {
    if (data_ != nullptr) munmap(data_, size());
    if (fd_ >= 0) close(fd_);
  }
  RepeatedMemory(const RepeatedMemory&) = delete;
  RepeatedMemory& operator=(const RepeatedMemory&) = delete;

  static size_t size() { return kRepeats * kMiB + kTail; }
  std::byte* data() const { return data_; }  // null: there is no such memory here
  std::byte* tail() const { return data_ + kRepeats * kMiB; }
  // One MiB of it, and the tail.
  absl::Span<float> floats() const {
    return {reinterpret_cast<float*>(data_), kMiB / sizeof(float)};
  }
  absl::Span<float> tail_floats() const {
    return {reinterpret_cast<float*>(tail()), kTail / sizeof(float)};
  }

 private:
  const int fd_;
  std::byte* data_ = nullptr;
};

// By which two ranks of this process send each other what they have.
struct Way {
  std::string name;
  std::function<std::unique_ptr<GroupUnderTest>()> make;
};

Way OverFrames(const std::string& name, ThreadLaneWorld::MakeTransport make,
               const std::string& address) {
  return {name, [make = std::move(make), address] {
            LaneGroupSpec spec;
            spec.size = 2;
            return std::make_unique<LaneRanks>(std::make_shared<ThreadLaneWorld>(make, address),
                                               spec);
          }};
}

std::vector<Way> AllWays() {
  std::vector<Way> ways = {{"shared memory", [] { return std::make_unique<ShmGroup>(2); }},
                           OverFrames(
                               "in-process frames",
                               [](Clock& clock, Executor& executor) {
                                 return std::make_unique<InProcessTransport>(clock, executor);
                               },
                               "local:0")};
#ifndef __SANITIZE_THREAD__  // sees neither the locks of Debian's gRPC nor frames that lie in place
  ways.push_back(OverFrames("TCP", OverTcp, "127.0.0.1:0"));
  ways.push_back(OverFrames(
      "gRPC", [](Clock&, Executor&) { return std::make_unique<GrpcTransport>(); }, "127.0.0.1:0"));
#endif
  return ways;
}

// The call of both ranks, with the memory of each.
void RunOnBoth(GroupUnderTest& group, CollectiveCall call, const RepeatedMemory* inputs[2],
               RepeatedMemory* outputs[2]) {
  Event done[2];
  for (int rank = 0; rank < 2; ++rank) {
    call.input = {};
    if (inputs[rank] != nullptr) call.input = {inputs[rank]->data(), RepeatedMemory::size()};
    call.output = {outputs[rank]->data(), RepeatedMemory::size()};
    group.Of(rank).Start(call, [&done, rank](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      done[rank].Notify();
    });
  }
  for (const Event& event : done) ASSERT_TRUE(group.waiter().Wait(event, absl::Minutes(5)));
}

TEST(LargeCollectives, BroadcastOfMoreThanTwoGigabytesAndTwoToThe31Elements) {
  RepeatedMemory input;
  RepeatedMemory output;
  ASSERT_NE(input.data(), nullptr);
  ASSERT_NE(output.data(), nullptr);
  for (size_t i = 0; i < kMiB; ++i) input.data()[i] = static_cast<std::byte>(i * 7);
  for (size_t i = 0; i < kTail; ++i) input.tail()[i] = static_cast<std::byte>(i * 13 + 1);
  CollectiveCall call;
  call.op = CollectiveOp::kBroadcast;
  call.dtype = DType::kUint8;
  call.count = static_cast<int64_t>(RepeatedMemory::size());
  call.name = "large";
  ASSERT_GT(call.count, int64_t{1} << 31);
  for (const Way& way : AllWays()) {
    SCOPED_TRACE(way.name);
    std::memset(output.data(), 0, kMiB);
    std::memset(output.tail(), 0, kTail);
    const RepeatedMemory* inputs[] = {&input, nullptr};
    RepeatedMemory* outputs[] = {&input, &output};
    RunOnBoth(*way.make(), call, inputs, outputs);
    EXPECT_EQ(std::memcmp(output.data(), input.data(), kMiB), 0);
    EXPECT_EQ(std::memcmp(output.tail(), input.tail(), kTail), 0);
  }
}

#ifndef __SANITIZE_THREAD__  // keeps several bytes for each, and knows no memory that repeats
void FillWhole(absl::Span<float> values, int factor) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(factor * static_cast<int>(i % 997) + 1);
  }
}

// Elements that lie in the same place get the same sum, also while both are written.
TEST(LargeCollectives, SumOfMoreThanTwoGigabytes) {
  RepeatedMemory in[2];
  RepeatedMemory out[2];
  for (int rank = 0; rank < 2; ++rank) {
    ASSERT_NE(in[rank].data(), nullptr);
    ASSERT_NE(out[rank].data(), nullptr);
    FillWhole(in[rank].floats(), rank + 2);
    FillWhole(in[rank].tail_floats(), rank + 5);
  }
  CollectiveCall call;
  call.op = CollectiveOp::kAllReduce;
  call.dtype = DType::kFloat32;
  call.count = static_cast<int64_t>(RepeatedMemory::size() / sizeof(float));
  call.name = "large";
  for (const Way& way : AllWays()) {
    for (RepeatedMemory& memory : out) {
      std::memset(memory.data(), 0, kMiB);
      std::memset(memory.tail(), 0, kTail);
    }
    const RepeatedMemory* inputs[] = {&in[0], &in[1]};
    RepeatedMemory* outputs[] = {&out[0], &out[1]};
    RunOnBoth(*way.make(), call, inputs, outputs);
    size_t wrong = 0;
    for (RepeatedMemory& memory : out) {
      for (size_t i = 0; i < memory.floats().size(); ++i) {
        wrong += memory.floats()[i] != in[0].floats()[i] + in[1].floats()[i];
      }
      for (size_t i = 0; i < memory.tail_floats().size(); ++i) {
        wrong += memory.tail_floats()[i] != in[0].tail_floats()[i] + in[1].tail_floats()[i];
      }
    }
    EXPECT_EQ(wrong, 0u) << way.name;
  }
}
#endif

}  // namespace
}  // namespace cohort
