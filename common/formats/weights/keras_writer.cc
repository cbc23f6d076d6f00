#include "common/formats/weights/keras_writer.h"

#include <memory>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_writer.h"
#include "common/formats/zip_writer.h"

namespace cohort {

namespace {

// Fills `root` with the groups, which must outlive it.
absl::Status AddGroups(absl::Span<const KerasGroup> groups, Hdf5Node& root) {
  std::set<std::string> paths;
  for (const KerasGroup& group : groups) {
    // A path with a NUL or an empty part is refused, because HDF5 could take it for another path.
    const bool is_named = !absl::StrContains(group.path, "//") &&
                          !absl::StrContains(group.name, absl::string_view("\0", 1));
    if (!is_named || !paths.insert(group.path).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "group '", Excerpt(group.path), "' is ", is_named ? "given twice" : "not a valid path"));
    }
    Hdf5Node& vars = root.Group(absl::StrCat(group.path, "/vars"));
    if (!group.name.empty()) vars.AddText("name", group.name);
    for (size_t i = 0; i < group.values.size(); ++i) {
      vars.AddDataset(absl::StrCat(i), group.values[i]);
    }
  }
  return absl::OkStatus();
}

absl::Status AddMembers(const KerasTexts& texts, const Hdf5Image& weights, ZipWriter& archive) {
  const absl::string_view metadata = texts.metadata;
  const absl::string_view config = texts.config;
  RETURN_IF_ERROR(archive.Add("metadata.json", {&metadata, 1}));
  RETURN_IF_ERROR(archive.Add("config.json", {&config, 1}));
  return archive.Add("model.weights.h5", weights.pieces);
}

}  // namespace

absl::Status WriteKerasWeights(FileSystem& files, const std::string& path,
                               absl::Span<const KerasGroup> groups) {
  Hdf5Node root;
  RETURN_IF_ERROR(AddGroups(groups, root));
  return WriteHdf5(files, path, root);
}

absl::Status WriteKerasArchive(FileSystem& files, const std::string& path, const KerasTexts& texts,
                               absl::Span<const KerasGroup> groups) {
  Hdf5Node root;
  RETURN_IF_ERROR(AddGroups(groups, root));
  ASSIGN_OR_RETURN(const Hdf5Image image, MakeHdf5(root));
  ASSIGN_OR_RETURN(const std::unique_ptr<ZipWriter> archive, ZipWriter::Create(files, path));
  RETURN_IF_ERROR(AddMembers(texts, image, *archive));
  return archive->Finish();
}

}  // namespace cohort
