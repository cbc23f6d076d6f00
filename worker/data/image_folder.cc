#include "worker/data/image_folder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/crc32c.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr int kDepthMax = 32;
constexpr uint64_t kFileBytesMax = uint64_t{256} << 20;

bool HasEnding(const std::string& name, std::initializer_list<const char*> endings) {
  const std::string lower = absl::AsciiStrToLower(name);
  return std::any_of(endings.begin(), endings.end(),
                     [&](const char* ending) { return absl::EndsWith(lower, ending); });
}

// Returns the names in a directory but hidden ones, in the order of their bytes.
absl::StatusOr<std::vector<std::string>> Visible(FileSystem& files, const std::string& directory) {
  ASSIGN_OR_RETURN(std::vector<std::string> names, files.List(directory));
  std::erase_if(names, [](const std::string& name) { return absl::StartsWith(name, "."); });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

ImageFolderExamples::ImageFolderExamples(FileSystem& files, std::string directory)
    : files_(files),
      directory_(std::move(directory)),
      columns_(
          {{"image", proto::COLUMN_STRING, Shape()}, {"label", proto::COLUMN_INT64, Shape()}}) {}

absl::StatusOr<std::shared_ptr<const ImageFolderExamples>> ImageFolderExamples::Open(
    FileSystem& files, const std::string& directory, std::vector<std::string> class_names) {
  std::shared_ptr<ImageFolderExamples> examples(new ImageFolderExamples(files, directory));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, Visible(files, directory));
  std::vector<std::string> directories;
  for (const std::string& name : names) {
    if (files.List(JoinPath(directory, name)).ok()) directories.push_back(name);
  }
  if (class_names.empty()) class_names = directories;
  for (size_t label = 0; label < class_names.size(); ++label) {
    const std::string& name = class_names[label];
    if (!std::count(directories.begin(), directories.end(), name)) {
      return absl::InvalidArgumentError(absl::StrCat(directory, ": has no directory of the class '",
                                                     Excerpt(name), "'; it has ",
                                                     absl::StrJoin(directories, ", ")));
    }
    RETURN_IF_ERROR(examples->AddClass(name, static_cast<int64_t>(label), 0));
  }
  if (examples->images_.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(directory, ": has no .jpg, .jpeg or .png file in a directory of a class"));
  }
  proto::DataFile& described = examples->described_.emplace_back();
  described.set_path(directory);
  uint32_t crc = Crc32c("images");
  for (const Image& image : examples->images_) {
    crc = ExtendCrc32c(crc, absl::StrCat(image.path, ":", image.label, "\n"));
  }
  described.set_crc32c(crc);
  return examples;
}

absl::Status ImageFolderExamples::AddClass(const std::string& path, int64_t label, int depth) {
  if (depth > kDepthMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(JoinPath(directory_, path), ": lies deeper than ", kDepthMax, " directories"));
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   Visible(files_, JoinPath(directory_, path)));
  // As in Keras, the files of a directory come before those of the directories in it.
  std::vector<std::string> deeper;
  for (const std::string& name : names) {
    const std::string below = JoinPath(path, name);
    if (HasEnding(name, {".jpg", ".jpeg", ".png"})) {
      images_.push_back({below, label});
    } else if (HasEnding(name, {".gif", ".bmp"})) {
      return absl::InvalidArgumentError(
          absl::StrCat(JoinPath(directory_, below),
                       ": GIF and BMP are not read; convert it to PNG, or move it away"));
    } else if (files_.List(JoinPath(directory_, below)).ok()) {
      deeper.push_back(below);
    }
  }
  for (const std::string& below : deeper) RETURN_IF_ERROR(AddClass(below, label, depth + 1));
  return absl::OkStatus();
}

std::string ImageFolderExamples::NameOf(int64_t number) const {
  return JoinPath(directory_, images_[static_cast<size_t>(number)].path);
}

absl::StatusOr<ColumnBatch> ImageFolderExamples::Read(absl::Span<const int64_t> numbers) const {
  ColumnBatch batch;
  batch.rows = static_cast<int64_t>(numbers.size());
  for (const ColumnSpec& spec : columns_) batch.columns.push_back({spec, {}});
  for (const int64_t number : numbers) {
    if (number < 0 || number >= size()) {
      return absl::OutOfRangeError(absl::StrCat("there is no image ", number));
    }
    const std::string path = NameOf(number);
    ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files_.Open(path));
    if (file->size() > kFileBytesMax) {
      return absl::ResourceExhaustedError(
          absl::StrCat(path, ": has ", file->size(), " bytes, above ", kFileBytesMax));
    }
    auto bytes = std::make_unique_for_overwrite<char[]>(file->size());
    RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(bytes.get(), file->size())));
    batch.columns[0].values.strings.emplace_back(bytes.get(), file->size());
    batch.columns[1].values.ints.push_back(images_[static_cast<size_t>(number)].label);
    batch.memory.push_back(std::move(bytes));
  }
  return batch;
}

}  // namespace cohort
