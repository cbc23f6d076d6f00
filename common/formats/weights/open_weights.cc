#include "common/formats/weights/open_weights.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status.h"
#include "common/formats/npy.h"
#include "common/formats/npz.h"
#include "common/formats/safetensors.h"
#include "common/formats/weights/keras_groups.h"
#include "common/formats/weights/weight_sources.h"

namespace cohort {

namespace {

constexpr char kWeightsMember[] = "model.weights.h5";
constexpr char kConfigMember[] = "config.json";
constexpr char kMetadataMember[] = "metadata.json";
constexpr uint64_t kTextBytesMax = 64 << 20;
constexpr uint64_t kMetadataBytesMax = 1 << 20;
constexpr uint64_t kWeightsBytesMax = uint64_t{1} << 40;

absl::Status NotWeights(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(
      path,
      ": unknown format of weights; name a TensorFlow V2 checkpoint (by its prefix), a SavedModel, "
      "or a file of Keras (.weights.h5, .keras, .h5), NumPy (.npz) or safetensors"));
}

absl::StatusOr<std::string> TextOf(const ZipArchive& archive, absl::string_view member,
                                   uint64_t bytes_max) {
  const std::optional<size_t> index = archive.Find(member);
  if (!index.has_value()) return std::string();
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, archive.Read(*index, bytes_max));
  std::string text(file->size(), '\0');
  RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(text)));
  return text;
}

// Returns the version of Keras that the metadata of a .keras file names, or "".
std::string VersionIn(const std::string& metadata) {
  const auto parsed = nlohmann::json::parse(metadata, nullptr, /*allow_exceptions=*/false);
  if (!parsed.is_object()) return "";
  const auto version = parsed.find("keras_version");
  return version != parsed.end() && version->is_string() ? version->get<std::string>() : "";
}

absl::StatusOr<WeightFile> OpenArchive(std::unique_ptr<ReadableFile> file,
                                       const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ZipArchive> archive, ZipArchive::Open(std::move(file), path));
  const std::optional<size_t> weights = archive->Find(kWeightsMember);
  if (!weights.has_value()) {
    const std::vector<ZipMember>& members = archive->members();
    const bool arrays = std::all_of(members.begin(), members.end(), [](const ZipMember& member) {
      return absl::EndsWith(member.name, ".npy");
    });
    if (!arrays || members.empty()) return NotWeights(path);
    ASSIGN_OR_RETURN(std::unique_ptr<TensorFile> tensors, OpenNpz(std::move(archive), path));
    WeightFile opened = WeightsOfTensors(std::move(tensors));
    opened.kind = WeightFileKind::kNpz;
    return opened;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> member, archive->Read(*weights, kWeightsBytesMax));
  ASSIGN_OR_RETURN(
      std::unique_ptr<Hdf5File> hdf5,
      Hdf5File::Open(std::move(member), absl::StrCat(path, " (", kWeightsMember, ")")));
  ASSIGN_OR_RETURN(WeightFile opened, WeightsOfHdf5(std::move(hdf5)));
  opened.kind = WeightFileKind::kKerasArchive;
  ASSIGN_OR_RETURN(opened.texts.config, TextOf(*archive, kConfigMember, kTextBytesMax));
  // Files of Keras before 3.6 do not have the names of their layers, but the model's config has.
  // Files of later versions do not say in which nested model a layer is, and several models may
  // have a layer of the same name.
  const std::map<std::string, std::string> layers = KerasLayersByGroup(opened.texts.config);
  for (WeightEntry& entry : opened.entries) {
    const auto layer = layers.find(entry.group);
    if (layer == layers.end()) continue;
    if (entry.layer.empty() || absl::StrContains(layer->second, '/')) entry.layer = layer->second;
  }
  ASSIGN_OR_RETURN(const std::string metadata,
                   TextOf(*archive, kMetadataMember, kMetadataBytesMax));
  opened.texts.keras_version = VersionIn(metadata);
  return opened;
}

absl::StatusOr<WeightFile> OpenFile(std::unique_ptr<ReadableFile> file, const std::string& path) {
  if (LooksLikeHdf5(*file)) {
    ASSIGN_OR_RETURN(std::unique_ptr<Hdf5File> hdf5, Hdf5File::Open(std::move(file), path));
    return WeightsOfHdf5(std::move(hdf5));
  }
  if (LooksLikeZip(*file)) return OpenArchive(std::move(file), path);
  if (LooksLikeNpy(*file)) {
    return absl::UnimplementedError(
        absl::StrCat(path, ": an array without a name; save the weights with numpy.savez"));
  }
  if (!LooksLikeSafetensors(*file)) return NotWeights(path);
  ASSIGN_OR_RETURN(std::unique_ptr<TensorFile> tensors,
                   OpenSafetensors(std::move(file), path, nullptr));
  return WeightsOfTensors(std::move(tensors));
}

// Returns the prefix of the checkpoint in a directory that SavedModel has written.
absl::StatusOr<std::string> PrefixIn(const std::string& directory,
                                     const std::vector<std::string>& names) {
  const auto has = [&](const char* name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  if (has("variables") && has("saved_model.pb")) return JoinPath(directory, "variables/variables");
  if (has("variables.index")) return JoinPath(directory, "variables");
  return absl::UnimplementedError(absl::StrCat(
      directory,
      ": the directory is not a SavedModel; name a file in it, or the prefix of a checkpoint in it "
      "(weights that Keras 3 wrote in several files are not supported)"));
}

}  // namespace

absl::StatusOr<WeightFile> OpenWeights(FileSystem& files, const std::string& path) {
  absl::StatusOr<WeightFile> opened;
  const std::string prefix(absl::StripSuffix(path, ".index"));
  if (files.Open(absl::StrCat(prefix, ".index")).ok()) {
    opened = WeightsOfCheckpoint(files, prefix);
  } else if (const auto names = files.List(path); names.ok()) {
    ASSIGN_OR_RETURN(const std::string inside, PrefixIn(path, *names));
    opened = WeightsOfCheckpoint(files, inside);
  } else {
    ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
    opened = OpenFile(std::move(file), path);
  }
  RETURN_IF_ERROR(opened.status());
  opened->path = path;
  return opened;
}

}  // namespace cohort
