// What the writer writes, read by our own reader. tests/golden/formats/check_hdf5.py reads the same
// file with h5py.

#include "common/formats/hdf5/hdf5_writer.h"

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

std::unique_ptr<Hdf5File> WriteAndOpen(const Hdf5Node& root) {
  MemoryFileSystem files;
  const absl::Status written = WriteHdf5(files, "out", root);
  EXPECT_TRUE(written.ok()) << written;
  auto file = OpenHdf5(*ReadFile(files, "out"));
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

void ExpectSame(const Hdf5File& file, const std::string& path, const Tensor& expected) {
  ASSERT_NE(file.Find(path), nullptr) << path;
  const auto tensor = file.Read(*file.Find(path));
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->TypeString(), expected.TypeString()) << path;
  EXPECT_EQ(AsNumbers(*tensor), AsNumbers(expected)) << path;
}

// A tree with every kind of node, which the golden file written.h5 holds too.
Hdf5Node Everything() {
  Hdf5Node root;
  root.AddText("model_config", std::string(70000, 'x'));
  root.AddText("backend", "tensorflow");
  EXPECT_TRUE(root.AddList("empty", {}).ok());
  EXPECT_TRUE(root.AddList("names", {"a", "bé", ""}).ok());
  std::vector<std::string> many;
  for (int i = 0; i < 5000; ++i) many.push_back(absl::StrCat("some_long_name_", i));
  EXPECT_TRUE(root.Group("model_weights").AddList("layer_names", many).ok());
  root.AddDataset("types/f4", Tensor::FromVector<float>({1, 2.5f, 3, 4, 5, 6}, {2, 3}));
  root.AddDataset("types/f8", Tensor::Scalar<double>(-7));
  root.AddDataset("types/i1", Tensor::FromVector<int8_t>({-1, 2, 3}, {3}));
  root.AddDataset("types/u1", Tensor::FromVector<uint8_t>({200}, {1}));
  root.AddDataset("types/i4", Tensor::Scalar<int32_t>(-5));
  root.AddDataset("types/i8", Tensor::Scalar<int64_t>(int64_t{1} << 40));
  root.AddDataset("types/b1", Tensor::FromVector<bool>({true, false}, {2}));
  root.AddDataset("types/f2", Tensor::Zeros(DType::kFloat16, {2, 2}));
  root.AddDataset("types/bf16", Tensor::Zeros(DType::kBfloat16, {3}));
  root.AddDataset("types/empty", Tensor::Zeros(DType::kFloat32, {0, 4}));
  for (int i = 0; i < 700; ++i) {
    root.AddDataset(absl::StrCat("wide/child", i), Tensor::Scalar<float>(static_cast<float>(i)));
  }
  root.Group("nothing/inside");
  return root;
}

TEST(Hdf5Writer, WhatIsWrittenIsReadAgain) {
  const Hdf5Node root = Everything();
  const std::unique_ptr<Hdf5File> file = WriteAndOpen(root);
  EXPECT_EQ(*Hdf5String(file->root(), "model_config"), std::string(70000, 'x'));
  EXPECT_EQ(*Hdf5String(file->root(), "backend"), "tensorflow");
  EXPECT_THAT(*Hdf5Strings(file->root(), "empty"), IsEmpty());
  EXPECT_THAT(*Hdf5Strings(file->root(), "names"), ElementsAre("a", "bé", ""));
  const auto names = Hdf5Strings(*file->Find("model_weights"), "layer_names");
  ASSERT_TRUE(names.ok()) << names.status();
  ASSERT_EQ(names->size(), 5000u);
  EXPECT_EQ((*names)[4999], "some_long_name_4999");
  EXPECT_EQ(file->Find("model_weights")->FindAttribute("layer_names"), nullptr);
  for (const auto& [name, node] : root.children().at("types")->children()) {
    ExpectSame(*file, absl::StrCat("types/", name), node->value());
  }
  for (const auto& [name, node] : root.children().at("wide")->children()) {
    ExpectSame(*file, absl::StrCat("wide/", name), node->value());
  }
  EXPECT_NE(file->Find("nothing/inside"), nullptr);
}

// h5py has read this file (check_hdf5.py), so its bytes are right.
TEST(Hdf5Writer, TheBytesAreThoseThatH5pyHasRead) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteHdf5(files, "out", Everything()).ok());
  const std::string bytes = *ReadFile(files, "out");
  const std::string golden = FileOf(FormatsGolden("written.zip"), "written.h5");
  EXPECT_EQ(bytes.size(), golden.size());
  EXPECT_TRUE(bytes == golden) << "look with h5py: check_hdf5.py FILE, then write it anew";
  if (const char* const path = std::getenv("COHORT_WRITE_GOLDEN"); path != nullptr) {
    PosixFileSystem disk;
    EXPECT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }
}

TEST(Hdf5Writer, NamesThatCannotBeWrittenAreRefused) {
  MemoryFileSystem files;
  Hdf5Node root;
  root.Group(absl::string_view("a\0b", 3));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteHdf5(files, "out", root)));
  EXPECT_TRUE(absl::IsInvalidArgument(root.AddList("names", {std::string(65000, 'x')})));
}

}  // namespace
}  // namespace cohort
