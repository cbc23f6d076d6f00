// Files that h5py wrote in every version of the format (tests/golden/formats/make.py), files that
// are refused, and damages.

#include "common/formats/hdf5/hdf5_file.h"

#include "absl/strings/str_cat.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const char kArchive[] = COHORT_SOURCE_DIR "/tests/golden/formats/hdf5.zip";

void ExpectDataset(const Hdf5File& file, const std::string& path, DType dtype, const Shape& shape) {
  const Hdf5Object* const object = file.Find(path);
  ASSERT_NE(object, nullptr) << path;
  const absl::StatusOr<Tensor> tensor = file.Read(*object);
  ASSERT_TRUE(tensor.ok()) << tensor.status();
  EXPECT_EQ(tensor->dtype(), dtype) << path;
  EXPECT_EQ(tensor->shape(), shape) << path;
  EXPECT_EQ(AsNumbers(*tensor), RampOf(object->name.substr(0, 2), shape.num_elements())) << path;
}

// The parameter is the name of a file.
class Hdf5Versions : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    auto file = OpenHdf5(FileOf(kArchive, GetParam()));
    ASSERT_TRUE(file.ok()) << file.status();
    file_ = *std::move(file);
  }
  absl::StatusOr<std::vector<std::string>> Names(const std::string& attribute) {
    return Hdf5Strings(*file_->Find("names"), attribute);
  }
  std::unique_ptr<Hdf5File> file_;
};

TEST_P(Hdf5Versions, EveryTypeIsRead) {
  const Shape shape{2, 3};
  ExpectDataset(*file_, "types/f2", DType::kFloat16, shape);
  ExpectDataset(*file_, "types/bf16", DType::kBfloat16, shape);
  ExpectDataset(*file_, "types/f4", DType::kFloat32, shape);
  ExpectDataset(*file_, "types/f8", DType::kFloat64, shape);
  ExpectDataset(*file_, "types/i1", DType::kInt8, shape);
  ExpectDataset(*file_, "types/i2", DType::kInt32, shape);
  ExpectDataset(*file_, "types/i4", DType::kInt32, shape);
  ExpectDataset(*file_, "types/i8", DType::kInt64, shape);
  ExpectDataset(*file_, "types/u1", DType::kUint8, shape);
  ExpectDataset(*file_, "types/u2", DType::kInt32, shape);
  ExpectDataset(*file_, "types/u4", DType::kInt64, shape);
  ExpectDataset(*file_, "types/u8", DType::kInt64, shape);
  ExpectDataset(*file_, "types/b1", DType::kBool, shape);
  ExpectDataset(*file_, "types/f4_big", DType::kFloat32, Shape{5});
  ExpectDataset(*file_, "types/scalar", DType::kFloat32, Shape{});
  ExpectDataset(*file_, "types/empty", DType::kFloat32, Shape{0, 3});
  for (const char* name : {"opaque", "record", "text"}) {
    const auto tensor = file_->Read(*file_->Find(absl::StrCat("types/", name)));
    EXPECT_TRUE(absl::IsUnimplemented(tensor.status())) << tensor.status();
    EXPECT_THAT(std::string(tensor.status().message()), HasSubstr(absl::StrCat("types/", name)));
  }
}

TEST_P(Hdf5Versions, StringsOfEveryEncodingAreRead) {
  EXPECT_THAT(*Names("fixed"), ElementsAre("a", "bcd", ""));
  EXPECT_THAT(*Names("variable"), ElementsAre("a", "bé", ""));
  EXPECT_THAT(*Names("empty"), IsEmpty());
  EXPECT_THAT(*Names("text"), ElementsAre("one text"));
  EXPECT_THAT(*Names("split"), ElementsAre("s0a", "s0b", "s1a", "s1b", "s2a", "s2b"));
  EXPECT_TRUE(absl::IsNotFound(Names("other").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Names("numbers").status()));
  EXPECT_EQ(*Hdf5String(*file_->Find("names"), "text"), "one text");
  EXPECT_EQ(*Hdf5String(*file_->Find("names"), "bytes"), "some bytes");
  EXPECT_EQ(*Hdf5String(*file_->Find("names"), "long"), std::string(100000, 'x'));
  EXPECT_TRUE(absl::IsNotFound(Hdf5String(*file_->Find("names"), "other").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Hdf5String(*file_->Find("names"), "fixed").status()));
  const Hdf5Attribute* const numbers = file_->Find("names")->FindAttribute("numbers");
  EXPECT_THAT(AsNumbers(numbers->numbers), ElementsAre(1.5, -2));
  for (int i = 0; i < 20; ++i) {
    const Hdf5Attribute* const one = file_->Find("names")->FindAttribute(absl::StrCat("more", i));
    EXPECT_THAT(AsNumbers(one->numbers), ElementsAre(i));
  }
}

