#include "common/formats/hdf5/hdf5_chunks.h"

#include <zlib.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr uint64_t kLevelMax = 16;                      // levels in the tree of chunks
constexpr uint64_t kChunkBytesMax = uint64_t{1} << 32;  // the format's own limit
// The most bytes that deflate makes of one byte: 258 bytes need at least two bits.
constexpr uint64_t kDeflateRatioMax = 1032;

enum Filter : uint16_t { kDeflate = 1, kShuffle = 2 };

// One chunk as the tree lists it.
struct Chunk {
  std::vector<uint64_t> begin;  // index of the chunk's first element along each axis
  uint64_t address = 0;
  uint64_t stored_bytes = 0;
  uint64_t skipped_filters = 0;  // a bit for each filter that was not applied
};

// The chunks of one dataset, put together. Thread-compatible.
class ChunkReader {
 public:
  ChunkReader(Hdf5Source& source, const Hdf5Dataset& dataset)
      : source_(source),
        dataset_(dataset),
        dims_(dataset.shape.dims()),
        width_(static_cast<uint64_t>(dataset.type.stored.bytes)) {}

  absl::StatusOr<std::vector<char>> Read(uint64_t bytes) {
    RETURN_IF_ERROR(CheckSizes());
    if (dataset_.layout.kind == Hdf5Layout::Kind::kOneChunk) {
      AddOnlyChunk();
    } else if (dataset_.layout.address != kHdf5NoAddress) {
      RETURN_IF_ERROR(ReadNode(dataset_.layout.address, kAnyLevel));
    }
    RETURN_IF_ERROR(CheckChunks());
    std::vector<char> elements(bytes);
    for (const Chunk& chunk : chunks_) {
      ASSIGN_OR_RETURN(const std::string content, ContentOf(chunk));
      Place(chunk, content, elements);
    }
    return elements;
  }

 private:
  static constexpr uint64_t kAnyLevel = ~uint64_t{0};
  static constexpr uint64_t kNodeHead = 24;

  absl::Status CheckSizes() {
    const std::vector<uint64_t>& chunk = dataset_.layout.chunk;
    if (chunk.size() != dims_.size()) return source_.Malformed("chunks with other axes");
    chunk_bytes_ = width_;
    for (size_t axis = 0; axis < chunk.size(); ++axis) {
      if (chunk[axis] == 0 || chunk[axis] > kChunkBytesMax / chunk_bytes_) {
        return source_.Malformed("chunks of impossible sizes");
      }
      chunk_bytes_ *= chunk[axis];
    }
    for (const uint16_t filter : dataset_.layout.filters) {
      deflated_ = deflated_ || filter == kDeflate;
      if (filter == kDeflate || filter == kShuffle) continue;
      return source_.Unsupported(absl::StrCat("filter ", filter,
                                              " of a dataset is not supported; save it with gzip "
                                              "or without compression"));
    }
    return absl::OkStatus();
  }

  void AddOnlyChunk() {
    Chunk chunk;
    chunk.begin.assign(dims_.size(), 0);
    chunk.address = dataset_.layout.address;
    chunk.stored_bytes = dataset_.layout.stored_bytes == kHdf5NoAddress
                             ? chunk_bytes_
                             : dataset_.layout.stored_bytes;
    chunks_.push_back(std::move(chunk));
  }

  absl::Status ReadNode(uint64_t address, uint64_t level) {
    ASSIGN_OR_RETURN(const std::string head, source_.ReadBlock(address, kNodeHead, "TREE", false));
    Hdf5Bytes in(head);
    in.Skip(4);
    const uint64_t type = in.Take(1);
    const uint64_t node_level = in.Take(1);
    const uint64_t count = in.Take(2);
    const bool fits = level == kAnyLevel ? node_level <= kLevelMax : node_level == level;
    if (type != 1 || !fits) return source_.Malformed("a wrong node in the tree of chunks");
    // A key has the stored size, the skipped filters, and an index for each axis and one more.
    const uint64_t key_bytes = 8 + 8 * (dims_.size() + 1);
    ASSIGN_OR_RETURN(const std::string entries,
                     source_.Read(address + kNodeHead, count * (key_bytes + 8)));
    Hdf5Bytes list(entries);
    for (uint64_t i = 0; i < count; ++i) {
      Chunk chunk;
      chunk.stored_bytes = list.Take(4);
      chunk.skipped_filters = list.Take(4);
      for (size_t axis = 0; axis < dims_.size(); ++axis) chunk.begin.push_back(list.Take(8));
      list.Skip(8);
      chunk.address = list.Take(8);
      if (node_level == 0) {
        chunks_.push_back(std::move(chunk));
      } else {
        RETURN_IF_ERROR(ReadNode(chunk.address, node_level - 1));
      }
    }
    return absl::OkStatus();
  }

