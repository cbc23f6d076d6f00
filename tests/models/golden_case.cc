#include "tests/models/golden_case.h"

#include <zlib.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"

namespace cohort {
namespace {

using nlohmann::json;

// The table of families.txt: the names in their order, and the family of each member.
struct FamilyTable {
  std::vector<std::string> names;
  std::map<std::string, std::string> family_of;
};

const FamilyTable& Families() {
  static const auto* const kTable = [] {
    auto* const table = new FamilyTable();
    std::ifstream file(COHORT_SOURCE_DIR "/tests/models/families.txt");
    for (std::string line; std::getline(file, line);) {
      const std::pair<std::string, std::string> parts =
          absl::StrSplit(line, absl::MaxSplits(':', 1));
      if (line.empty() || line[0] == '#') continue;
      table->names.push_back(parts.first);
      for (const absl::string_view member : absl::StrSplit(parts.second, ' ', absl::SkipEmpty())) {
        table->family_of[std::string(member)] = parts.first;
      }
    }
    return table;
  }();
  return *kTable;
}

absl::StatusOr<ModelCase> ParseCase(const std::string& version, const std::string& text,
                                    const std::string& file) {
  ModelCase one;
  one.version = version;
  one.json = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (one.json.is_discarded() || !one.json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(file, " has a case that is not JSON"));
  }
  one.name = one.json.value("case", "");
  one.kind = one.json.value("kind", "");
  one.class_name = one.json.value("class_name", "");
  return one;
}

absl::StatusOr<std::vector<ModelCase>> ReadPack(const std::string& version,
                                                const std::string& family) {
  const std::string path =
      absl::StrCat(COHORT_SOURCE_DIR "/tests/golden/models/", version, "/", family, ".jsonl.gz");
  ASSIGN_OR_RETURN(const std::string text, ReadGzip(path));
  std::vector<ModelCase> cases;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    ASSIGN_OR_RETURN(ModelCase one, ParseCase(version, std::string(line), path));
    cases.push_back(std::move(one));
  }
  return cases;
}

absl::StatusOr<std::vector<ModelCase>> ReadFolder(const std::string& version,
                                                  const std::string& family) {
  std::vector<ModelCase> cases;
  std::error_code error;
  std::filesystem::directory_iterator folder(std::filesystem::path(UnpackedModelCases()) / version,
                                             error);
  if (error) return cases;  // a folder may have the cases of one version only
  for (const auto& entry : folder) {
    if (entry.path().extension() != ".json") continue;
    std::ifstream file(entry.path());
    std::stringstream text;
    text << file.rdbuf();
    ASSIGN_OR_RETURN(ModelCase one, ParseCase(version, text.str(), entry.path().string()));
    if (FamilyOf(one.kind, one.class_name) == family) cases.push_back(std::move(one));
  }
  return cases;
}

// Returns a number, which is written as a string if it is not finite.
double NumberOf(const json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value == "inf") return std::numeric_limits<double>::infinity();
  if (value == "-inf") return -std::numeric_limits<double>::infinity();
  return std::numeric_limits<double>::quiet_NaN();
}

template <typename T>
Tensor Filled(const GoldenTensor& golden) {
  Tensor tensor(golden.dtype, golden.shape);
  std::transform(golden.values.begin(), golden.values.end(), tensor.mutable_data<T>(),
                 [](double value) { return static_cast<T>(value); });
  return tensor;
}

double ElementAt(const Tensor& tensor, size_t i) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return static_cast<double>(tensor.data<float>()[i]);
    case DType::kFloat64:
      return tensor.data<double>()[i];
    case DType::kInt32:
      return static_cast<double>(tensor.data<int32_t>()[i]);
    case DType::kInt64:
      return static_cast<double>(tensor.data<int64_t>()[i]);
    case DType::kBool:
      return tensor.data<bool>()[i] ? 1 : 0;
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

// Returns by how much the difference of two numbers exceeds the tolerance; 0 or less: not at all.
double Excess(double expected, double actual, const GoldenTolerance& tolerance) {
  const double infinity = std::numeric_limits<double>::infinity();
  if (!std::isfinite(expected) || !std::isfinite(actual)) {
    const bool same = std::isnan(expected) ? std::isnan(actual) : expected == actual;
    return same ? 0 : infinity;
  }
  const double allowed = std::max(tolerance.absolute, tolerance.relative * std::fabs(expected));
  return std::fabs(actual - expected) - allowed;
}

}  // namespace

