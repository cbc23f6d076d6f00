#include "common/formats/zip_archive.h"

#include <zip.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/memory_file.h"
#include "common/formats/stored_elements.h"

namespace cohort {

namespace {

// The most bytes that deflate makes of one byte: 258 bytes need at least two bits.
constexpr uint64_t kDeflateRatioMax = 1032;

}  // namespace

// The file of an archive, as libzip reads it. Thread-compatible.
class ZipArchive::Source {
 public:
  explicit Source(std::unique_ptr<ReadableFile> file) : file_(std::move(file)) {
    zip_error_init(&error_);
  }
  ~Source() { zip_error_fini(&error_); }

  uint64_t size() const { return file_->size(); }
  const absl::Status& status() const { return status_; }

  // Answers one request of libzip.
  static zip_int64_t Callback(void* source, void* data, zip_uint64_t length,
                              zip_source_cmd_t command) {
    return static_cast<Source*>(source)->Answer(data, length, command);
  }

 private:
  zip_int64_t Answer(void* data, zip_uint64_t length, zip_source_cmd_t command) {
    switch (command) {
      case ZIP_SOURCE_SUPPORTS:
        return zip_source_make_command_bitmap(ZIP_SOURCE_OPEN, ZIP_SOURCE_READ, ZIP_SOURCE_CLOSE,
                                              ZIP_SOURCE_STAT, ZIP_SOURCE_ERROR, ZIP_SOURCE_FREE,
                                              ZIP_SOURCE_SEEK, ZIP_SOURCE_TELL, -1);
      case ZIP_SOURCE_OPEN:
        position_ = 0;
        return 0;
      case ZIP_SOURCE_READ:
        return Read(static_cast<char*>(data), length);
      case ZIP_SOURCE_STAT:
        return Stat(data, length);
      case ZIP_SOURCE_ERROR:
        return zip_error_to_data(&error_, data, length);
      case ZIP_SOURCE_SEEK:
        return Seek(data, length);
      case ZIP_SOURCE_TELL:
        return static_cast<zip_int64_t>(position_);
      case ZIP_SOURCE_CLOSE:
      case ZIP_SOURCE_FREE:  // the source belongs to ZipArchive
        return 0;
      default:
        zip_error_set(&error_, ZIP_ER_OPNOTSUPP, 0);
        return -1;
    }
  }

  zip_int64_t Read(char* out, zip_uint64_t length) {
    const uint64_t count = std::min<uint64_t>(length, file_->size() - position_);
    status_ = file_->Read(position_, absl::Span<char>(out, count));
    if (!status_.ok()) {
      zip_error_set(&error_, ZIP_ER_READ, 0);
      return -1;
    }
    position_ += count;
    return static_cast<zip_int64_t>(count);
  }

  zip_int64_t Stat(void* data, zip_uint64_t length) {
    if (length < sizeof(zip_stat_t)) return -1;
    auto* const stat = static_cast<zip_stat_t*>(data);
    zip_stat_init(stat);
    stat->size = file_->size();
    stat->valid = ZIP_STAT_SIZE;
    return sizeof(zip_stat_t);
  }

  zip_int64_t Seek(void* data, zip_uint64_t length) {
    const zip_int64_t offset =
        zip_source_seek_compute_offset(position_, file_->size(), data, length, &error_);
    if (offset < 0) return -1;
    position_ = static_cast<uint64_t>(offset);
    return 0;
  }

