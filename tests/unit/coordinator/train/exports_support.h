#pragma once

// Jobs that export the models of packs of golden files (tests/golden/models).

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "coordinator/job/keras_file.h"
#include "coordinator/train/offline_plan.h"
#include "nlohmann/json.hpp"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/common/formats/hdf5/hdf5_support.h"

namespace cohort {

inline void Unpack(const std::string& name, MemoryFileSystem& disk) {
  for (const auto& [path, bytes] :
       FilesOf(absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/", name))) {
    ASSERT_TRUE(disk.MakeDirectories(DirectoryOf(path)).ok());
    ASSERT_TRUE(WriteFileAtomically(disk, path, bytes).ok());
  }
}

// A job with this model, a file of data for each input and for the labels, and these exports.
inline absl::StatusOr<JobSpec> Parse(MemoryFileSystem& disk, const nlohmann::json& model,
                                     size_t inputs, const nlohmann::json& exports,
                                     const nlohmann::json& compile) {
  using nlohmann::json;
  json paths = json::array();
  for (size_t i = 0; i <= inputs; ++i) paths.push_back(absl::StrCat("/data/", i));
  const json job = {{"model", model},
                    {"compile", compile},
                    {"data", {{"train", {{"class_name", "IDX"}, {"config", {{"paths", paths}}}}}}},
                    {"strategy", {{"type", "one_device"}}},
                    {"export", exports}};
  return ParseJob(job.dump(), "job", {},
                  [&](const std::string& path) { return ReadKerasFile(disk, path); });
}

inline absl::StatusOr<Plan> PlanOf(const JobSpec& job) {
  ClusterShape cluster;
  cluster.workers = {0};
  return MakeOfflinePlan(job, cluster);
}

inline std::vector<std::string> NamesOf(const Plan& plan) {
  std::vector<std::string> names;
  for (const proto::VariableLayout& variable : plan.variables) names.push_back(variable.name());
  return names;
}

inline std::map<std::string, std::string> MembersOf(MemoryFileSystem& disk,
                                                    const std::string& path) {
  std::map<std::string, std::string> members;
  auto archive = ZipArchive::Open(*disk.Open(path), path);
  EXPECT_TRUE(archive.ok()) << archive.status();
  for (size_t i = 0; archive.ok() && i < (*archive)->members().size(); ++i) {
    auto file = (*archive)->Read(i, uint64_t{1} << 30);
    EXPECT_TRUE(file.ok()) << file.status();
    std::string& bytes = members[(*archive)->members()[i].name];
    bytes.resize((*file)->size());
    EXPECT_TRUE((*file)->Read(0, absl::MakeSpan(bytes)).ok());
  }
  return members;
}

inline std::string BytesOf(const Tensor& tensor) {
  return absl::StrCat(
      tensor.TypeString(), " ",
      absl::string_view(reinterpret_cast<const char*>(tensor.raw()), tensor.num_bytes()));
}

}  // namespace cohort