TEST_P(Hdf5Versions, GroupsOfEverySizeAndOrderAreRead) {
  for (const auto& [group, count] :
       std::vector<std::pair<std::string, int>>{{"wide", 300}, {"ordered", 40}}) {
    EXPECT_EQ(file_->Find(group)->children.size(), static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) {
      const Hdf5Object* const child = file_->Find(absl::StrCat(group, "/child", i));
      ASSERT_NE(child, nullptr) << i;
      EXPECT_THAT(AsNumbers(*file_->Read(*child)), ElementsAre(i));
    }
  }
  EXPECT_THAT(AsNumbers(*file_->Read(*file_->Find("few/a"))), ElementsAre(1));
  EXPECT_THAT(file_->Find("nothing")->children, IsEmpty());
  EXPECT_FALSE(file_->Find("nothing")->is_dataset);
  EXPECT_EQ(file_->Find("none"), nullptr);
  EXPECT_TRUE(absl::IsInvalidArgument(file_->Read(*file_->Find("nothing")).status()));
}

TEST_P(Hdf5Versions, AChunkAsLargeAsItsDatasetIsRead) {
  ExpectDataset(*file_, "chunks/f4_whole", DType::kFloat32, Shape{4, 6});
  ExpectDataset(*file_, "chunks/i4_plain", DType::kInt32, Shape{4, 6});
}

INSTANTIATE_TEST_SUITE_P(All, Hdf5Versions, testing::Values("earliest.h5", "v110.h5", "latest.h5"));

TEST(Hdf5File, ChunksWithAndWithoutFiltersAreRead) {
  const auto file = OpenHdf5(FileOf(kArchive, "earliest.h5"));
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectDataset(**file, "chunks/f4", DType::kFloat32, Shape{5, 7});
  ExpectDataset(**file, "chunks/f8_gzip", DType::kFloat64, Shape{5, 7, 3});
  ExpectDataset(**file, "chunks/i2_shuffled", DType::kInt32, Shape{50});
  ExpectDataset(**file, "chunks/f4_many", DType::kFloat32, Shape{400});
}

TEST(Hdf5File, BytesOfTheUserMayStandBeforeTheFile) {
  const auto file = OpenHdf5(FileOf(kArchive, "user_block.h5"));
  ASSERT_TRUE(file.ok()) << file.status();
  ExpectDataset(**file, "f4", DType::kFloat32, Shape{2});
}

TEST(Hdf5File, WhatLeadsOutOfTheFileOrIsNotSupportedIsRefusedByName) {
  const std::map<std::string, std::string> expected = {
      {"virtual", "'a': some/file.h5: a virtual dataset"},
      {"external", "elements lie in other files"},
      {"soft", "'a' is a soft link"},
      {"external_link", "'a' is a link into another file"},
      {"two_names", "'b' is a second name"},
      {"named_type", "a type with a name"},
      {"fletcher", "dataset 'a': some/file.h5: filter 3"},
      {"lzf", "filter 32000"},
      {"unwritten", "never written"},
      {"new_chunks", "chunks of HDF5 1.10"}};
  for (const auto& [name, text] : expected) {
    const auto file = OpenHdf5(FileOf(kArchive, absl::StrCat("refused/", name, ".h5")));
    absl::Status status = file.status();
    if (file.ok()) status = (*file)->Read(*(*file)->Find("a")).status();
    EXPECT_TRUE(absl::IsUnimplemented(status) || absl::IsDataLoss(status))
        << name << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(text));
    EXPECT_THAT(std::string(status.message()), HasSubstr("some/file.h5"));
  }
}

TEST(Hdf5File, NoHdf5IsDataLoss) {
  EXPECT_TRUE(absl::IsDataLoss(OpenHdf5("").status()));
  EXPECT_TRUE(absl::IsDataLoss(OpenHdf5(std::string(5000, 'x')).status()));
  EXPECT_FALSE(LooksLikeHdf5(*InMemory("PK\x03\x04")));
}

TEST(Hdf5File, NoCutAndNoDamageOfAByteEndsTheProcess) {
  for (const char* name : {"user_block.h5", "refused/fletcher.h5", "refused/virtual.h5"}) {
    const std::string whole = FileOf(kArchive, name);
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const int mask : {1, 0x80, 0xff}) {
        std::string bytes = whole;
        bytes[i] = static_cast<char>(bytes[i] ^ mask);
        ReadAllOf(bytes);
      }
      ReadAllOf(absl::string_view(whole).substr(0, i));
    }
  }
}

// One in so many bytes of the large files, since each try reads all of the file.
TEST(Hdf5File, DamagesOfLargeFilesEndWithAnErrorOrValues) {
  for (const char* name : {"earliest.h5", "latest.h5"}) {
    std::string bytes = FileOf(kArchive, name);
    for (size_t i = 0; i < bytes.size(); i += 997) {
      const char before = bytes[i];
      bytes[i] = static_cast<char>(before ^ 0xff);
      ReadAllOf(bytes);
      bytes[i] = before;
    }
  }
}

TEST(Hdf5Checksum, IsThatOfLookup3) {
  // The values of the author's own test of hashlittle with an initial value of 0.
  EXPECT_EQ(Hdf5Checksum(""), 0xdeadbeefu);
  EXPECT_EQ(Hdf5Checksum("Four score and seven years ago"), 0x17770551u);
}

}  // namespace
}  // namespace cohort
