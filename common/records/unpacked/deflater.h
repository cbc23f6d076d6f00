#pragma once

// Packs bytes as TensorFlow's writers do: as one gzip member, or one zlib stream, of zlib's level 6
// with the most memory for its tables (memLevel 9), which gives the same bytes.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/records/unpacked/compression.h"

namespace cohort {

// Thread-compatible.
class Deflater {
 public:
  // `compression` is kGzip or kZlib. Errors: RESOURCE_EXHAUSTED without memory.
  static absl::StatusOr<std::unique_ptr<Deflater>> Create(FileCompression compression);
  ~Deflater();
  Deflater(const Deflater&) = delete;
  Deflater& operator=(const Deflater&) = delete;

  // Appends to `packed` what `bytes` pack to so far.
  void Add(absl::string_view bytes, std::string& packed);
  // Appends the rest. Nothing is added afterwards.
  void Finish(std::string& packed);

 private:
  struct Zlib;
  Deflater();
  void Run(absl::string_view bytes, int flush, std::string& packed);

  const std::unique_ptr<Zlib> zlib_;
};

}  // namespace cohort
