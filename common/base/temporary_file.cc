#include "common/base/temporary_file.h"

#include <random>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "common/base/file_links.h"

namespace cohort {

namespace {

constexpr char kEnding[] = ".tmp";
constexpr size_t kTokenDigits = 16;
// The number of random names that are tried. A name has 64 random bits, so a second collision in a
// row means that something else is wrong.
constexpr int kNamesTried = 4;

// Returns a temporary name for `path` with random bits from the operating system. The bits do not
// come from a seed, because two processes that write the same path must get different names.
// Nothing but the name depends on the bits.
std::string RandomName(const std::string& path) {
  std::random_device random;
  const uint64_t token = (uint64_t{random()} << 32) | random();
  return absl::StrCat(path, ".", absl::Hex(token, absl::kZeroPad16), kEnding);
}

// Returns true if `text` has the form of the random part of a temporary name.
bool IsToken(absl::string_view text) {
  if (text.size() != kTokenDigits) return false;
  for (const char digit : text) {
    if (!absl::ascii_isdigit(digit) && (digit < 'a' || digit > 'f')) return false;
  }
  return true;
}

// Returns `error` with `name` instead of the temporary name in its message. A user does not know
// the random temporary name, and in the simulator the same fault would have another message in each
// run.
absl::Status WithoutToken(const absl::Status& error, const std::string& temporary,
                          absl::string_view name) {
  absl::Status renamed(error.code(), absl::StrReplaceAll(error.message(), {{temporary, name}}));
  error.ForEachPayload(
      [&](absl::string_view url, const absl::Cord& payload) { renamed.SetPayload(url, payload); });
  return renamed;
}

}  // namespace

absl::StatusOr<std::string> PlaceToWrite(FileSystem& files, const std::string& path) {
  const auto* const links = dynamic_cast<const FileLinks*>(&files);
  return links == nullptr ? path : links->Followed(path);
}

absl::StatusOr<std::unique_ptr<TemporaryFile>> TemporaryFile::Create(FileSystem& files,
                                                                     const std::string& path) {
  ASSIGN_OR_RETURN(const std::string place, PlaceToWrite(files, path));
  absl::Status error;
  for (int i = 0; i < kNamesTried; ++i) {
    std::string name = RandomName(place);
    absl::StatusOr<std::unique_ptr<WritableFile>> file = files.Create(name);
    if (file.ok()) {
      return std::unique_ptr<TemporaryFile>(
          new TemporaryFile(files, path, place, std::move(name), *std::move(file)));
    }
    error = WithoutToken(file.status(), name, place);
    // After ALREADY_EXISTS, a file has the random name, and another name is tried. After any other
    // error, another name would fail too.
    if (!absl::IsAlreadyExists(error)) break;
  }
  return error;
}

TemporaryFile::TemporaryFile(FileSystem& files, std::string path, std::string place,
                             std::string temporary, std::unique_ptr<WritableFile> file)
    : files_(files),
      path_(std::move(path)),
      place_(std::move(place)),
      temporary_(std::move(temporary)),
      file_(std::move(file)) {}

// Removes the temporary file if `error` is not OK, and returns `error` with the file's final name
// in its message.
absl::Status TemporaryFile::DiscardOn(const absl::Status& error) {
  if (error.ok()) return error;
  Discard();
  return WithoutToken(error, temporary_, path_);
}

void TemporaryFile::Discard() {
  // An error of Remove is ignored: the caller already reports why the file did not get its final
  // name.
  files_.Remove(temporary_).IgnoreError();
}

absl::Status TemporaryFile::Append(absl::string_view bytes) {
  return DiscardOn(file_->Append(bytes));
}

absl::Status TemporaryFile::Seal() {
  RETURN_IF_ERROR(DiscardOn(file_->Sync()));
  return DiscardOn(file_->Close());
}

absl::Status TemporaryFile::Commit() {
  const absl::Status renamed = files_.Rename(temporary_, place_);
  return DiscardOn(WithoutToken(renamed, temporary_, "its temporary file"));
}

absl::Status WriteFileAtomically(FileSystem& files, const std::string& path,
                                 absl::string_view bytes) {
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  RETURN_IF_ERROR(file->Append(bytes));
  RETURN_IF_ERROR(file->Seal());
  return file->Commit();
}

absl::string_view FinalName(absl::string_view name) {
  absl::string_view rest = name;
  if (!absl::ConsumeSuffix(&rest, kEnding)) return name;
  const size_t dot = rest.rfind('.');
  // A name "path.tmp" without the random part also counts as temporary. Its final name is "path".
  if (dot != absl::string_view::npos && IsToken(rest.substr(dot + 1))) rest = rest.substr(0, dot);
  return rest;
}

bool IsTemporaryName(absl::string_view name) { return FinalName(name).size() != name.size(); }

void RemoveTemporaries(FileSystem& files, const std::string& path) {
  // A path at which nothing can be written has no temporary files.
  const std::string place = PlaceToWrite(files, path).value_or(path);
  const absl::StatusOr<std::vector<std::string>> names = files.List(DirectoryOf(place));
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    if (!IsTemporaryName(name) || FinalName(name) != BaseName(place)) continue;
    files.Remove(JoinPath(DirectoryOf(place), name)).IgnoreError();
  }
}

absl::Status ProbeDirectory(FileSystem& files, const std::string& directory) {
  RETURN_IF_ERROR(files.MakeDirectories(directory));
  // A test file is created, because only that shows whether the permissions and the file system
  // allow files in the directory.
  const auto made = TemporaryFile::Create(files, JoinPath(directory, "probe"));
  if (!made.ok()) {
    return Annotate(made.status(), absl::StrCat(directory, " cannot be written to"));
  }
  (*made)->Discard();
  return absl::OkStatus();
}

absl::Status ProbeFile(FileSystem& files, const std::string& path) {
  ASSIGN_OR_RETURN(const std::string place, PlaceToWrite(files, path));
  RETURN_IF_ERROR(ProbeDirectory(files, DirectoryOf(place)));
  const absl::Status opened = files.Open(path).status();
  // Only FAILED_PRECONDITION, which means that `path` is not a regular file, is an error: a missing
  // or unreadable file can be replaced.
  return absl::IsFailedPrecondition(opened) ? opened : absl::OkStatus();
}

}  // namespace cohort
