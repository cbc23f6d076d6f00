#include "common/program/graph_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "common/program/tensor_proto.h"
#include "common/program/value_types.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string TypeOf(const onnx::ModelProto& model, const std::string& value) {
  return TypeText(ValueTypes(model.graph()).Find(value));
}

TEST(GraphBuilder, KeepsTheSymbolicBatch) {
  GraphBuilder builder("mlp");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 28, 28});
  const auto w = builder.Input("w", DType::kFloat32, {784, 10});
  const auto flat = builder.Op("Flatten", {x}, {IntAttribute("axis", 1)});
  const auto y = builder.Op("MatMul", {flat, w});
  builder.Output(y);
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TypeOf(*model, flat), "float32[N,784]");
  EXPECT_EQ(TypeOf(*model, y), "float32[N,10]");
}

TEST(GraphBuilder, KeepsTheSymbolicBatchThroughReshapeToMinusOne) {
  GraphBuilder builder("mlp");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 28, 28});
  const auto shape = builder.Constant("shape", Tensor::FromVector<int64_t>({-1, 784}, {2}));
  const auto back = builder.Constant("back", Tensor::FromVector<int64_t>({-1, 14, 56}, {3}));
  const auto flat = builder.Op("Reshape", {x, shape});
  const auto image = builder.Op("Reshape", {builder.Op("Relu", {flat}), back});
  builder.Output(image);
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TypeOf(*model, flat), "float32[N,784]");
  EXPECT_EQ(TypeOf(*model, image), "float32[N,14,56]");
}

TEST(GraphBuilder, DoesNotInventABatchWhenReshapeChangesIt) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {-1, 4});
  const auto shape = builder.Constant("shape", Tensor::FromVector<int64_t>({-1, 2}, {2}));
  const auto y = builder.Op("Reshape", {x, shape});
  builder.Output(y);
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(TypeOf(*model, y), Not(HasSubstr("N")));
}

TEST(GraphBuilder, NamesNodesByPrefixAndNeverTwice) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {2});
  builder.SetNamePrefix("dense_1/");
  const auto a = builder.Op("Relu", {x});
  const auto b = builder.Op("Relu", {a});
  builder.Output(b);
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->graph().node(0).name(), "dense_1/Relu");
  EXPECT_EQ(model->graph().node(1).name(), "dense_1/Relu_1");

  GraphBuilder more(*model);
  more.SetNamePrefix("dense_1/");
  more.Output(more.Op("Relu", {b}));
  const auto longer = more.Finish();
  ASSERT_TRUE(longer.ok()) << longer.status();
  EXPECT_EQ(longer->graph().node(2).name(), "dense_1/Relu_2");
}

TEST(GraphBuilder, ListsEveryOffendingNode) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {2});
  const auto a = builder.Op("Rellu", {x});
  const auto b = builder.Op("Frobnicate", {a}, {}, kCohortDomain);
  const auto c = builder.Op("Add", {b});
  const auto d = builder.Op("Relu", {"nowhere"});
  const auto e = builder.Op("Softmax", {x}, {IntAttribute("axes", 1)});
  const auto f = builder.Op("Relu", {x}, {}, "com.example");
  for (const auto& value : {c, d, e, f}) builder.Output(value);
  const auto model = builder.Finish();
  ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text(model.status().message());
  EXPECT_THAT(text, HasSubstr("6 problems"));
  EXPECT_THAT(text, HasSubstr("\"Rellu\" (onnx.Rellu): unknown operator"));
  EXPECT_THAT(text, HasSubstr("\"Frobnicate\" (cohort.Frobnicate): unknown operator"));
  EXPECT_THAT(text, HasSubstr("\"Add\" (onnx.Add)"));
  EXPECT_THAT(text, HasSubstr("\"nowhere\" is not made before it"));
  EXPECT_THAT(text, HasSubstr("\"Softmax\" (onnx.Softmax)"));
  EXPECT_THAT(text, HasSubstr("\"Relu_1\" (com.example.Relu): the model imports no opset"));
}

TEST(GraphBuilder, FindsContradictingShapesAndTypes) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {2, 3});
  const auto y = builder.Input("y", DType::kFloat32, {4, 5});
  const auto i = builder.Input("i", DType::kInt64, {2, 3});
  builder.Output(builder.Op("MatMul", {x, y}));
  builder.Output(builder.Op("Add", {x, i}));
  builder.Output(builder.Op("ReluGrad", {x, y}, {}, kCohortDomain));
  const auto model = builder.Finish();
  ASSERT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string text(model.status().message());
  EXPECT_THAT(text, HasSubstr("MatMul"));
  EXPECT_THAT(text, HasSubstr("Add"));
  EXPECT_THAT(text, HasSubstr("ReluGrad"));
}

TEST(GraphBuilder, PassesAnInputThrough) {
  GraphBuilder builder("g");
  const auto x = builder.Input("x", DType::kFloat32, {-1});
  builder.Output(x);
  const auto model = builder.Finish();
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(TypeText(&model->graph().output(0).type()), "float32[N]");
}

TEST(TensorProto, RoundTripsEveryType) {
  const std::vector<Tensor> tensors = {Tensor::FromVector<float>({1.5f, -2.0f}, {2}),
                                       Tensor::FromVector<double>({1e300}, {1, 1}),
                                       Tensor::FromVector<int64_t>({-5, 1LL << 40}, {2}),
                                       Tensor::Scalar<int32_t>(-7),
                                       Tensor::FromVector<uint8_t>({255, 0}, {2}),
                                       Tensor::Scalar<bool>(true),
                                       Tensor(DType::kFloat32, Shape{0, 3})};
  for (const Tensor& tensor : tensors) {
    const auto back = FromTensorProto(ToTensorProto("t", tensor));
    ASSERT_TRUE(back.ok()) << back.status();
    EXPECT_EQ(back->TypeString(), tensor.TypeString());
    EXPECT_EQ(memcmp(back->raw(), tensor.raw(), tensor.num_bytes()), 0);
  }
}

TEST(TensorProto, ReadsTypedFields) {
  onnx::TensorProto proto;
  proto.set_data_type(onnx::TensorProto::UINT8);
  proto.add_dims(2);
  proto.add_int32_data(3);
  proto.add_int32_data(250);
  const auto tensor = FromTensorProto(proto);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->data<uint8_t>()[1], 250);
}

TEST(TensorProto, RefusesWhatDoesNotFit) {
  onnx::TensorProto proto = ToTensorProto("w", Tensor::FromVector<float>({1, 2}, {2}));
  proto.set_dims(0, 3);
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("\"w\": 8 bytes"));
  proto.set_dims(0, -1);
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("negative"));
  proto.set_dims(0, int64_t{1} << 62);
  proto.add_dims(8);
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("too many"));
  // A dimension of 0 hides none of the others.
  proto.add_dims(0);
  proto.clear_raw_data();
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("too many"));
  proto.mutable_dims()->SwapElements(0, 2);
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("too many"));
  proto.set_data_type(onnx::TensorProto::STRING);
  EXPECT_THAT(FromTensorProto(proto).status().message(), HasSubstr("element type"));
}

}  // namespace
}  // namespace cohort
