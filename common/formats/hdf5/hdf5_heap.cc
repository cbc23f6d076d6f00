#include "common/formats/hdf5/hdf5_heap.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr uint64_t kBlockOverhead = 10;  // a node's signature, version, type, checksum
constexpr uint64_t kDepthMax = 16;       // levels in a tree
constexpr uint64_t kAddressBytes = 8;

// Returns how many bytes hold the numbers up to `limit`.
uint64_t WidthOf(uint64_t limit) {
  uint64_t width = 1;
  for (; limit > 255; limit >>= 8) ++width;
  return width;
}

// Returns log2 of a power of two, or 64 if `value` is none.
uint64_t LogOf(uint64_t value) {
  if (value == 0 || (value & (value - 1)) != 0) return 64;
  uint64_t log = 0;
  for (; value > 1; value >>= 1) ++log;
  return log;
}

// The nodes of a tree at one depth; leaves have depth 0.
struct Level {
  uint64_t records_max = 0;    // upper bound of the records in one node
  uint64_t below_max = 0;      // upper bound of the records in one node and all nodes below it
  uint64_t pointer_bytes = 0;  // width of a pointer to a child
};

// A version-2 B-tree whose records are being collected. Thread-compatible.
class TreeReader {
 public:
  explicit TreeReader(Hdf5Source& source) : source_(source) {}

  absl::Status Read(uint64_t address) {
    constexpr uint64_t kHeaderBytes = 38;
    ASSIGN_OR_RETURN(const std::string header,
                     source_.ReadBlock(address, kHeaderBytes, "BTHD", /*checksum=*/true));
    Hdf5Bytes in(header);
    in.Skip(6);
    node_bytes_ = in.Take(4);
    record_bytes_ = in.Take(2);
    const uint64_t depth = in.Take(2);
    in.Skip(2);
    const uint64_t root = in.Take(8);
    const uint64_t count = in.Take(2);
    if (depth > kDepthMax || record_bytes_ == 0 || node_bytes_ > source_.size() ||
        node_bytes_ < kBlockOverhead + record_bytes_) {
      return source_.Malformed("a B-tree of impossible sizes");
    }
    AddLevels(depth);
    if (root == kHdf5NoAddress) return absl::OkStatus();  // no records
    return ReadNode(root, count, depth);
  }

  std::vector<std::string> TakeRecords() { return std::move(records_); }

 private:
  void AddLevels(uint64_t depth) {
    const uint64_t in_leaf = (node_bytes_ - kBlockOverhead) / record_bytes_;
    levels_.push_back({in_leaf, in_leaf, 0});
    for (uint64_t i = 1; i <= depth; ++i) {
      const Level& below = levels_.back();
      Level level;
      level.pointer_bytes =
          kAddressBytes + WidthOf(in_leaf) + (i > 1 ? WidthOf(below.below_max) : 0);
      const uint64_t left = node_bytes_ - kBlockOverhead;
      level.records_max = left < level.pointer_bytes ? 0
                                                     : (left - level.pointer_bytes) /
                                                           (record_bytes_ + level.pointer_bytes);
      // Counts are capped here: no file has as many records.
      constexpr uint64_t kManyRecords = uint64_t{1} << 62;
      level.below_max = below.below_max > kManyRecords / (level.records_max + 2)
                            ? kManyRecords
                            : (level.records_max + 1) * below.below_max + level.records_max;
      levels_.push_back(level);
    }
  }

  absl::Status ReadNode(uint64_t address, uint64_t count, uint64_t depth) {
    const Level& level = levels_[depth];
    if (count > level.records_max)
      return source_.Malformed("a B-tree's node with too many records");
    const uint64_t pointers = depth == 0 ? 0 : (count + 1) * level.pointer_bytes;
    const uint64_t length = kBlockOverhead + count * record_bytes_ + pointers;
    ASSIGN_OR_RETURN(const std::string node,
                     source_.ReadBlock(address, length, depth == 0 ? "BTLF" : "BTIN",
                                       /*checksum=*/true));
    Hdf5Bytes in(node);
    in.Skip(6);
    for (uint64_t i = 0; i < count; ++i) records_.emplace_back(in.TakeBytes(record_bytes_));
    if (depth == 0) return absl::OkStatus();
    const uint64_t count_bytes = WidthOf(levels_[0].records_max);
    for (uint64_t i = 0; i <= count; ++i) {
      const uint64_t child = in.Take(kAddressBytes);
      const uint64_t child_count = in.Take(count_bytes);
      in.Skip(level.pointer_bytes - kAddressBytes - count_bytes);
      if (!in.ok()) return source_.Malformed("a B-tree's node that does not end");
      RETURN_IF_ERROR(ReadNode(child, child_count, depth - 1));
    }
    return absl::OkStatus();
  }

  Hdf5Source& source_;
  uint64_t node_bytes_ = 0;
  uint64_t record_bytes_ = 0;
  std::vector<Level> levels_;
  std::vector<std::string> records_;
};

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadHdf5Tree(Hdf5Source& source, uint64_t address) {
  TreeReader reader(source);
  RETURN_IF_ERROR(reader.Read(address));
  return reader.TakeRecords();
}

