// Sums of gradients that travel in 16 bits. The expectations are worked out by hand: the nearest
// float16 and bfloat16 of a third, and of that and one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "tests/support/communicators/inprocess_communicator.h"
#include "tests/support/test_seed.h"
#include "tests/support/world/sim_world.h"
#include "worker/gang/group_sum.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr float kThird = 1.0f / 3;

Tensor Floats(std::vector<float> values) {
  Tensor tensor(DType::kFloat32, Shape{static_cast<int64_t>(values.size())});
  std::copy(values.begin(), values.end(), tensor.mutable_data<float>());
  return tensor;
}

using Sums = std::vector<std::vector<float>>;

// What each of two members gets for summands {1/3, 1} and {1, 1}, once as a gradient is a gradient
// and the second is not.
std::vector<Sums> SumsOfTwo(DType gradient_dtype) {
  SimWorld world(TestSeed(1));
  InProcessGroup ranks(world, world, {{"workers", 1}, 2, 1});
  std::vector<std::optional<absl::StatusOr<std::vector<Tensor>>>> results(2);
  GroupCommunication communication;
  communication.gradient_dtype = gradient_dtype;
  for (int rank = 0; rank < 2; ++rank) {
    const Tensor value = rank == 0 ? Floats({kThird, 1}) : Floats({1, 1});
    SumOverGroup(std::make_shared<GangGroup>(ranks.CommunicatorOf(rank), world), communication,
                 {{"kernel", value, false, true}, {"loss", value, false, false}},
                 [&results, rank](auto sums) { results[static_cast<size_t>(rank)] = sums; });
  }
  world.RunUntil([] { return false; }, absl::Minutes(1));
  std::vector<Sums> all;
  for (auto& result : results) {
    EXPECT_TRUE(result.has_value() && result->ok());
    Sums sums;
    for (const Tensor& sum : **result) {
      EXPECT_EQ(sum.dtype(), DType::kFloat32);
      sums.emplace_back(sum.span<float>().begin(), sum.span<float>().end());
    }
    all.push_back(std::move(sums));
  }
  return all;
}

void ExpectOnBoth(DType gradient_dtype, float sum) {
  for (const Sums& sums : SumsOfTwo(gradient_dtype)) {
    EXPECT_THAT(sums, ElementsAre(ElementsAre(sum, 2), ElementsAre(kThird + 1, 2)));
  }
}

TEST(RoundedSum, GradientsTravelAsTheyAre) { ExpectOnBoth(DType::kFloat32, kThird + 1); }

// 1365 / 4096, and 1 more is 1365.25 / 1024: 1365.
TEST(RoundedSum, GradientsTravelAsFloat16) { ExpectOnBoth(DType::kFloat16, 1365.0f / 1024); }

// 171 / 512, and 1 more is 170.75 / 128: 171.
TEST(RoundedSum, GradientsTravelAsBfloat16) { ExpectOnBoth(DType::kBfloat16, 171.0f / 128); }

TEST(RoundedSum, NoOtherTypeTravels) {
  proto::Communication communication;
  communication.set_gradient_dtype(static_cast<int32_t>(DType::kInt32));
  EXPECT_THAT(CommunicationOf(communication).status().message(), HasSubstr("bfloat16"));
}

}  // namespace
}  // namespace cohort