  // Checks that the chunks cover the dataset, each place once, and that the file can hold them.
  absl::Status CheckChunks() {
    uint64_t needed = 1;
    for (size_t axis = 0; axis < dims_.size(); ++axis) {
      const uint64_t dim = static_cast<uint64_t>(dims_[axis]);
      const uint64_t chunk = dataset_.layout.chunk[axis];
      const uint64_t along = (dim - 1) / chunk + 1;
      if (needed > chunks_.size() / along) return source_.Malformed("chunks are missing");
      needed *= along;
    }
    uint64_t stored = 0;
    std::set<std::vector<uint64_t>> places;
    for (const Chunk& chunk : chunks_) {
      RETURN_IF_ERROR(CheckPlace(chunk));
      const bool plain = !deflated_ || chunk.skipped_filters != 0;
      const bool possible = plain ? chunk.stored_bytes == chunk_bytes_
                                  : chunk_bytes_ / kDeflateRatioMax <= chunk.stored_bytes;
      if (!possible || !places.insert(chunk.begin).second) {
        return source_.Malformed("a chunk of an impossible size or place");
      }
      stored += std::min(chunk.stored_bytes, source_.size() + 1);
      if (stored > source_.size()) return source_.Malformed("chunks above the size of the file");
    }
    if (places.size() == needed) return absl::OkStatus();
    return source_.Malformed("more chunks than the dataset has");
  }

  absl::Status CheckPlace(const Chunk& chunk) const {
    for (size_t axis = 0; axis < dims_.size(); ++axis) {
      const uint64_t begin = chunk.begin[axis];
      if (begin < static_cast<uint64_t>(dims_[axis]) && begin % dataset_.layout.chunk[axis] == 0) {
        continue;
      }
      return source_.Malformed("a chunk beyond its dataset");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::string> ContentOf(const Chunk& chunk) {
    // The stored bytes of all chunks together are within the file, so the budget is not asked.
    if (chunk.address > source_.size() || chunk.stored_bytes > source_.size() - chunk.address) {
      return source_.Malformed("a chunk beyond the end");
    }
    std::string content(chunk.stored_bytes, '\0');
    RETURN_IF_ERROR(source_.file().Read(source_.base() + chunk.address, absl::MakeSpan(content)));
    const std::vector<uint16_t>& filters = dataset_.layout.filters;
    for (size_t i = filters.size(); i > 0; --i) {
      const bool skipped = i <= 32 && (chunk.skipped_filters >> (i - 1) & 1) != 0;
      if (skipped) continue;
      if (filters[i - 1] == kDeflate) {
        ASSIGN_OR_RETURN(content, Inflated(content));
      } else {
        content = Unshuffled(content);
      }
    }
    if (content.size() != chunk_bytes_) return source_.Malformed("a chunk of a wrong size");
    return content;
  }

  absl::StatusOr<std::string> Inflated(const std::string& deflated) const {
    std::string out(chunk_bytes_, '\0');
    uLongf length = static_cast<uLongf>(out.size());
    const int result = uncompress(reinterpret_cast<Bytef*>(out.data()), &length,
                                  reinterpret_cast<const Bytef*>(deflated.data()), deflated.size());
    if (result != Z_OK || length != out.size()) return source_.Malformed("a chunk's gzip data");
    return out;
  }

  // Undoes the shuffle filter, which stores the first bytes of all elements, then the second bytes
  // of all, and so on.
  std::string Unshuffled(const std::string& shuffled) const {
    const size_t count = shuffled.size() / width_;
    std::string out = shuffled;
    for (size_t i = 0; i < count; ++i) {
      for (size_t byte = 0; byte < width_; ++byte) {
        out[i * width_ + byte] = shuffled[byte * count + i];
      }
    }
    return out;
  }

  // Copies the part of the chunk that lies inside the dataset, run by run along the last axis.
  void Place(const Chunk& chunk, const std::string& content, std::vector<char>& elements) const {
    const size_t rank = dims_.size();
    const std::vector<uint64_t>& sizes = dataset_.layout.chunk;
    std::vector<uint64_t> at(rank, 0);
    while (true) {
      uint64_t from = 0;
      uint64_t to = 0;
      bool inside = true;
      for (size_t axis = 0; axis < rank; ++axis) {
        const uint64_t dim = static_cast<uint64_t>(dims_[axis]);
        inside = inside && chunk.begin[axis] + at[axis] < dim;
        from = from * sizes[axis] + at[axis];
        to = to * dim + chunk.begin[axis] + at[axis];
      }
      const uint64_t last_dim = static_cast<uint64_t>(dims_[rank - 1]);
      const uint64_t run = std::min(sizes[rank - 1], last_dim - chunk.begin[rank - 1]);
      if (inside) {
        std::memcpy(elements.data() + to * width_, content.data() + from * width_, run * width_);
      }
      // Goes on to the next run: the axes before the last count up like digits.
      size_t axis = rank - 1;
      while (axis > 0 && ++at[axis - 1] == sizes[axis - 1]) at[--axis] = 0;
      if (axis == 0) return;
    }
  }

  Hdf5Source& source_;
  const Hdf5Dataset& dataset_;
  const absl::Span<const int64_t> dims_;
  const uint64_t width_;  // bytes of an element
  uint64_t chunk_bytes_ = 0;
  bool deflated_ = false;
  std::vector<Chunk> chunks_;
};

}  // namespace

absl::StatusOr<std::vector<char>> ReadHdf5Chunks(Hdf5Source& source, const Hdf5Dataset& dataset,
                                                 uint64_t bytes) {
  return ChunkReader(source, dataset).Read(bytes);
}

}  // namespace cohort
