#include "coordinator/job/data_spec.h"

#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

proto::ElementSpec Images(DType dtype = DType::kUint8) {
  proto::ElementSpec element;
  proto::ComponentSpec* x = element.add_components();
  x->set_dtype(static_cast<int32_t>(dtype));
  for (const int64_t dim : {-1, 28, 28}) x->add_dims(dim);
  proto::ComponentSpec* y = element.add_components();
  y->set_dtype(static_cast<int32_t>(DType::kUint8));
  y->add_dims(-1);
  return element;
}

TransformSpec Transform(TransformSpec::Kind kind, uint32_t component) {
  TransformSpec transform;
  transform.kind = kind;
  transform.component = component;
  transform.scale = 0.5;
  transform.offset = -1;
  transform.num_tokens = 10;
  return transform;
}

constexpr auto kFlatten = TransformSpec::Kind::kFlatten;
constexpr auto kRescaling = TransformSpec::Kind::kRescaling;
constexpr auto kEncoding = TransformSpec::Kind::kCategoryEncoding;

absl::StatusOr<proto::ElementSpec> Transformed(const std::vector<TransformSpec>& pipeline,
                                               const proto::ElementSpec& batch) {
  DataSpec data;
  data.pipeline = pipeline;
  return TransformElement(batch, PipelineTransforms(data));
}

TEST(DataSpec, PipelineBecomesDatasetTransformsInOrder) {
  DataSpec data;
  data.pipeline = {Transform(kFlatten, 0), Transform(kRescaling, 0), Transform(kEncoding, 1)};
  const std::vector<proto::DatasetTransform> transforms = PipelineTransforms(data);
  ASSERT_EQ(transforms.size(), 3u);
  ASSERT_TRUE(transforms[0].has_flatten());
  EXPECT_EQ(transforms[0].flatten(), 0u);
  EXPECT_EQ(transforms[1].rescale().scale(), 0.5);
  EXPECT_EQ(transforms[1].rescale().offset(), -1);
  EXPECT_EQ(transforms[2].one_hot().component(), 1u);
  EXPECT_EQ(transforms[2].one_hot().depth(), 10);
}

TEST(DataSpec, ElementTypesFollowThePipeline) {
  const auto element = Transformed(
      {Transform(kFlatten, 0), Transform(kRescaling, 0), Transform(kEncoding, 1)}, Images());
  ASSERT_TRUE(element.ok()) << element.status();
  EXPECT_EQ(element->components(0).dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(element->components(0).dims(), ElementsAre(-1, 784));
  EXPECT_EQ(element->components(1).dtype(), static_cast<int32_t>(DType::kFloat32));
  EXPECT_THAT(element->components(1).dims(), ElementsAre(-1, 10));
}

TEST(DataSpec, WithoutAPipelineTheTypeStays) {
  EXPECT_EQ(Transformed({}, Images())->SerializeAsString(), Images().SerializeAsString());
}

TEST(DataSpec, TransformsThatDoNotFitAreErrorsThatNameThem) {
  const auto message = [](const std::vector<TransformSpec>& pipeline) {
    return std::string(Transformed(pipeline, Images()).status().message());
  };
  EXPECT_THAT(message({Transform(kEncoding, 0)}),
              HasSubstr("data.pipeline.0 (CategoryEncoding) of x uint8[-1,28,28]"));
  EXPECT_THAT(message({Transform(kEncoding, 1), Transform(kEncoding, 1)}),
              HasSubstr("data.pipeline.1 (CategoryEncoding) of y float32[-1,10]"));
  proto::ElementSpec only_x = Images();
  only_x.mutable_components()->RemoveLast();
  EXPECT_THAT(std::string(Transformed({Transform(kEncoding, 1)}, only_x).status().message()),
              HasSubstr("1 components, none for 'y'"));
}

}  // namespace
}  // namespace cohort
