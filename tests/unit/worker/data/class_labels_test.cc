// Labels as they lie in files: in a column of their own, as floats, or none of the classes.

#include <limits>

#include "common/base/temporary_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/inline_tensors.h"
#include "tests/support/world/memory_file_system.h"
#include "worker/data/dataset.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class ClassLabelsTest : public ::testing::Test {
 protected:
  // Batches of two of one component, whose labels are read as one of four classes.
  absl::StatusOr<std::shared_ptr<const Dataset>> Labels(const Tensor& values) {
    proto::DatasetSpec spec;
    AddInline(spec, values);
    return Build(std::move(spec));
  }
  // Of a file.
  absl::StatusOr<std::shared_ptr<const Dataset>> Labels(const std::string& path) {
    proto::DatasetSpec spec;
    spec.mutable_source()->mutable_idx()->add_paths(path);
    spec.add_transforms()->set_skip(1);
    return Build(std::move(spec));
  }
  absl::StatusOr<std::shared_ptr<const Dataset>> Build(proto::DatasetSpec spec) {
    spec.add_transforms()->mutable_batch()->set_size(2);
    if (one_hot_) {
      spec.add_transforms()->mutable_one_hot()->set_depth(4);
      spec.mutable_transforms()->rbegin()->mutable_one_hot()->set_of_labels(true);
    } else {
      spec.add_transforms()->mutable_class_labels()->set_classes(4);
    }
    return Dataset::Build(spec, sources_);
  }

  MemoryFileSystem files_;
  SourceCache sources_{files_, ""};
  bool one_hot_ = false;
};

TEST_F(ClassLabelsTest, AreOneNumberEachWhateverTheyLieIn) {
  const auto bytes = Labels(Tensor::FromVector<uint8_t>({3, 0}, {2, 1}));
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_EQ((*bytes)->element_spec().components(0).dims_size(), 1);
  const auto batch = (*bytes)->ElementAt({});
  ASSERT_TRUE(batch.ok()) << batch.status();
  EXPECT_EQ((*batch)[0].TypeString(), "int64[2]") << "whatever the file has";
  EXPECT_THAT((*batch)[0].span<int64_t>(), ElementsAre(3, 0));
  for (const Tensor& floats :
       {Tensor::FromVector<float>({1, 2}, {2, 1}), Tensor::FromVector<double>({1, 2}, {2})}) {
    const auto labels = Labels(floats);
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_EQ((*labels)->element_spec().components(0).dtype(), static_cast<int>(DType::kInt64));
    EXPECT_THAT((*(*labels)->ElementAt({}))[0].span<int64_t>(), ElementsAre(1, 2));
  }
  one_hot_ = true;
  const auto hot = (*Labels(Tensor::FromVector<float>({1, 3}, {2, 1})))->ElementAt({});
  ASSERT_TRUE(hot.ok()) << hot.status();
  EXPECT_EQ((*hot)[0].TypeString(), "float32[2,4]");
  EXPECT_THAT((*hot)[0].span<float>(), ElementsAre(0, 1, 0, 0, 0, 0, 0, 1));
}

TEST_F(ClassLabelsTest, ThatAreNoClassNameTheExampleInItsFile) {
  const char kFile[] = "\0\0\x08\1\0\0\0\5\1\2\3\0\7";  // five bytes, of which the last is no class
  ASSERT_TRUE(WriteFileAtomically(files_, "/y.idx", std::string(kFile, sizeof(kFile) - 1)).ok());
  proto::IteratorPosition second;
  second.set_element(1);
  for (const bool one_hot : {false, true}) {
    one_hot_ = one_hot;
    const auto labels = Labels("/y.idx");
    ASSERT_TRUE(labels.ok()) << labels.status();
    EXPECT_TRUE((*labels)->ElementAt({}).ok());
    EXPECT_THAT(std::string((*labels)->ElementAt(second).status().message()),
                AllOf(HasSubstr("the label of example 4 of /y.idx is 7"), HasSubstr("0 to 3")));
  }
  one_hot_ = false;
  for (const float bad : {1.5f, -1.0f, 4.0f, std::numeric_limits<float>::quiet_NaN()}) {
    const auto labels = Labels(Tensor::FromVector<float>({0, bad}, {2}));
    EXPECT_THAT(std::string((*labels)->ElementAt({}).status().message()),
                AllOf(HasSubstr("the label of example 1 is "), HasSubstr("whole number")));
  }
  EXPECT_FALSE((*Labels(Tensor::FromVector<int64_t>({0, -1}, {2})))->ElementAt({}).ok());
}

// Each worker reads a relative path in its own directory.
TEST_F(ClassLabelsTest, AreNamedWithTheDirectoryInWhichTheFileWasRead) {
  const char kFile[] = "\0\0\x08\1\0\0\0\3\1\2\7";
  ASSERT_TRUE(files_.MakeDirectories("/of/worker").ok());
  const std::string path = "/of/worker/y.idx";
  ASSERT_TRUE(WriteFileAtomically(files_, path, std::string(kFile, sizeof(kFile) - 1)).ok());
  SourceCache sources(files_, "/of/worker");
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_idx()->add_paths("y.idx");
  spec.add_transforms()->mutable_class_labels()->set_classes(4);
  const auto labels = Dataset::Build(spec, sources);
  ASSERT_TRUE(labels.ok()) << labels.status();
  proto::IteratorPosition at;
  at.set_element(2);
  EXPECT_THAT(std::string((*labels)->ElementAt(at).status().message()),
              HasSubstr("example 2 of /of/worker/y.idx is 7"));
  at.set_element(3);
  EXPECT_EQ((*labels)->ElementAt(at).status().message(),
            "end of data: no element 3 in epoch 0 of /of/worker/y.idx (3 examples)");
  spec.mutable_source()->mutable_idx()->set_paths(0, "none.idx");
  EXPECT_THAT(std::string(Dataset::Build(spec, sources).status().message()),
              HasSubstr("/of/worker/none.idx"));
  spec.mutable_source()->mutable_idx()->set_paths(0, "/y.idx");
  EXPECT_THAT(std::string(Dataset::Build(spec, sources).status().message()),
              testing::Not(HasSubstr("/of/worker")));
}

TEST_F(ClassLabelsTest, HaveToBeOneNumberEach) {
  EXPECT_THAT(std::string(Labels(Tensor::Zeros(DType::kInt64, {2, 3})).status().message()),
              HasSubstr("int64[3] per example"));
  EXPECT_THAT(std::string(Labels(Tensor::Zeros(DType::kBool, {2})).status().message()),
              HasSubstr("bool[] per example"));
}

}  // namespace
}  // namespace cohort
