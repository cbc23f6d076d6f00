// Operations above 2 GiB. The memory is virtual: one MiB, mapped again and again, then a tail of
// its own, so that elements above 2 GiB are really sent and received and cost nothing.

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "common/wire/inprocess_transport.h"
#include "tests/unit/collective/lane_groups.h"

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

 private:
  const int fd_;
  std::byte* data_ = nullptr;
};

TEST(LargeCollectives, MoreThanTwoGigabytes) {
  RepeatedMemory input;
  RepeatedMemory output;
  ASSERT_NE(input.data(), nullptr);
  ASSERT_NE(output.data(), nullptr);
  for (size_t i = 0; i < kMiB; ++i) input.data()[i] = static_cast<std::byte>(i * 7);
  for (size_t i = 0; i < kTail; ++i) input.tail()[i] = static_cast<std::byte>(i * 13 + 1);
  LaneGroupSpec spec;
  spec.size = 2;
  LaneRanks ranks(std::make_shared<ThreadLaneWorld>(
                      [](Clock& clock, Executor& executor) {
                        return std::make_unique<InProcessTransport>(clock, executor);
                      },
                      "local:0"),
                  spec);
  CollectiveCall call;
  call.op = CollectiveOp::kBroadcast;
  call.dtype = DType::kUint8;
  call.count = static_cast<int64_t>(RepeatedMemory::size());
  call.name = "large";
  ASSERT_GT(call.count, int64_t{1} << 31);
  Event done[2];
  for (int rank = 0; rank < 2; ++rank) {
    CollectiveCall of_rank = call;
    if (rank == 0) of_rank.input = {input.data(), RepeatedMemory::size()};
    std::byte* const to = rank == 0 ? input.data() : output.data();
    of_rank.output = {to, RepeatedMemory::size()};
    ranks.Of(rank).Start(of_rank, [&done, rank](absl::Status status) {
      EXPECT_TRUE(status.ok()) << status;
      done[rank].Notify();
    });
  }
  for (const Event& event : done) ASSERT_TRUE(ranks.waiter().Wait(event, absl::Minutes(5)));
  EXPECT_EQ(std::memcmp(output.data(), input.data(), kMiB), 0);
  EXPECT_EQ(std::memcmp(output.tail(), input.tail(), kTail), 0);
}

}  // namespace
}  // namespace cohort
