#include "coordinator/model/onnx_file.h"

#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/coordinator/model/model_test_support.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kPath[] = "/out/model.onnx";

// y = (x + a) * b, with b a vector of many elements.
proto::Program Program(int64_t elements) {
  GraphBuilder graph("predict");
  const std::string x = graph.Input("x", DType::kFloat32, {elements});
  const std::string a = graph.Input("a", DType::kFloat32, {});
  const std::string b = graph.Input("b", DType::kFloat32, {elements});
  graph.Output(graph.Op("Mul", {graph.Op("Add", {x, a}), b}));
  const onnx::ModelProto model = *graph.Finish();
  proto::Program program;
  program.set_model(model.SerializeAsString());
  program.add_inputs()->set_input("x");
  program.mutable_inputs(0)->set_batch_component(0);
  for (const char* name : {"a", "b"}) {
    proto::InputBinding& binding = *program.add_inputs();
    binding.set_input(name);
    binding.set_variable(name);
  }
  program.add_outputs()->set_output(model.graph().output(0).name());
  program.mutable_outputs(0)->set_fetch(true);
  return program;
}

class OnnxFileTest : public ::testing::Test {
 protected:
  OnnxFileTest() { EXPECT_TRUE(files_.MakeDirectories("/out").ok()); }

  absl::Status Write(size_t file_bytes_max) {
    return WriteOnnx(
        files_, kPath, *PlanOnnxExport(Program(kElements)),
        [this](const std::string& variable) { return Read(variable); }, file_bytes_max);
  }
  absl::StatusOr<Tensor> Read(const std::string& variable) {
    EXPECT_TRUE(last_.expired()) << "the value of " << asked_.back() << " is still held";
    asked_.push_back(variable);
    if (variable == refuse_) return absl::UnavailableError("lost");
    Tensor value(DType::kFloat32, variable == "a" ? Shape{} : Shape{kElements});
    for (int64_t i = 0; i < value.num_elements(); ++i) {
      value.mutable_data<float>()[i] = static_cast<float>(i) - 3;
    }
    last_ = value.buffer();
    return value;
  }
  size_t SizeOf(const std::string& path) { return ReadFile(files_, path)->size(); }

  static constexpr int64_t kElements = 1000;
  MemoryFileSystem files_;
  std::vector<std::string> asked_;
  std::weak_ptr<Buffer> last_;
  std::string refuse_;
};

TEST_F(OnnxFileTest, OneFileHasAllValuesInOneMessage) {
  ASSERT_TRUE(Write(kOnnxFileBytesMax).ok());
  EXPECT_THAT(asked_, ElementsAre("a", "b"));
  EXPECT_THAT(*files_.List("/out"), ElementsAre("model.onnx"));
  const auto model = LoadModel(*ReadFile(files_, kPath));
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->graph().initializer_size(), 2);
  const auto result = RunGraph(
      *model, {Tensor::FromVector<float>(std::vector<float>(kElements, 5), Shape{kElements})});
  ASSERT_TRUE(result.ok()) << result.status();
  for (int64_t i = 0; i < kElements; ++i) {
    ASSERT_EQ((*result)[0].data<float>()[i], (5.0f - 3.0f) * (static_cast<float>(i) - 3));
  }
}

TEST_F(OnnxFileTest, TheLimitIsOfTheWholeFile) {
  ASSERT_TRUE(Write(kOnnxFileBytesMax).ok());
  const size_t bytes = SizeOf(kPath);
  ASSERT_TRUE(Write(bytes).ok());
  EXPECT_THAT(*files_.List("/out"), ElementsAre("model.onnx"));
  ASSERT_TRUE(Write(bytes - 1).ok());
  EXPECT_THAT(*files_.List("/out"), ElementsAre("model.onnx", "model.onnx.data"));
}

TEST_F(OnnxFileTest, ALargerModelHasItsValuesBesideIt) {
  ASSERT_TRUE(Write(100).ok());
  EXPECT_THAT(asked_, ElementsAre("a", "b"));
  onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(*ReadFile(files_, kPath)));
  const std::string data = *ReadFile(files_, absl::StrCat(kPath, ".data"));
  ASSERT_EQ(model.graph().initializer_size(), 2);
  for (onnx::TensorProto& tensor : *model.mutable_graph()->mutable_initializer()) {
    EXPECT_EQ(tensor.data_location(), onnx::TensorProto::EXTERNAL);
    EXPECT_FALSE(tensor.has_raw_data());
    std::map<std::string, std::string> external;
    for (const auto& entry : tensor.external_data()) external[entry.key()] = entry.value();
    EXPECT_EQ(external.at("location"), "model.onnx.data");
    size_t offset = 0;
    size_t length = 0;
    ASSERT_TRUE(absl::SimpleAtoi(external.at("offset"), &offset));
    ASSERT_TRUE(absl::SimpleAtoi(external.at("length"), &length));
    EXPECT_EQ(offset % 4096, 0u);
    ASSERT_LE(offset + length, data.size());
    // As a reader of external data does.
    tensor.set_raw_data(data.substr(offset, length));
    tensor.clear_external_data();
    tensor.clear_data_location();
  }
  const auto whole = LoadModel(model.SerializeAsString());
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->SerializeAsString().size(), [this] {
    EXPECT_TRUE(Write(kOnnxFileBytesMax).ok());
    return SizeOf(kPath);
  }());
}

TEST_F(OnnxFileTest, AValueThatCannotBeReadLeavesWhatWasThere) {
  for (const size_t file_bytes_max : {kOnnxFileBytesMax, size_t{100}}) {
    ASSERT_TRUE(WriteFileAtomically(files_, kPath, "old").ok());
    refuse_ = "b";
    EXPECT_EQ(Write(file_bytes_max).message(), "lost");
    EXPECT_EQ(*ReadFile(files_, kPath), "old");
    EXPECT_THAT(*files_.List("/out"), ElementsAre("model.onnx"));
  }
}

TEST_F(OnnxFileTest, TemporaryFilesOfAKilledWriterAreRemoved) {
  for (const char* name : {"model.onnx", "model.onnx.data"}) {
    const std::string left = absl::StrCat("/out/", name, ".0123456789abcdef.tmp");
    ASSERT_TRUE((*files_.Create(left))->Close().ok());
  }
  ASSERT_TRUE(Write(100).ok());
  EXPECT_THAT(*files_.List("/out"), ElementsAre("model.onnx", "model.onnx.data"));
}

TEST_F(OnnxFileTest, AVariableWithoutAFixedSizeIsNoInitializer) {
  GraphBuilder graph("predict");
  const std::string w = graph.Input("w", DType::kFloat32, {-1, 2});
  graph.Output(graph.Op("Relu", {w}));
  const onnx::ModelProto model = *graph.Finish();
  proto::Program program;
  program.set_model(model.SerializeAsString());
  program.add_inputs()->set_input("w");
  program.mutable_inputs(0)->set_variable("w");
  program.add_outputs()->set_output(model.graph().output(0).name());
  program.mutable_outputs(0)->set_fetch(true);
  EXPECT_THAT(std::string(PlanOnnxExport(program).status().message()),
              HasSubstr("variable 'w' has an axis of no fixed size"));
}

}  // namespace
}  // namespace cohort
