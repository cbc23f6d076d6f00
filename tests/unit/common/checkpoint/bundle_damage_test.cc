// Damage on disk: every single-byte change of every file must be refused as DATA_LOSS, by name.

#include <gmock/gmock.h>

#include "common/base/crc32c.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "proto/tensor_bundle.pb.h"
#include "tests/unit/common/checkpoint/bundle_support.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

namespace cohort {
namespace {

constexpr char kPrefix[] = "d/ckpt-1";
constexpr char kIndex[] = "d/ckpt-1.index";

// OK only when every tensor was read.
absl::Status ReadAll(FileSystem& files) {
  ASSIGN_OR_RETURN(const auto reader, BundleReader::Open(files, kPrefix));
  for (const auto& [name, tensor] : reader->tensors()) RETURN_IF_ERROR(reader->Read(name).status());
  return absl::OkStatus();
}

class Damage : public testing::Test {
 protected:
  void SetUp() override {
    std::vector<Piece> pieces = Partitioned("embedding", Ramp({40, 3}), 5, 2);
    pieces.push_back(Whole("step", 0, Tensor::Scalar<int64_t>(300)));
    pieces.push_back(Whole("flags", 1, Tensor::Zeros(DType::kBool, {17})));
    ASSERT_TRUE(Save(disk_, kPrefix, 2, pieces).ok());
    ASSERT_TRUE(ReadAll(disk_).ok());
  }
  CrashDisk disk_{CrashDisk::kNever};
};

// All bytes, and for each one flipped bit, all bits flipped and another value: above 3000 changes.
TEST_F(Damage, EveryByteOfEveryFileIsCovered) {
  int changes = 0;
  for (const std::string& path :
       {std::string(kIndex), DataShardPath(kPrefix, 0, 2), DataShardPath(kPrefix, 1, 2)}) {
    std::string& bytes = disk_.bytes(path);
    for (size_t i = 0; i < bytes.size(); ++i) {
      const char original = bytes[i];
      for (const unsigned mask : {1u << (i % 8), 0xffu, 0x5au}) {
        bytes[i] = static_cast<char>(static_cast<unsigned char>(original) ^ mask);
        const absl::Status status = ReadAll(disk_);
        ASSERT_TRUE(absl::IsDataLoss(status)) << path << " byte " << i << ": " << status;
        ASSERT_THAT(std::string(status.message()), testing::HasSubstr(path));
        ++changes;
      }
      bytes[i] = original;
    }
  }
  EXPECT_GE(changes, 1500);
  EXPECT_TRUE(ReadAll(disk_).ok());
}

TEST_F(Damage, EveryTruncationIsSeen) {
  for (const std::string& path : {std::string(kIndex), DataShardPath(kPrefix, 0, 2)}) {
    const std::string whole = disk_.bytes(path);
    for (size_t size = 0; size < whole.size(); ++size) {
      disk_.bytes(path) = whole.substr(0, size);
      const absl::Status status = ReadAll(disk_);
      ASSERT_TRUE(absl::IsDataLoss(status)) << path << " cut to " << size << ": " << status;
    }
    disk_.bytes(path) = whole;
  }
}

// Only the wanted rows are returned, but all of the slice that holds them is verified.
TEST_F(Damage, OtherSlicesStayReadable) {
  disk_.bytes(DataShardPath(kPrefix, 1, 2))[0] ^= 1;  // rows 8 to 16
  const auto reader = BundleReader::Open(disk_, kPrefix);
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_TRUE((*reader)->ReadRows("embedding", {0, 8}).ok());
  EXPECT_TRUE(absl::IsDataLoss((*reader)->ReadRows("embedding", {15, 1}).status()));
  EXPECT_TRUE((*reader)->ReadRows("embedding", {16, 24}).ok());
}

// A wrong index under right checksums, as only a wrong program makes it.
class HostileIndex : public testing::Test {
 protected:
  // A table of one uncompressed block.
  static std::string Table(const std::map<std::string, std::string>& entries) {
    std::string table;
    const std::string data = Block(entries);
    const std::string data_handle = Put(table, data);
    const std::string meta_handle = Put(table, Block({}));
    const std::string index_handle = Put(table, Block({{"\xff", data_handle}}));
    std::string footer = meta_handle + index_handle;
    footer.resize(40, '\0');
    return table + footer + std::string("\x57\xfb\x80\x8b\x24\x75\x47\xdb", 8);
  }
  static std::string Varint(uint64_t value) {
    std::string out;
    for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
    out.push_back(static_cast<char>(value));
    return out;
  }
  static std::string Fixed(uint32_t value) {
    std::string out;
    for (int i = 0; i < 4; ++i) out.push_back(static_cast<char>(value >> (8 * i)));
    return out;
  }
  static std::string Block(const std::map<std::string, std::string>& entries) {
    std::string block;
    for (const auto& [key, value] : entries) {
      block += Varint(0) + Varint(key.size()) + Varint(value.size()) + key + value;
    }
    return block + Fixed(0) + Fixed(1);
  }
  static std::string Put(std::string& table, std::string block) {
    const std::string handle = Varint(table.size()) + Varint(block.size());
    block.push_back('\0');
    table += block + Fixed(MaskCrc32c(Crc32c(block)));
    return handle;
  }

