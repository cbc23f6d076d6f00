// Many pushers and pullers at once. Run under the tsan preset too.

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/bundle.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

constexpr int kThreads = 4;
constexpr int kPushes = 100;
constexpr int64_t kRows = 5000;

void RunThreads(const std::function<void(int)>& body, int count = kThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back(body, i);
  for (std::thread& thread : threads) thread.join();
}

TEST(Concurrency, IntegerSumsAreExactThoughEveryPushIsSentTwice) {
  PsCluster cluster(1);
  ASSERT_TRUE(
      cluster
          .CreateAll(LayOut({{"a", DType::kInt64, Shape{kRows}, Rule("assign_add", {}), "zeros"},
                             {"b", DType::kInt32, Shape{}, Rule("assign_add", {}), "zeros"}},
                            1))
          .ok());
  RunThreads([&](int thread) {
    for (int i = 0; i < kPushes; ++i) {
      // Neighbouring threads share a closure: two attempts of it run at the same time.
      const uint64_t closure = 1 + static_cast<uint64_t>(i * kThreads / 2 + thread / 2);
      Tensor gradient(DType::kInt64, Shape{kRows});
      std::fill_n(gradient.mutable_data<int64_t>(), kRows, static_cast<int64_t>(closure));
      const std::vector<std::pair<uint32_t, Tensor>> both = {{1, gradient},
                                                             {2, Tensor::Scalar<int32_t>(1)}};
      const PushSpec spec = {.closure = closure, .worker = static_cast<uint64_t>(thread)};
      ASSERT_TRUE(cluster.Push(0, PushOf(spec, both)).ok());
    }
  });
  const int64_t closures = kPushes * kThreads / 2;
  const std::vector<Tensor> sums = *cluster.Pull(0, {1, 2});
  for (const int64_t sum : sums[0].span<int64_t>()) {
    ASSERT_EQ(sum, closures * (closures + 1) / 2);
  }
  EXPECT_EQ(sums[1].span<int32_t>()[0], closures);
  EXPECT_EQ(cluster.Stats(0).applied_slices(), static_cast<uint64_t>(2 * closures));
  EXPECT_EQ(cluster.Stats(0).duplicate_slices(), static_cast<uint64_t>(2 * closures));
}

// Each push adds 1 to all elements, so a pulled slice that was ever a value has equal elements,
// namely its version.
TEST(Concurrency, EveryPulledSliceIsAValueThatExisted) {
  PsCluster cluster(1);
  ASSERT_TRUE(cluster
                  .CreateAll(LayOut(
                      {{"a", DType::kFloat32, Shape{kRows}, Rule("assign_add", {}), "zeros"}}, 1))
                  .ok());
  Tensor ones(DType::kFloat32, Shape{kRows});
  std::fill_n(ones.mutable_data<float>(), kRows, 1.0f);
  RunThreads([&](int thread) {
    for (int i = 0; i < kPushes; ++i) {
      if (thread % 2 == 0) {
        const uint64_t closure = 1 + static_cast<uint64_t>(i * kThreads + thread);
        ASSERT_TRUE(cluster.Push(0, PushOf({.closure = closure}, {{1, ones}})).ok());
        continue;
      }
      const auto answer =
          cluster.Call<proto::PullResponse>(0, "/cohort.proto.PsService/Pull", PullOf({1}));
      ASSERT_TRUE(answer.ok());
      std::this_thread::yield();  // the lease is held while others push
      const Tensor pulled = (*ReadTensors(answer->header.tensors(), answer->payload))[0];
      const float expected = static_cast<float>(answer->header.versions(0));
      for (const float value : pulled.span<float>()) ASSERT_EQ(value, expected);
    }
  });
  EXPECT_EQ((*cluster.Pull(0, {1}))[0].span<float>()[7], kPushes * kThreads / 2);
}

