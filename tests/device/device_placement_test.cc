// Which nodes of a program run on a device, and what is copied between the two memories.

#include <string>
#include <vector>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/kernels/cuda/register.h"
#include "common/runtime/run/placement.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;

// "Neg" on the device, "ArgMax (processor)", in their order.
std::vector<std::string> Walk(const onnx::ModelProto& model) {
  KernelRegistry device;
  RegisterCudaKernels(device);
  const std::vector<onnx::NodeProto> nodes(model.graph().node().begin(),
                                           model.graph().node().end());
  std::vector<std::string> walk;
  for (const PlacedNode& placed : PlaceNodes(model.graph(), nodes, device, {}).nodes) {
    walk.push_back(placed.node.op_type() + (placed.on_device ? "" : " (processor)"));
  }
  return walk;
}

std::vector<std::string> Walk(GraphBuilder& builder) {
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  return Walk(*model);
}

TEST(Placement, CopiesStandBeforeTheFirstThatNeedsThemAndOfOutputsAtTheEnd) {
  GraphBuilder builder("there_and_back");
  const std::string negated = builder.Op("Neg", {builder.Input("x", DType::kFloat32, {-1})});
  const std::string grown = builder.Op("Exp", {negated});
  builder.Output(negated);
  builder.Output(builder.Op("ArgMax", {grown}));
  builder.Output(builder.Op("Sqrt", {grown}));
  EXPECT_THAT(Walk(builder), ElementsAre("ToDevice", "Neg", "Exp", "ToHost", "ArgMax (processor)",
                                         "Sqrt", "ToHost", "ToHost"));
}

TEST(Placement, AValueIsCopiedToTheHostOnce) {
  GraphBuilder builder("two_readers");
  const std::string y = builder.Op("Neg", {builder.Input("x", DType::kFloat32, {3, 4})});
  builder.Output(builder.Op("ArgMax", {y}, {IntAttribute("axis", 0)}));
  builder.Output(builder.Op("ArgMax", {y}, {IntAttribute("axis", 1)}));
  builder.Output(y);
  EXPECT_THAT(Walk(builder),
              ElementsAre("ToDevice", "Neg", "ToHost", "ArgMax (processor)", "ArgMax (processor)"));
}

TEST(Placement, WhatCameFromTheHostIsStillThere) {
  GraphBuilder builder("both_sides");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  const std::string y = builder.Op("Neg", {x});
  builder.Output(builder.Op("ArgMax", {x}));
  builder.Output(builder.Op("Add", {x, y}));
  EXPECT_THAT(Walk(builder), ElementsAre("ToDevice", "Neg", "ArgMax (processor)", "Add", "ToHost"));
}

// Nothing would be gained: its bytes are where they are.
TEST(Placement, AReshapeFollowsItsInput) {
  const auto shape = Tensor::FromVector<int64_t>({-1}, Shape{1});
  GraphBuilder there("there");
  const std::string y = there.Op("Neg", {there.Input("x", DType::kFloat32, {2, 3})});
  there.Output(there.Op("Reshape", {y, there.Constant("shape", shape)}));
  EXPECT_THAT(Walk(there), ElementsAre("ToDevice", "Neg", "Reshape", "ToHost"));
  GraphBuilder here("here");
  const std::string x = here.Input("x", DType::kFloat32, {2, 3});
  here.Output(here.Op("Reshape", {x, here.Constant("shape", shape)}));
  EXPECT_THAT(Walk(here), ElementsAre("Reshape (processor)"));
}

TEST(Placement, OtherTypesAndUnknownOnesStayOnTheProcessor) {
  GraphBuilder builder("doubles");
  builder.Output(builder.Op("Neg", {builder.Input("x", DType::kFloat64, {-1})}));
  EXPECT_THAT(Walk(builder), ElementsAre("Neg (processor)"));
  onnx::ModelProto unknown;
  onnx::NodeProto& node = *unknown.mutable_graph()->add_node();
  node.set_op_type("Neg");
  node.add_input("x");
  node.add_output("y");
  unknown.mutable_graph()->add_input()->set_name("x");
  unknown.mutable_graph()->add_output()->set_name("y");
  EXPECT_THAT(Walk(unknown), ElementsAre("Neg (processor)"));
}

TEST(Placement, WindowsOfMoreAxesThanAKernelHasStayOnTheProcessor) {
  const auto pooling = [](int axes) {
    GraphBuilder builder("pooling");
    const std::vector<int64_t> dims(static_cast<size_t>(axes) + 2, 2);
    const std::vector<int64_t> kernel(static_cast<size_t>(axes), 2);
    builder.Output(builder.Op("MaxPool", {builder.Input("x", DType::kFloat32, dims)},
                              {IntsAttribute("kernel_shape", kernel)}));
    return Walk(builder);
  };
  EXPECT_THAT(pooling(3), ElementsAre("ToDevice", "MaxPool", "ToHost"));
  EXPECT_THAT(pooling(4), ElementsAre("MaxPool (processor)"));
}

TEST(Placement, ImagesOfOtherThanTwoAxesAreConvolvedOnTheProcessor) {
  const auto convolution = [](int axes) {
    GraphBuilder builder("convolution");
    const std::vector<int64_t> dims(static_cast<size_t>(axes) + 2, 2);
    const std::string x = builder.Input("x", DType::kFloat32, dims);
    builder.Output(builder.Op("Conv", {x, builder.Input("w", DType::kFloat32, dims)}));
    return Walk(builder);
  };
  EXPECT_THAT(convolution(2), ElementsAre("ToDevice", "ToDevice", "Conv", "ToHost"));
  EXPECT_THAT(convolution(1), ElementsAre("Conv (processor)"));
  EXPECT_THAT(convolution(3), ElementsAre("Conv (processor)"));
}

// A device reads no more of it than what the host knows.
TEST(Placement, AShapeAloneIsNotCopied) {
  GraphBuilder builder("shapes");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  const std::string y = builder.Op("Neg", {x});
  builder.Output(builder.Op("Size", {y}));
  builder.Output(builder.Op("ReshapeLike", {y, builder.Input("like", DType::kFloat32, {-1})}, {},
                            kCohortDomain));
  EXPECT_THAT(Walk(builder), ElementsAre("ToDevice", "Neg", "Size", "ReshapeLike", "ToHost"));
}

}  // namespace
}  // namespace cohort