  const std::unique_ptr<ReadableFile> file_;
  uint64_t position_ = 0;  // at most the size of the file
  zip_error_t error_;
  absl::Status status_;  // result of the last read
};

bool LooksLikeZip(const ReadableFile& file) {
  std::array<char, 4> magic;
  return file.size() >= magic.size() && file.Read(0, absl::MakeSpan(magic)).ok() &&
         absl::string_view(magic.data(), magic.size()) == absl::string_view("PK\x03\x04", 4);
}

ZipArchive::ZipArchive(std::unique_ptr<Source> source, std::string path)
    : path_(std::move(path)), source_(std::move(source)) {}

ZipArchive::~ZipArchive() {
  const MutexLock lock(mutex_);
  if (archive_ != nullptr) zip_discard(archive_);
}

absl::StatusOr<std::unique_ptr<ZipArchive>> ZipArchive::Open(std::unique_ptr<ReadableFile> file,
                                                             const std::string& path) {
  std::unique_ptr<ZipArchive> archive(
      new ZipArchive(std::make_unique<Source>(std::move(file)), path));
  RETURN_IF_ERROR(archive->Init());
  return archive;
}

absl::Status ZipArchive::Init() {
  const MutexLock lock(mutex_);
  zip_error_t error;
  zip_error_init(&error);
  zip_source_t* const source = zip_source_function_create(&Source::Callback, source_.get(), &error);
  if (source != nullptr) archive_ = zip_open_from_source(source, ZIP_RDONLY, &error);
  const std::string text = zip_error_strerror(&error);
  zip_error_fini(&error);
  if (archive_ == nullptr) {
    if (source != nullptr) zip_source_free(source);
    RETURN_IF_ERROR(source_->status());
    return MalformedFile(path_, absl::StrCat("no ZIP archive: ", text));
  }
  const zip_int64_t count = zip_get_num_entries(archive_, 0);
  if (count < 0 || static_cast<uint64_t>(count) > kZipMembersMax) {
    return MalformedFile(path_, absl::StrCat(count, " members, above ", kZipMembersMax));
  }
  std::set<absl::string_view> names;
  members_.reserve(static_cast<size_t>(count));  // `names` refers to names in the list
  for (zip_int64_t i = 0; i < count; ++i) {
    zip_stat_t stat;
    zip_stat_init(&stat);
    const bool known = zip_stat_index(archive_, static_cast<zip_uint64_t>(i), 0, &stat) == 0;
    if (!known || (stat.valid & ZIP_STAT_NAME) == 0 || (stat.valid & ZIP_STAT_SIZE) == 0) {
      return MalformedFile(path_, absl::StrCat("member ", i, " has no name or no size"));
    }
    members_.push_back({stat.name, stat.size});
    if (!names.insert(members_.back().name).second) {
      return MalformedFile(
          path_, absl::StrCat("two members are called '", Excerpt(members_.back().name), "'"));
    }
  }
  return absl::OkStatus();
}

std::optional<size_t> ZipArchive::Find(absl::string_view name) const {
  for (size_t i = 0; i < members_.size(); ++i) {
    if (members_[i].name == name) return i;
  }
  return std::nullopt;
}

absl::Status ZipArchive::CheckMember(size_t index, uint64_t bytes_max) const {
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE | ZIP_STAT_COMP_METHOD;
  if (zip_stat_index(archive_, index, 0, &stat) != 0 || (stat.valid & kNeeded) != kNeeded) {
    return absl::DataLossError("no sizes");
  }
  if ((stat.valid & ZIP_STAT_ENCRYPTION_METHOD) != 0 && stat.encryption_method != ZIP_EM_NONE) {
    return absl::UnimplementedError("is encrypted; save the archive without a password");
  }
  if (stat.comp_method != ZIP_CM_STORE && stat.comp_method != ZIP_CM_DEFLATE) {
    return absl::UnimplementedError(
        absl::StrCat("is compressed by method ", stat.comp_method, "; store it, or use deflate"));
  }
  const bool stored = stat.comp_method == ZIP_CM_STORE;
  const bool possible =
      stored ? stat.size == stat.comp_size : stat.size / kDeflateRatioMax <= stat.comp_size;
  if (stat.comp_size > source_->size() || !possible) {
    return absl::DataLossError(absl::StrCat(stat.size, " bytes in ", stat.comp_size,
                                            " of an archive of ", source_->size()));
  }
  if (stat.size <= bytes_max) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("has ", stat.size, " bytes, above the limit of ", bytes_max));
}

absl::StatusOr<std::unique_ptr<ReadableFile>> ZipArchive::Read(size_t index,
                                                               uint64_t bytes_max) const {
  const MutexLock lock(mutex_);
  const ZipMember& member = members_[index];
  const std::string where = absl::StrCat(path_, ": member '", Excerpt(member.name), "'");
  const absl::Status checked = CheckMember(index, bytes_max);
  if (!checked.ok()) return Annotate(checked, where);
  zip_file_t* const file = zip_fopen_index(archive_, index, 0);
  if (file == nullptr) {
    return absl::DataLossError(absl::StrCat(where, ": ", zip_strerror(archive_)));
  }
  const std::shared_ptr<Buffer> bytes = Buffer::Allocate(member.size);
  uint64_t done = 0;
  zip_int64_t count = 1;
  while (count > 0 && done < member.size) {
    count = zip_fread(file, bytes->data() + done, member.size - done);
    if (count > 0) done += static_cast<uint64_t>(count);
  }
  // libzip compares the checksum only when a read reaches the end of the member. So one more byte
  // is read than the content has.
  char beyond = 0;
  if (done == member.size) count = zip_fread(file, &beyond, 1);
  const std::string error = zip_file_strerror(file);
  zip_fclose(file);
  if (done < member.size || count != 0) {
    return absl::DataLossError(absl::StrCat(where, " is damaged after ", done, " of ", member.size,
                                            " bytes (", error,
                                            "); take an intact copy of the file"));
  }
  return std::make_unique<MemoryFile>(bytes);
}

}  // namespace cohort
