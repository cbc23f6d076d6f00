#include "common/records/tfrecord.h"

#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"

namespace cohort {

namespace {

static_assert(std::endian::native == std::endian::little, "TFRecord's numbers are little-endian");

template <typename T>
T Number(absl::string_view bytes) {
  T value = 0;
  std::memcpy(&value, bytes.data(), sizeof(value));
  return value;
}

template <typename T>
void AppendNumber(T value, std::string& out) {
  out.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

constexpr size_t kLengthBytes = sizeof(uint64_t);

bool FitsHeader(absl::string_view bytes) {
  return bytes.size() >= kTfRecordHeaderBytes &&
         Number<uint32_t>(bytes.substr(kLengthBytes)) ==
             MaskCrc32c(Crc32c(bytes.substr(0, kLengthBytes)));
}

}  // namespace

bool LooksLikeTfRecord(absl::string_view bytes) { return FitsHeader(bytes); }

absl::StatusOr<uint64_t> ReadTfRecordHeader(absl::string_view bytes, uint64_t offset) {
  if (!FitsHeader(bytes)) {
    return absl::DataLossError(absl::StrCat(
        "the record at byte ", offset, " is damaged: the checksum of its length does not fit",
        offset == 0 ? "; the file may be no TFRecord file, or be compressed" : ""));
  }
  const auto length = Number<uint64_t>(bytes);
  // A length with a good checksum may still be one for which no memory should be taken.
  if (length <= kTfRecordBytesMax) return length;
  return absl::ResourceExhaustedError(absl::StrCat("the record at byte ", offset, " has ", length,
                                                   " bytes, above the limit of ",
                                                   kTfRecordBytesMax));
}

absl::Status CheckTfRecord(absl::string_view data, absl::string_view footer, uint64_t offset) {
  if (Number<uint32_t>(footer) == MaskCrc32c(Crc32c(data))) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("the record at byte ", offset,
                                          " is damaged: the checksum of its data does not fit"));
}

void AppendTfRecord(absl::string_view data, std::string& file) {
  const size_t begin = file.size();
  AppendNumber<uint64_t>(data.size(), file);
  AppendNumber(MaskCrc32c(Crc32c(absl::string_view(file).substr(begin))), file);
  absl::StrAppend(&file, data);
  AppendNumber(MaskCrc32c(Crc32c(data)), file);
}

}  // namespace cohort
