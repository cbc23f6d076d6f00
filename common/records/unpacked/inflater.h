#pragma once

// Unpacks a gzip or zlib file from front to back, or from a restart point on.
//
// A restart point is a place where a block of deflate begins, together with the 32 KiB of unpacked
// bytes before it, from which deflate may copy (its window). Unpacking can begin there, as zlib's
// example zran.c shows. The borders of gzip's members and of zlib's streams are points without a
// window.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/records/unpacked/compression.h"

namespace cohort {

struct RestartPoint {
  uint64_t unpacked = 0;  // offset in the unpacked data
  uint64_t packed = 0;    // offset in the file of the first byte that no earlier block needs whole
  // The number of bits, 0 to 7, of the byte before `packed` that belong to the block.
  int bits = 0;
  bool starts_stream = false;  // true: a member or stream begins here, and needs no window
  std::string window = {};     // the unpacked bytes before the point, packed by deflate
};

// Upper bound on a window, which deflate's format sets.
inline constexpr size_t kInflateWindowBytes = 32 << 10;

// Unpacks one file. The file and the path outlive the inflater. Thread-compatible.
class Inflater {
 public:
  // Receives a place at which a restart point may be made, with an empty window, while Read() runs.
  // Returns whether the point is wanted; its window is then filled in and given to `keep`.
  struct PointSink {
    std::function<bool(const RestartPoint& place)> wants;
    std::function<void(RestartPoint point)> keep;
  };

  // Starts at the beginning of the file. `compression` is kGzip or kZlib; `points` may be null.
  static absl::StatusOr<std::unique_ptr<Inflater>> AtStart(const ReadableFile& file,
                                                           const std::string& path,
                                                           FileCompression compression,
                                                           const PointSink* points);
  // Starts at a point. The checksum of the member or stream in which the point lies is not
  // verified; those of later ones are. Errors: DATA_LOSS for a window that does not unpack.
  static absl::StatusOr<std::unique_ptr<Inflater>> AtPoint(const ReadableFile& file,
                                                           const std::string& path,
                                                           FileCompression compression,
                                                           const RestartPoint& point);
  ~Inflater();
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  // Unpacks the next bytes into `out` and returns their number, which is below the size of `out`
  // only at the end of the data. Errors: DATA_LOSS naming the path, the offset and what is wrong:
  // data that do not unpack, a checksum that does not fit, a file that is cut off, and bytes after
  // the end that are neither another member nor another stream; those of the file.
  absl::StatusOr<size_t> Read(absl::Span<char> out);
  // Returns the offset in the unpacked data of the byte that Read() gives next.
  uint64_t position() const { return position_; }

 private:
  struct Zlib;

  Inflater(const ReadableFile& file, const std::string& path, FileCompression compression,
           const PointSink* points);
  absl::Status Init(int window_bits);
  absl::Status Fill();
  absl::Status TakeByte(unsigned char* byte);
  absl::Status EndStream();
  absl::Status BeginNextStream();
  void OfferPoint(bool starts_stream);
  absl::Status Damaged(absl::string_view what) const;
  int WindowBits() const;

  const ReadableFile& file_;
  const std::string& path_;
  const FileCompression compression_;
  const PointSink* const points_;
  const std::unique_ptr<Zlib> zlib_;
  std::vector<char> input_;
  uint64_t next_input_ = 0;  // offset in the file of the byte after input_
  uint64_t position_ = 0;
  bool is_raw_ = false;  // true: began inside a stream, whose header and checksum zlib does not see
  bool ended_ = false;
};

}  // namespace cohort
