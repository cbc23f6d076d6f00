#pragma once

// TensorFlow's TFRecord format. A record is its length (uint64), the masked CRC-32C of these 8
// bytes (uint32), its data, and the masked CRC-32C of the data (uint32), all little-endian. A file
// has neither a header nor a footer, so an empty file has no records.
//
// Stricter than TensorFlow: fewer bytes than a header at the end of a file are an error, not its
// end.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

inline constexpr size_t kTfRecordHeaderBytes = 12;
inline constexpr size_t kTfRecordFooterBytes = 4;
// Upper bound on the data of one record: that of a protobuf message.
inline constexpr uint64_t kTfRecordBytesMax = (uint64_t{1} << 31) - 1;

// Reads the length of the record whose header begins `bytes`, which has at least
// kTfRecordHeaderBytes. `offset` is the place of the header, for messages. Errors: DATA_LOSS for a
// checksum that does not fit; RESOURCE_EXHAUSTED for a length above kTfRecordBytesMax.
absl::StatusOr<uint64_t> ReadTfRecordHeader(absl::string_view bytes, uint64_t offset);

// Checks the data of a record against the footer that follows it. `offset` is the place of the
// header. Errors: DATA_LOSS.
absl::Status CheckTfRecord(absl::string_view data, absl::string_view footer, uint64_t offset);

// Returns whether the bytes begin with the header of a TFRecord.
bool LooksLikeTfRecord(absl::string_view bytes);

// Appends a record to the bytes of a file.
void AppendTfRecord(absl::string_view data, std::string& file);

}  // namespace cohort