const std::vector<std::string>& ModelCaseVersions() {
  static const auto* const kVersions = new std::vector<std::string>{"k2.15", "k3.15"};
  return *kVersions;
}

const std::vector<std::string>& ModelCaseFamilies() { return Families().names; }

std::string FamilyOf(const std::string& kind, const std::string& class_name) {
  const std::map<std::string, std::string>& family_of = Families().family_of;
  auto found = family_of.find("kind:" + kind);
  if (found == family_of.end()) found = family_of.find(class_name);
  return found == family_of.end() ? "" : found->second;
}

absl::StatusOr<std::string> ReadGzip(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return absl::NotFoundError(path);
  std::string text;
  std::vector<char> part(1 << 16);
  int count = 0;
  while ((count = gzread(file, part.data(), static_cast<unsigned>(part.size()))) > 0) {
    text.append(part.data(), static_cast<size_t>(count));
  }
  const int closed = gzclose(file);
  if (count < 0 || closed != Z_OK) return absl::InvalidArgumentError(path + " is damaged");
  return text;
}

std::string UnpackedModelCases() {
  const char* const folder = std::getenv("COHORT_GOLDEN_MODELS");
  return folder == nullptr ? "" : folder;
}

absl::StatusOr<std::vector<ModelCase>> ReadModelCases(const std::string& version,
                                                      const std::string& family) {
  ASSIGN_OR_RETURN(std::vector<ModelCase> cases, UnpackedModelCases().empty()
                                                     ? ReadPack(version, family)
                                                     : ReadFolder(version, family));
  std::sort(cases.begin(), cases.end(),
            [](const ModelCase& a, const ModelCase& b) { return a.name < b.name; });
  return cases;
}

std::vector<GoldenTensor> TensorsOf(const json& parent, const char* key) {
  std::vector<GoldenTensor> tensors;
  if (!parent.contains(key) || !parent[key].is_array()) return tensors;
  for (const json& one : parent[key]) {
    GoldenTensor tensor;
    tensor.name = one.value("name", "");
    tensor.dtype = DTypeFromName(one.value("dtype", "")).value_or(DType::kFloat32);
    tensor.shape = Shape(one["shape"].get<std::vector<int64_t>>());
    for (const json& value : one["data"]) tensor.values.push_back(NumberOf(value));
    // A decimal stands for the float32 that is nearest to it.
    if (tensor.dtype == DType::kFloat32) {
      for (double& value : tensor.values) value = static_cast<double>(static_cast<float>(value));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

GoldenTolerance ToleranceOf(const json& parent) {
  const json& tolerance = parent["tolerance"];
  return {tolerance["relative"].get<double>(), tolerance["absolute"].get<double>()};
}

Tensor ToTensor(const GoldenTensor& golden) {
  switch (golden.dtype) {
    case DType::kInt32:
      return Filled<int32_t>(golden);
    case DType::kInt64:
      return Filled<int64_t>(golden);
    case DType::kBool:
      return Filled<bool>(golden);
    case DType::kFloat64:
      return Filled<double>(golden);
    default:
      return Filled<float>(golden);
  }
}

std::string Difference(const GoldenTensor& expected, const Tensor& actual,
                       const GoldenTolerance& tolerance) {
  if (actual.shape() != expected.shape ||
      static_cast<size_t>(actual.num_elements()) != expected.values.size()) {
    return absl::StrCat(expected.name, " is ", actual.TypeString(), " and should have the shape ",
                        expected.shape.ToString());
  }
  size_t worst = 0;
  double excess = 0;
  size_t count = 0;
  for (size_t i = 0; i < expected.values.size(); ++i) {
    const double now = Excess(expected.values[i], ElementAt(actual, i), tolerance);
    if (now > 0) ++count;
    if (now > excess) {
      excess = now;
      worst = i;
    }
  }
  if (count == 0) return "";
  return absl::StrCat(expected.name, "[", worst, "] is ", ElementAt(actual, worst), ", not ",
                      expected.values[worst], "; ", count, " of ", expected.values.size(),
                      " elements differ");
}

}  // namespace cohort