  absl::Status Open(const proto::BundleHeaderProto& header,
                    const std::map<std::string, proto::BundleEntryProto>& entries) {
    std::map<std::string, std::string> table;
    table[""] = header.SerializeAsString();
    for (const auto& [name, entry] : entries) table[name] = entry.SerializeAsString();
    return OpenBytes(Table(table));
  }
  absl::Status OpenBytes(const std::string& bytes) {
    CrashDisk disk(CrashDisk::kNever);
    Put(disk, kIndex, bytes);
    Put(disk, DataShardPath(kPrefix, 0, 1), std::string(64, '\7'));
    return ReadAll(disk);
  }
  static void Put(CrashDisk& disk, const std::string& path, const std::string& bytes) {
    ASSERT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }

  static proto::BundleHeaderProto Header() {
    proto::BundleHeaderProto header;
    header.set_num_shards(1);
    return header;
  }
  // uint8[64], the whole data shard.
  static proto::BundleEntryProto Entry() {
    proto::BundleEntryProto entry;
    entry.set_dtype(4);
    entry.mutable_shape()->add_dim()->set_size(64);
    entry.set_size(64);
    entry.set_crc32c(MaskCrc32c(Crc32c(std::string(64, '\7'))));
    return entry;
  }
  template <typename Change>
  absl::Status OpenAfter(Change change) {
    proto::BundleEntryProto entry = Entry();
    change(entry);
    return Open(Header(), {{"w", entry}});
  }
};

#define EXPECT_DATA_LOSS(expression)                 \
  do {                                               \
    const absl::Status result = (expression);        \
    EXPECT_TRUE(absl::IsDataLoss(result)) << result; \
  } while (false)

TEST_F(HostileIndex, TheUnchangedOneIsRead) {
  const absl::Status status = Open(Header(), {{"w", Entry()}});
  EXPECT_TRUE(status.ok()) << status;
}

TEST_F(HostileIndex, Headers) {
  proto::BundleHeaderProto header = Header();
  header.set_num_shards(0);
  EXPECT_DATA_LOSS(Open(header, {}));
  header.set_num_shards(INT32_MAX);
  EXPECT_DATA_LOSS(Open(header, {}));
  header = Header();
  header.set_endianness(proto::BundleHeaderProto::BIG);
  EXPECT_TRUE(absl::IsUnimplemented(Open(header, {})));
  header = Header();
  header.mutable_version()->set_min_consumer(2);
  EXPECT_TRUE(absl::IsUnimplemented(Open(header, {})));
  EXPECT_DATA_LOSS(OpenBytes(Table({{"", "\xff\xff"}})));
  EXPECT_DATA_LOSS(OpenBytes(Table({{"w", Entry().SerializeAsString()}})));
  EXPECT_DATA_LOSS(OpenBytes(Table({{"", Header().SerializeAsString()}, {"w", "\xff\xff"}})));
}

TEST_F(HostileIndex, Entries) {
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_shard_id(1); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_shard_id(-1); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_offset(-1); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_offset(1); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_offset(INT64_MAX); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_size(63); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.mutable_shape()->set_unknown_rank(true); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.mutable_shape()->mutable_dim(0)->set_size(-64); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) {
    e.mutable_shape()->mutable_dim(0)->set_size(int64_t{1} << 50);
    e.set_size(int64_t{1} << 50);
  }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) {
    for (int i = 0; i < 3; ++i) e.mutable_shape()->add_dim()->set_size(int64_t{1} << 40);
    e.mutable_shape()->add_dim()->set_size(0);
    e.set_size(0);
  }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.set_dtype(10); }));  // bool, bytes of 7
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) {
    for (int i = 0; i < 300; ++i) e.mutable_shape()->add_dim()->set_size(1);
  }));
}

