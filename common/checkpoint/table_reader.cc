#include "common/checkpoint/table_reader.h"

#include <snappy.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

// The size of a table's footer: two block handles, padding zeros and the magic number.
constexpr size_t kFooterBytes = 48;
constexpr size_t kMagicBytes = 8;
// The size of a block's trailer: the block's type (1 byte) and a masked CRC-32C of block and type
// (4 bytes).
constexpr size_t kTrailerBytes = 5;
constexpr uint64_t kTableMagic = 0xdb4775248b80fb57ull;
constexpr char kUncompressed = 0;
constexpr char kSnappy = 1;

struct BlockHandle {
  uint64_t offset = 0;
  uint64_t size = 0;  // size of the block without its trailer (kTrailerBytes)
};

using EntryVisitor = absl::FunctionRef<absl::Status(absl::string_view, absl::string_view)>;

// Returns the number whose bytes are `bytes` (at most eight), the least significant byte first.
uint64_t LittleEndian(absl::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

// Removes a varint from the beginning of `in`. Returns false if `in` ends before the varint does,
// or if the varint is longer than 64 bits.
bool TakeVarint(absl::string_view& in, uint64_t& value) {
  value = 0;
  for (int shift = 0; shift < 64 && !in.empty(); shift += 7) {
    const uint64_t byte = static_cast<unsigned char>(in[0]);
    in.remove_prefix(1);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

bool TakeHandle(absl::string_view& in, BlockHandle& handle) {
  return TakeVarint(in, handle.offset) && TakeVarint(in, handle.size);
}

// The reader of one table file. Thread-compatible.
class TableReader {
 public:
  TableReader(const ReadableFile& file, const std::string& path) : file_(file), path_(path) {}

  absl::Status ForEach(EntryVisitor visit) const {
    BlockHandle metaindex;
    BlockHandle index;
    RETURN_IF_ERROR(ReadFooter(metaindex, index));
    // The metaindex block lists filters, which this reader does not use. It is read only to detect
    // damage.
    RETURN_IF_ERROR(ReadBlock(metaindex).status());
    ASSIGN_OR_RETURN(const std::string index_block, ReadBlock(index));
    std::string last_key;
    bool first = true;
    auto ascending = [&](absl::string_view key, absl::string_view value) -> absl::Status {
      // The order of keys is checked across all blocks, so no key can occur twice in the table.
      if (!first && key <= last_key) return DamagedFile(path_, "keys are not in ascending order");
      first = false;
      last_key.assign(key.data(), key.size());
      return visit(key, value);
    };
    return ForEachInBlock(index_block, [&](absl::string_view, absl::string_view value) {
      return VisitDataBlock(value, ascending);
    });
  }

 private:
  absl::Status ReadFooter(BlockHandle& metaindex, BlockHandle& index) const {
    if (file_.size() < kFooterBytes) return DamagedFile(path_, "shorter than a table's footer");
    std::string footer(kFooterBytes, '\0');
    RETURN_IF_ERROR(file_.Read(file_.size() - kFooterBytes, absl::MakeSpan(footer)));
    absl::string_view rest = footer;
    if (LittleEndian(rest.substr(kFooterBytes - kMagicBytes)) != kTableMagic) {
      return DamagedFile(path_, "does not end with a table's magic number");
    }
    rest.remove_suffix(kMagicBytes);
    if (!TakeHandle(rest, metaindex) || !TakeHandle(rest, index) ||
        rest.find_first_not_of('\0') != absl::string_view::npos) {
      return DamagedFile(path_, "malformed footer");
    }
    return absl::OkStatus();
  }

  absl::Status VisitDataBlock(absl::string_view encoded_handle, EntryVisitor visit) const {
    BlockHandle handle;
    if (!TakeHandle(encoded_handle, handle)) return DamagedFile(path_, "malformed block handle");
    ASSIGN_OR_RETURN(const std::string block, ReadBlock(handle));
    return ForEachInBlock(block, visit);
  }

  absl::StatusOr<std::string> ReadBlock(const BlockHandle& handle) const {
    // A block and its trailer must end before the footer. The check subtracts, because adding could
    // overflow.
    const uint64_t limit = file_.size() - kFooterBytes;
    if (handle.size > kTableBlockBytesMax || handle.offset > limit ||
        handle.size + kTrailerBytes > limit - handle.offset) {
      return DamagedFile(path_, absl::StrCat("block of ", handle.size, " bytes at ", handle.offset,
                                             " is not inside the file"));
    }
    std::string block(static_cast<size_t>(handle.size) + kTrailerBytes, '\0');
    RETURN_IF_ERROR(file_.Read(handle.offset, absl::MakeSpan(block)));
    // The stored checksum covers the block and the byte with the block's type.
    const absl::string_view checked(block.data(), block.size() - 4);
    const uint32_t stored =
        static_cast<uint32_t>(LittleEndian(absl::string_view(block).substr(block.size() - 4)));
    if (Crc32c(checked) != UnmaskCrc32c(stored)) {
      return DamagedFile(path_, absl::StrCat("wrong checksum of the block at ", handle.offset));
    }
    const char type = block[block.size() - kTrailerBytes];
    block.resize(block.size() - kTrailerBytes);
    if (type == kUncompressed) return block;
    if (type == kSnappy) return Uncompress(block);
    return DamagedFile(path_, absl::StrCat("unknown compression ", static_cast<int>(type)));
  }

  absl::StatusOr<std::string> Uncompress(const std::string& block) const {
    size_t size = 0;
    // The uncompressed length is checked before memory of this size is allocated, because a damaged
    // length could be huge.
    if (!snappy::GetUncompressedLength(block.data(), block.size(), &size) ||
        size > kTableBlockBytesMax) {
      return DamagedFile(path_, "malformed length of a compressed block");
    }
    std::string plain(size, '\0');
    if (!snappy::RawUncompress(block.data(), block.size(), plain.data())) {
      return DamagedFile(path_, "malformed compressed block");
    }
    return plain;
  }

  // Calls `visit` with each entry of a block. An entry is (shared, unshared, value length, rest of
  // the key, value). After the entries come restart points, which a scan in order does not need.
  absl::Status ForEachInBlock(absl::string_view block, EntryVisitor visit) const {
    if (block.size() < 4) return DamagedFile(path_, "block without restart points");
    const uint64_t restarts = LittleEndian(block.substr(block.size() - 4));
    // The last four bytes of a block count its restart points, which take four bytes each.
    if (restarts > (block.size() - 4) / 4) return DamagedFile(path_, "malformed restart points");
    block.remove_suffix(4 + 4 * static_cast<size_t>(restarts));
    std::string key;
    while (!block.empty()) {
      uint64_t shared, unshared, value_size;
      if (!TakeVarint(block, shared) || !TakeVarint(block, unshared) ||
          !TakeVarint(block, value_size) || shared > key.size() || unshared > block.size() ||
          value_size > block.size() - unshared) {
        return DamagedFile(path_, "malformed entry in a block");
      }
      // An entry stores only the end of its key. The first `shared` bytes of the key are those of
      // the key before it.
      key.resize(static_cast<size_t>(shared));
      key.append(block.data(), static_cast<size_t>(unshared));
      block.remove_prefix(static_cast<size_t>(unshared));
      RETURN_IF_ERROR(visit(key, block.substr(0, static_cast<size_t>(value_size))));
      block.remove_prefix(static_cast<size_t>(value_size));
    }
    return absl::OkStatus();
  }

  const ReadableFile& file_;
  const std::string& path_;
};

}  // namespace

absl::Status ForEachTableEntry(const ReadableFile& file, const std::string& path,
                               EntryVisitor visit) {
  return TableReader(file, path).ForEach(visit);
}

}  // namespace cohort
