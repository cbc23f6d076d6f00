// ONNX's own operator tests (packed by collect_onnx_node_tests.py) on each backend, with ONNX's
// tolerances.

#include <cmath>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/program/tensor_proto.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/device/backends.h"

namespace cohort {
namespace {

constexpr double kRelative = 1e-3;
constexpr double kAbsolute = 1e-7;

// Contents by file name ("model.onnx", "input_0.pb"), by case.
using Cases = std::map<std::string, std::map<std::string, std::string>>;

Cases ReadPack(const std::string& family) {
  std::ifstream file(COHORT_SOURCE_DIR "/tests/device/onnx_node_data/" + family + ".pack",
                     std::ios::binary);
  Cases cases;
  std::string header;
  while (std::getline(file, header)) {
    const size_t space = header.find(' ');
    const size_t slash = header.find('/');
    std::string content(std::stoul(header.substr(space + 1)), '\0');
    file.read(content.data(), static_cast<std::streamsize>(content.size()));
    cases[header.substr(0, slash)][header.substr(slash + 1, space - slash - 1)] = content;
  }
  return cases;
}

std::vector<Tensor> ReadTensors(const std::map<std::string, std::string>& files,
                                const std::string& stem) {
  std::vector<Tensor> tensors;
  for (int i = 0;; ++i) {
    const auto it = files.find(stem + std::to_string(i) + ".pb");
    if (it == files.end()) return tensors;
    onnx::TensorProto proto;
    EXPECT_TRUE(proto.ParseFromString(it->second));
    absl::StatusOr<Tensor> tensor = FromTensorProto(proto);
    EXPECT_TRUE(tensor.ok()) << tensor.status();
    tensors.push_back(tensor.ok() ? *tensor : Tensor());
  }
}

template <typename T>
void ExpectClose(const Tensor& actual, const Tensor& expected) {
  for (int64_t i = 0; i < expected.num_elements(); ++i) {
    const double a = static_cast<double>(actual.data<T>()[i]);
    const double e = static_cast<double>(expected.data<T>()[i]);
    if (std::isnan(e) && std::isnan(a)) continue;
    if (a == e) continue;
    ASSERT_LE(std::abs(a - e), kAbsolute + kRelative * std::abs(e)) << "element " << i;
  }
}

void ExpectSame(const Tensor& actual, const Tensor& expected) {
  ASSERT_EQ(actual.TypeString(), expected.TypeString());
  switch (expected.dtype()) {
    case DType::kFloat32:
      return ExpectClose<float>(actual, expected);
    case DType::kFloat64:
      return ExpectClose<double>(actual, expected);
    case DType::kInt32:
      return ExpectClose<int32_t>(actual, expected);
    case DType::kInt64:
      return ExpectClose<int64_t>(actual, expected);
    case DType::kUint8:
      return ExpectClose<uint8_t>(actual, expected);
    case DType::kInt8:
      return ExpectClose<int8_t>(actual, expected);
    case DType::kBool:
      return ExpectClose<bool>(actual, expected);
    default:
      FAIL() << "no comparison for " << expected.TypeString();
  }
}

void CheckCases(const std::string& family, const Backend& backend) {
  const Cases cases = ReadPack(family);
  ASSERT_FALSE(cases.empty());
  for (const auto& [name, files] : cases) {
    SCOPED_TRACE(name + " on " + backend.name);
    const absl::StatusOr<onnx::ModelProto> model = LoadModel(files.at("model.onnx"));
    ASSERT_TRUE(model.ok()) << model.status();
    const std::vector<Tensor> inputs = ReadTensors(files, "input_");
    const std::vector<Tensor> expected = ReadTensors(files, "output_");
    ASSERT_FALSE(expected.empty());
    const auto runner = MakeRunner(backend, *model);
    ASSERT_TRUE(runner.ok()) << runner.status();
    // Twice: the second run takes its memory from the plan of the first.
    for (int run = 0; run < 2; ++run) {
      const auto outputs = (*runner)->Run(inputs, RunContext{});
      ASSERT_TRUE(outputs.ok()) << outputs.status();
      ASSERT_EQ(outputs->size(), expected.size());
      for (size_t i = 0; i < expected.size(); ++i) ExpectSame((*outputs)[i], expected[i]);
    }
  }
}

constexpr const char* kFamilies[] = {"arithmetic",
                                     "unary",
                                     "matmul",
                                     "softmax",
                                     "loss",
                                     "dropout",
                                     "reduce",
                                     "movement",
                                     "indexing",
                                     "size",
                                     "convolution",
                                     "pooling",
                                     "normalization",
                                     "functions",
                                     "logic",
                                     "binary",
                                     "reduce_more",
                                     "slicing",
                                     "shapes",
                                     "scattering",
                                     "transposed",
                                     "einsum",
                                     "row_normalization",
                                     "resize",
                                     "recurrent"};

class OnnxNodeTest : public testing::TestWithParam<const char*> {};

TEST_P(OnnxNodeTest, GivesOnnxResults) {
  CheckCases(GetParam(), CpuBackend());
  CheckCases(GetParam(), ReferenceBackend());
}

INSTANTIATE_TEST_SUITE_P(Families, OnnxNodeTest, testing::ValuesIn(kFamilies));

using OnnxNodeDeviceTest = OnCudaDevices;

TEST_P(OnnxNodeDeviceTest, GivesOnnxResults) {
  const Backend backend = DeviceBackend(*table(), GetParam());
  for (const char* const family : kFamilies) CheckCases(family, backend);
}

COHORT_ON_CUDA_DEVICES(OnnxNodeDeviceTest);

}  // namespace
}  // namespace cohort
