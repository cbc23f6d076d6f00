// Bundles that Cohort wrote, read by TensorFlow itself where it is installed. Without it the bytes
// are still compared with TensorFlow's in bundle_golden_test.cc.

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <random>

#include "absl/strings/str_join.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "tests/unit/common/checkpoint/bundle_support.h"

namespace cohort {
namespace {

constexpr int kExitWithoutTensorFlow = 77;

template <typename T>
Tensor RampOf(const Shape& shape) {
  Tensor tensor(DTypeOf<T>::value, shape);
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<T>()[i] = static_cast<T>(i % 100);
  }
  return tensor;
}

template <typename T>
std::string ExpectedLine(const std::string& name, const Tensor& tensor) {
  std::vector<double> values;
  for (T value : tensor.span<T>()) values.push_back(static_cast<double>(value));
  return absl::StrCat("x\t", name, "\t", DTypeName(tensor.dtype()), "\t",
                      absl::StrJoin(tensor.shape().dims(), ","), "\t", absl::StrJoin(values, " "),
                      "\n");
}

struct Job {
  std::vector<Piece> pieces;
  std::string expected;

  template <typename T>
  void Add(const std::string& name, const Shape& shape, int slices) {
    const Tensor tensor = RampOf<T>(shape);
    expected += ExpectedLine<T>(name, tensor);
    if (slices == 1) {
      pieces.push_back(Whole(name, static_cast<int>(pieces.size()) % 4, tensor));
      return;
    }
    const std::vector<Piece> cut = Partitioned(name, tensor, slices, 4);
    pieces.insert(pieces.end(), cut.begin(), cut.end());
  }
};

TEST(BundleWithTensorFlow, ReadsWhatCohortWrote) {
  Job job;
  job.Add<float>("embedding/part", {1000, 7}, 4);
  job.Add<float>("kernel", {784, 3}, 1);
  job.Add<float>("many", {9000}, 4096);  // starts of one, two and three encoded bytes
  job.Add<double>("double", {13, 2, 3}, 5);
  job.Add<int32_t>("int32", {5}, 2);
  job.Add<int64_t>("step", {}, 1);
  job.Add<uint8_t>("bytes", {65, 2}, 65);
  job.Add<int8_t>("int8", {3}, 3);
  job.Add<bool>("flags", {9}, 2);
  job.Add<float>("empty", {0, 4}, 1);
  job.Add<float>(std::string("odd name \xc3\xbf /\x01", 14), {4, 4}, 2);

  PosixFileSystem files;
  std::string directory = testing::TempDir() + "/cohort_tensorflow_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  const std::string prefix = JoinPath(directory, "ckpt-1");
  const absl::Status saved = Save(files, prefix, 4, job.pieces);
  ASSERT_TRUE(saved.ok()) << saved;
  const std::string expected = JoinPath(directory, "expected.txt");
  ASSERT_TRUE(WriteFileAtomically(files, expected, job.expected).ok());

  const char* python = std::getenv("COHORT_TENSORFLOW_PYTHON");
  const std::string command =
      absl::StrCat(python ? python : "python3", " ", COHORT_SOURCE_DIR,
                   "/tests/golden/check_with_tensorflow.py ", prefix, " ", expected);
  const int status = std::system(command.c_str());
  const auto names = files.List(directory);
  ASSERT_TRUE(names.ok());
  for (const std::string& name : *names) EXPECT_TRUE(files.Remove(JoinPath(directory, name)).ok());
  EXPECT_TRUE(files.Remove(directory).ok());
  ASSERT_TRUE(WIFEXITED(status));
  const int code = WEXITSTATUS(status);
  if (code == kExitWithoutTensorFlow || code == 127) {
    GTEST_SKIP() << "needs TensorFlow (COHORT_TENSORFLOW_PYTHON names a python that has it)";
  }
  EXPECT_EQ(code, 0) << command;
}

}  // namespace
}  // namespace cohort