// Each push adds 1 to all elements of the row that all want and of one of its own, while others
// read rows and lease the whole: nothing is lost, and no row is seen half written.
TEST(Concurrency, ThirtyTwoWritersOfOneRowLoseNothingAndNoRowIsTorn) {
  constexpr int kWriters = 32;
  constexpr int kReaders = 4;
  constexpr int64_t kWidth = 300;
  constexpr int64_t kShared = 500;
  const auto shard =
      MakeShard({"v", DType::kFloat32, Shape{1000, kWidth}, Rule("assign_add", {}), "zeros"});
  const auto open = []() -> absl::StatusOr<ClosureWindow> { return ClosureWindow{7, 0}; };
  Tensor ones(DType::kFloat32, Shape{2, kWidth});
  std::fill_n(ones.mutable_data<float>(), 2 * kWidth, 1.0f);
  const Payload payload = {SliceOf(ones)};
  const auto read = [&](int64_t row) {
    std::vector<float> values(kWidth);
    auto* const bytes = reinterpret_cast<std::byte*>(values.data());
    shard->ReadRowsFor({}, {row}, {bytes, kWidth * sizeof(float)});
    for (const float value : values) EXPECT_EQ(value, values[0]) << "torn";
    return values[0];
  };
  std::atomic<int> writing{kWriters};
  RunThreads(
      [&](int thread) {
        if (thread >= kWriters) {  // as long as anybody writes
          VariableSlice::Reading held;
          for (int i = 0; writing > 0; ++i) {
            read(kShared);
            if (i % 8 == 0) held = shard->Read();
          }
          return;
        }
        for (int i = 0; i < kPushes; ++i) {
          PayloadCursor cursor(payload);
          const auto closure = static_cast<uint64_t>(1 + i * kWriters + thread);
          EXPECT_FALSE(shard->ApplyRows({kShared, thread}, cursor, {.closure_id = closure}, open)
                           ->duplicate);
        }
        --writing;
      },
      kWriters + kReaders);
  EXPECT_EQ(read(kShared), kWriters * kPushes);
  for (int thread = 0; thread < kWriters; ++thread) EXPECT_EQ(read(thread), kPushes);
  EXPECT_EQ(shard->Read().version, static_cast<uint64_t>(kWriters * kPushes));
}

TEST(Concurrency, SavingWhilePushesGoOnWritesValuesThatExisted) {
  PsCluster cluster(1);
  ASSERT_TRUE(
      cluster
          .CreateAll(LayOut(
              {{"a", DType::kFloat32, Shape{kRows}, Rule("sgd", {{"momentum", 0.5}}), "zeros"}}, 1))
          .ok());
  Tensor ones(DType::kFloat32, Shape{kRows});
  std::fill_n(ones.mutable_data<float>(), kRows, 1.0f);
  RunThreads([&](int thread) {
    for (int i = 0; i < kPushes / 4; ++i) {
      if (thread != 0) {
        const uint64_t closure = 1 + static_cast<uint64_t>(i * kThreads + thread);
        ASSERT_TRUE(cluster.Push(0, PushOf({.closure = closure}, {{1, ones}})).ok());
        continue;
      }
      const std::string prefix = absl::StrCat("/model-", i);
      const auto slices = cluster.SaveShard(0, HoldRequest(prefix));
      ASSERT_TRUE(slices.ok()) << slices.status();
      ASSERT_EQ(slices->size(), 3u) << "value, slot, history";
      ASSERT_TRUE(WriteIndex(cluster.files(), prefix, 1, *slices).ok());
      const auto reader = *BundleReader::Open(cluster.files(), prefix);
      for (const auto& [name, tensor] : reader->tensors()) {
        if (tensor.dtype != DType::kFloat32) continue;
        const Tensor value = *reader->Read(name);
        for (const float x : value.span<float>()) ASSERT_EQ(x, value.span<float>()[0]) << name;
      }
    }
  });
}

}  // namespace
}  // namespace cohort
