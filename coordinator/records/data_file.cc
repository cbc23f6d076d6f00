#include "coordinator/records/data_file.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/records/record_file.h"
#include "common/records/tfrecord.h"
#include "common/records/unpacked/inflater.h"

namespace cohort {

namespace {

// Returns the ending of a file's name, in lower case and without that of a compression.
std::string EndingOf(const std::string& path) {
  std::string name = absl::AsciiStrToLower(BaseName(path));
  for (const char* packed : {".gz", ".gzip", ".zlib"}) {
    if (absl::EndsWith(name, packed)) name = std::string(absl::StripSuffix(name, packed));
  }
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "" : name.substr(dot);
}

// Returns the first unpacked bytes of a file.
absl::StatusOr<std::string> Beginning(const ReadableFile& file, const std::string& path,
                                      FileCompression compression) {
  std::vector<char> bytes(kTfRecordHeaderBytes);
  if (compression == FileCompression::kNone) {
    bytes.resize(std::min<uint64_t>(bytes.size(), file.size()));
    RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(bytes)));
  } else {
    ASSIGN_OR_RETURN(const std::unique_ptr<Inflater> inflater,
                     Inflater::AtStart(file, path, compression, /*points=*/nullptr));
    ASSIGN_OR_RETURN(const size_t got, inflater->Read(absl::MakeSpan(bytes)));
    bytes.resize(got);
  }
  return std::string(bytes.begin(), bytes.end());
}

// Refuses files by the magic numbers of formats that are not read, with the way out.
absl::Status RefuseOthers(const std::string& path, absl::string_view beginning) {
  const auto refuse = [&](absl::string_view what, absl::string_view way_out) {
    return absl::UnimplementedError(absl::StrCat(path, ": is ", what, "; ", way_out));
  };
  if (absl::StartsWith(beginning, "PAR1")) {
    return refuse("Parquet, which is not read", "convert it to TFRecord or CSV");
  }
  if (absl::StartsWith(beginning, "\x28\xb5\x2f\xfd")) {
    return refuse("packed by zstd, which is not read", "unpack it, or pack it by gzip");
  }
  if (absl::StartsWith(beginning, "\x93NUMPY") || absl::StartsWith(beginning, "PK")) {
    return refuse("an array or archive of NumPy, not a file of records",
                  "a job reads it as the data set NumPy");
  }
  if (beginning.size() >= 4 && beginning[0] == 0 && beginning[1] == 0) {
    return refuse("an IDX file, not a file of records", "a job reads it as the data set IDX");
  }
  if (EndingOf(path) == ".jsonl" || EndingOf(path) == ".ndjson") {
    return refuse("JSON lines, which are not read", "convert it to TFRecord or CSV");
  }
  return absl::OkStatus();
}

}  // namespace

const char* DataKindName(DataKind kind) {
  switch (kind) {
    case DataKind::kTfRecord:
      return "TFRecord";
    case DataKind::kCsv:
      return "CSV";
    default:
      return "text";
  }
}

RecordFormat DataFile::format() const {
  RecordFormat format;
  format.kind = kind == DataKind::kTfRecord ? RecordFormat::Kind::kTfRecord
                : kind == DataKind::kCsv    ? RecordFormat::Kind::kCsv
                                            : RecordFormat::Kind::kTextLines;
  // Files of CSV often end in an empty line.
  format.skip_blank = kind == DataKind::kCsv;
  return format;
}

absl::Status DataFile::Scan(FileSystem& files,
                            absl::FunctionRef<bool(const ScannedRecord& record)> take) const {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  return ScanRecords(*file, path, format(), compression, take);
}

absl::StatusOr<DataFile> RecognizeDataFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  DataFile data;
  data.path = path;
  // Text has no checksum that contradicts a compression, so TFRecords are asked for first.
  ASSIGN_OR_RETURN(data.compression, CompressionOf(*file, {.kind = RecordFormat::Kind::kTfRecord},
                                                   FileCompression::kAuto));
  ASSIGN_OR_RETURN(const std::string beginning, Beginning(*file, path, data.compression));
  const std::string ending = EndingOf(path);
  if (LooksLikeTfRecord(beginning) || ending == ".tfrecord" || ending == ".tfrecords") {
    data.kind = DataKind::kTfRecord;
    return data;
  }
  RETURN_IF_ERROR(RefuseOthers(path, beginning));
  if (ending == ".csv" || ending == ".tsv") data.kind = DataKind::kCsv;
  if (ending == ".tsv") data.delimiter = '\t';
  return data;
}

absl::StatusOr<DataFile> DataFileToWrite(const std::string& path) {
  DataFile data;
  data.path = path;
  const std::string lower = absl::AsciiStrToLower(path);
  if (absl::EndsWith(lower, ".gz") || absl::EndsWith(lower, ".gzip")) {
    data.compression = FileCompression::kGzip;
  }
  if (absl::EndsWith(lower, ".zlib")) data.compression = FileCompression::kZlib;
  const std::string ending = EndingOf(path);
  if (ending == ".tfrecord" || ending == ".tfrecords") {
    data.kind = DataKind::kTfRecord;
  } else if (ending == ".csv" || ending == ".tsv") {
    data.kind = DataKind::kCsv;
    if (ending == ".tsv") data.delimiter = '\t';
  } else if (ending != ".txt") {
    return absl::InvalidArgumentError(
        absl::StrCat(path,
                     ": its ending says no format; end it in .tfrecord, .csv, .tsv or .txt, "
                     "and in .gz to pack it"));
  }
  return data;
}

}  // namespace cohort