absl::StatusOr<Hdf5Heap> Hdf5Heap::Open(Hdf5Source& source, uint64_t address) {
  constexpr uint64_t kHeaderBytes = 146;  // bytes of a heap's header that has no filters
  ASSIGN_OR_RETURN(const std::string begin, source.Read(address, 9));
  Hdf5Bytes prefix(begin);
  prefix.Skip(7);
  if (prefix.Take(2) != 0) return source.Unsupported("a heap of links or attributes is filtered");
  ASSIGN_OR_RETURN(const std::string header,
                   source.ReadBlock(address, kHeaderBytes, "FRHP", /*checksum=*/true));
  Hdf5Bytes in(header);
  Hdf5Heap heap;
  in.Skip(5);
  heap.id_bytes_ = in.Take(2);
  in.Skip(3);
  const uint64_t managed_max = in.Take(4);
  in.Skip(12 * 8);  // counts of huge and tiny objects, and the free space
  heap.table_width_ = in.Take(2);
  heap.start_log_ = LogOf(in.Take(8));
  heap.direct_log_ = LogOf(in.Take(8));
  const uint64_t heap_bits = in.Take(2);
  in.Skip(2);
  heap.root_ = in.Take(8);
  heap.root_rows_ = in.Take(2);
  const uint64_t rows_max = heap_bits >= heap.start_log_ ? heap_bits - heap.start_log_ + 1 : 0;
  if (!in.ok() || heap.table_width_ == 0 || heap.start_log_ > 32 || heap.direct_log_ > 32 ||
      heap.direct_log_ < heap.start_log_ || heap_bits > 63 || heap.root_rows_ > rows_max) {
    return source.Malformed("a heap of impossible sizes");
  }
  heap.offset_bytes_ = (heap_bits + 7) / 8;
  heap.length_bytes_ = std::min((heap.direct_log_ + 7) / 8, WidthOf(managed_max));
  return heap;
}

absl::StatusOr<std::string> Hdf5Heap::Read(Hdf5Source& source, absl::string_view id) const {
  Hdf5Bytes in(id);
  const uint64_t head = in.Take(1);
  const uint64_t kind = head >> 4 & 3;
  constexpr uint64_t kManaged = 0;
  constexpr uint64_t kTiny = 2;
  if (kind == kManaged) return ReadManaged(source, in);
  if (kind != kTiny) {
    return source.Unsupported(
        "a link or attribute of more than 64 kB; save the file with h5py's "
        "default libver");
  }
  // Ids above 18 bytes have longer tiny objects, with a length of two bytes.
  uint64_t length = head & 15;
  if (id_bytes_ > 18) length = length << 8 | in.Take(1);
  const absl::string_view object = in.TakeBytes(length + 1);
  if (!in.ok()) return source.Malformed("an object beyond its id");
  return std::string(object);
}

absl::StatusOr<std::string> Hdf5Heap::ReadManaged(Hdf5Source& source, Hdf5Bytes id) const {
  const uint64_t offset = id.Take(offset_bytes_);
  const uint64_t length = id.Take(length_bytes_);
  if (!id.ok()) return source.Malformed("a heap's id that does not end");
  if (root_rows_ > 0) return ReadBelow(source, root_, root_rows_, offset, length);
  if (offset > uint64_t{1} << start_log_) return source.Malformed("an object beyond its heap");
  return source.Read(root_ + offset, length);
}

absl::StatusOr<std::string> Hdf5Heap::ReadBelow(Hdf5Source& source, uint64_t address, uint64_t rows,
                                                uint64_t offset, uint64_t length) const {
  // Every step goes to a row of smaller blocks, so the loop ends.
  while (true) {
    uint64_t row = 0;
    uint64_t row_begin = 0;
    while (row < rows && offset - row_begin >= table_width_ << RowSizeLog(row)) {
      row_begin += table_width_ << RowSizeLog(row);
      ++row;
    }
    if (row >= rows) return source.Malformed("an object beyond its heap");
    const uint64_t size_log = RowSizeLog(row);
    const uint64_t column = (offset - row_begin) >> size_log;
    // Behind the block's signature, version, heap and offset stand the addresses of its children.
    const uint64_t entries = 5 + kAddressBytes + offset_bytes_;
    const uint64_t entry = entries + (row * table_width_ + column) * kAddressBytes;
    ASSIGN_OR_RETURN(const std::string signature, source.Read(address, 4));
    if (signature != "FHIB") return source.Malformed("no block of a heap where one should be");
    ASSIGN_OR_RETURN(const std::string child, source.Read(address + entry, kAddressBytes));
    address = Hdf5Bytes(child).Take(kAddressBytes);
    offset = (offset - row_begin) & ((uint64_t{1} << size_log) - 1);
    if (address > source.size()) return source.Malformed("a heap's block beyond the end");
    if (size_log <= direct_log_) return source.Read(address + offset, length);
    // The blocks below a block of this size fill it: the first row has table_width_ of the
    // smallest.
    uint64_t first_row_log = start_log_;
    for (uint64_t width = table_width_; width > 1; width >>= 1) ++first_row_log;
    if (size_log < first_row_log) return source.Malformed("a heap of impossible sizes");
    rows = size_log - first_row_log + 1;
  }
}

}  // namespace cohort
