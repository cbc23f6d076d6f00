// Archives that Python wrote (tests/golden/formats/make.py), and what the writer writes.

#include <zlib.h>

#include "common/formats/zip_archive.h"
#include "common/formats/zip_writer.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/formats_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr uint64_t kBytesMax = 1 << 20;

absl::StatusOr<std::unique_ptr<ZipArchive>> OpenBytes(absl::string_view bytes) {
  return ZipArchive::Open(InMemory(bytes), "some/file");
}

std::string ContentOf(const ReadableFile& file) {
  std::string bytes(file.size(), '\0');
  EXPECT_TRUE(file.Read(0, absl::MakeSpan(bytes)).ok());
  return bytes;
}

// Returns an archive with the stored members a and b.
std::string TwoMembers() {
  MemoryFileSystem files;
  auto writer = ZipWriter::Create(files, "out");
  EXPECT_TRUE((*writer)->Add("dir/a", {"first ", "member"}).ok());
  EXPECT_TRUE((*writer)->Add("b", {}).ok());
  EXPECT_TRUE((*writer)->Finish().ok());
  return *ReadFile(files, "out");
}

TEST(Zip, MembersAreReadByName) {
  const std::string bytes = TwoMembers();
  EXPECT_TRUE(LooksLikeZip(*InMemory(bytes)));
  const auto archive = OpenBytes(bytes);
  ASSERT_TRUE(archive.ok()) << archive.status();
  ASSERT_EQ((*archive)->members().size(), 2u);
  const auto a = (*archive)->Read(*(*archive)->Find("dir/a"), kBytesMax);
  ASSERT_TRUE(a.ok()) << a.status();
  EXPECT_EQ(ContentOf(**a), "first member");
  const auto b = (*archive)->Read(*(*archive)->Find("b"), 0);
  ASSERT_TRUE(b.ok()) << b.status();
  EXPECT_EQ((*b)->size(), 0u);
  EXPECT_FALSE((*archive)->Find("c").has_value());
}

TEST(Zip, Zip64IsRead) {
  const auto archive = OpenBytes(BytesOf(FormatsGolden("zip64.npz")));
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto member = (*archive)->Read(0, kBytesMax);
  ASSERT_TRUE(member.ok()) << member.status();
  EXPECT_EQ((*member)->size(), 140u);
}

TEST(Zip, MoreMembersThanTheOldFormatCountsAreWrittenAndRead) {
  MemoryFileSystem files;
  auto writer = ZipWriter::Create(files, "out");
  for (int i = 0; i < 65536; ++i) ASSERT_TRUE((*writer)->Add(absl::StrCat(i), {"x"}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  const auto archive = ZipArchive::Open(*files.Open("out"), "out");
  ASSERT_TRUE(archive.ok()) << archive.status();
  ASSERT_EQ((*archive)->members().size(), 65536u);
  EXPECT_EQ(ContentOf(**(*archive)->Read(65535, kBytesMax)), "x");
}

TEST(Zip, AMemberAboveTheBoundIsRefused) {
  const auto archive = OpenBytes(TwoMembers());
  const auto member = (*archive)->Read(0, 11);
  EXPECT_TRUE(absl::IsResourceExhausted(member.status()));
  EXPECT_THAT(std::string(member.status().message()), HasSubstr("some/file: member 'dir/a'"));
}

TEST(Zip, NamesAreGivenOnce) {
  MemoryFileSystem files;
  for (const std::string& name : {std::string("a"), std::string(), std::string(65536, 'x')}) {
    auto writer = ZipWriter::Create(files, "out");
    ASSERT_TRUE((*writer)->Add("a", {}).ok());
    EXPECT_TRUE(absl::IsInvalidArgument((*writer)->Add(name, {})));
  }
  EXPECT_FALSE(files.Open("out").ok());
  EXPECT_TRUE(files.List(".")->empty());
}

TEST(Zip, TwoMembersOfOneNameAreRefused) {
  std::string bytes = TwoMembers();
  // The name "b" of the second member becomes "dir/a" of the first if both are one letter long.
  MemoryFileSystem files;
  auto writer = ZipWriter::Create(files, "out");
  ASSERT_TRUE((*writer)->Add("a", {"1"}).ok());
  ASSERT_TRUE((*writer)->Add("b", {"2"}).ok());
  ASSERT_TRUE((*writer)->Finish().ok());
  bytes = *ReadFile(files, "out");
  for (char& c : bytes) {
    if (c == 'b') c = 'a';
  }
  const auto archive = OpenBytes(bytes);
  EXPECT_TRUE(absl::IsDataLoss(archive.status()));
  EXPECT_THAT(std::string(archive.status().message()), HasSubstr("two members are called 'a'"));
}

TEST(Zip, ADamagedContentIsSeen) {
  std::string bytes = TwoMembers();
  bytes[bytes.find("member")] = 'M';
  const auto archive = OpenBytes(bytes);
  ASSERT_TRUE(archive.ok());
  const auto member = (*archive)->Read(0, kBytesMax);
  EXPECT_TRUE(absl::IsDataLoss(member.status()));
  EXPECT_THAT(std::string(member.status().message()), HasSubstr("damaged"));
}

TEST(Zip, NoDamageOfAByteAndNoCutEndsTheProcess) {
  for (const char* name : {"deflated.npz", "zip64.npz"}) {
    const std::string whole = BytesOf(FormatsGolden(name));
    const auto read_all = [](absl::string_view bytes) {
      const auto archive = OpenBytes(bytes);
      if (!archive.ok()) return;
      for (size_t i = 0; i < (*archive)->members().size(); ++i) {
        (void)(*archive)->Read(i, kBytesMax);
      }
    };
    for (size_t i = 0; i < whole.size(); ++i) {
      for (const int mask : {1, 0x80, 0xff}) {
        std::string bytes = whole;
        bytes[i] = static_cast<char>(bytes[i] ^ mask);
        read_all(bytes);
      }
      read_all(absl::string_view(whole).substr(0, i));
    }
  }
}

TEST(Zip, OtherMethodsAndEncryptionAreNamed) {
  std::string bytes = TwoMembers();
  const size_t directory = bytes.find("PK\x01\x02");
  std::string method = bytes;
  method[directory + 10] = 12;  // bzip2
  const auto by_method = OpenBytes(method);
  ASSERT_TRUE(by_method.ok());
  EXPECT_TRUE(absl::IsUnimplemented((*by_method)->Read(0, kBytesMax).status()));
  std::string encrypted = bytes;
  encrypted[directory + 8] = static_cast<char>(encrypted[directory + 8] | 1);
  const auto locked = OpenBytes(encrypted);
  ASSERT_TRUE(locked.ok());
  EXPECT_TRUE(absl::IsUnimplemented((*locked)->Read(0, kBytesMax).status()));
}

}  // namespace
}  // namespace cohort