TEST_F(HostileIndex, TensorsThatShareBytesCannotMultiplyMemory) {
  EXPECT_DATA_LOSS(Open(Header(), {{"v", Entry()}, {"w", Entry()}}));
}

TEST_F(HostileIndex, SlicesWithoutEntriesOrOutsideTheTensor) {
  auto slice = [](auto& e, int64_t start, int64_t length) {
    auto* extent = e.add_slices()->add_extent();
    extent->set_start(start);
    extent->set_length(length);
  };
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) { slice(e, 0, 64); }));
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) { slice(e, 0, 32); }));
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) { slice(e, 1, 64); }));
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) { slice(e, INT64_MAX, INT64_MAX); }));
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) { slice(e, 0, 0); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) { e.add_slices(); }));
  EXPECT_DATA_LOSS(OpenAfter([](auto& e) {
    e.add_slices()->add_extent();
    e.mutable_slices(0)->add_extent();
  }));
  EXPECT_DATA_LOSS(OpenAfter([&](auto& e) {
    for (int i = 0; i < 20000; ++i) slice(e, 0, 1);
  }));
}

TEST_F(HostileIndex, BlocksThatClaimTooMuch) {
  // The footer names an index block of 2^60 bytes.
  std::string bytes = Table({{"", Header().SerializeAsString()}});
  std::string footer = Varint(0) + Varint(1) + Varint(0) + Varint(uint64_t{1} << 60);
  footer.resize(40, '\0');
  EXPECT_DATA_LOSS(
      OpenBytes(bytes.substr(0, bytes.size() - 48) + footer + bytes.substr(bytes.size() - 8)));
  // A data block's handle that overflows, and an entry longer than its block.
  std::string table;
  const std::string meta = Put(table, Block({}));
  for (const std::string& value : {Varint(UINT64_MAX) + Varint(UINT64_MAX),
                                   Varint(0) + Varint(UINT64_MAX - 4), std::string()}) {
    std::string hostile = table;
    footer = meta + Put(hostile, Block({{"x", value}}));
    footer.resize(40, '\0');
    EXPECT_DATA_LOSS(OpenBytes(hostile + footer + bytes.substr(bytes.size() - 8)));
  }
  for (const std::string& block : {Varint(0) + Varint(UINT64_MAX) + Varint(1) + Fixed(0) + Fixed(1),
                                   Varint(5) + Varint(0) + Varint(0) + Fixed(0) + Fixed(1),
                                   Fixed(UINT32_MAX), std::string("x")}) {
    std::string hostile = table;
    footer = meta + Put(hostile, block);
    footer.resize(40, '\0');
    EXPECT_DATA_LOSS(OpenBytes(hostile + footer + bytes.substr(bytes.size() - 8)));
  }
}

}  // namespace
}  // namespace cohort
