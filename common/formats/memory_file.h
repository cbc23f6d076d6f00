#pragma once

// Bytes in memory in the place of a file, so that readers of formats need only ReadableFile.

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A file whose bytes lie in memory, such as a member of an archive. Thread-safe.
class MemoryFile final : public ReadableFile {
 public:
  explicit MemoryFile(std::shared_ptr<const Buffer> bytes);
  // Makes a file with a copy of `bytes`.
  explicit MemoryFile(absl::string_view bytes);

  uint64_t size() const override;
  absl::Status Read(uint64_t offset, absl::Span<char> out) const override;

 private:
  const std::shared_ptr<const Buffer> bytes_;  // shared: whoever filled the buffer may keep it
};

}  // namespace cohort
