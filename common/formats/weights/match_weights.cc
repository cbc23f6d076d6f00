#include "common/formats/weights/match_weights.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kNone = ~size_t{0};

// Returns the last two parts of a name: its layer and its weight.
std::string LastParts(const std::string& name) {
  const std::vector<absl::string_view> parts = absl::StrSplit(name, '/');
  if (parts.size() <= 2) return name;
  return absl::StrCat(parts[parts.size() - 2], "/", parts.back());
}

bool IsKeras3Form(WeightFileKind kind) {
  return kind == WeightFileKind::kKerasWeights || kind == WeightFileKind::kKerasArchive;
}

// Returns the shape with its axes in the order of `transpose`, which may be empty.
Shape Transposed(const Shape& shape, const std::vector<int>& transpose) {
  if (transpose.empty()) return shape;
  std::vector<int64_t> dims;
  dims.reserve(transpose.size());
  for (const int axis : transpose) dims.push_back(shape.dim(axis));
  return Shape(absl::MakeConstSpan(dims));
}

absl::Status CheckTranspose(const std::string& variable, const std::vector<int>& transpose,
                            const Shape& shape) {
  std::vector<int> sorted = transpose;
  std::sort(sorted.begin(), sorted.end());
  bool is_order = sorted.empty() || static_cast<int>(sorted.size()) == shape.rank();
  for (size_t i = 0; i < sorted.size(); ++i)
    is_order = is_order && sorted[i] == static_cast<int>(i);
  if (is_order) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the map of '", variable, "' has the transpose [", absl::StrJoin(transpose, ","),
                   "]; it must name each of the ", shape.rank(), " axes of ", shape.ToString(),
                   " once, from 0 on"));
}

// The layers of a list of weights, each with the indices of its weights, in order.
struct LayerWeights {
  std::string layer;
  std::vector<size_t> indices;
};

void AddTo(std::vector<LayerWeights>& layers, const std::string& layer, size_t index) {
  if (layers.empty() || layers.back().layer != layer) layers.push_back({layer, {}});
  layers.back().indices.push_back(index);
}

// Matches the variables of a model with the values of a file. Thread-compatible.
class Matcher {
 public:
  Matcher(absl::Span<const WantedWeight> wanted, const WeightFile& file)
      : wanted_(wanted),
        file_(file),
        entry_of_(wanted.size(), kNone),
        transposes_(wanted.size()),
        is_renamed_(wanted.size(), false) {
    for (size_t i = 0; i < file.entries.size(); ++i) {
      const WeightEntry& entry = file.entries[i];
      if (entry.role != WeightRole::kWeight || entry.dtype == DType::kUndefined) continue;
      weights_.push_back(i);
      if (entry.position >= 0 && IsKeras3Form(file.kind)) {
        by_place_[{entry.layer.empty() ? entry.group : entry.layer, entry.position}] = i;
        by_place_.emplace(std::make_pair(entry.group, entry.position), i);
      }
      if (entry.variable.empty()) continue;
      Add(by_name_, entry.variable, i);
      Add(by_last_parts_, LastParts(entry.variable), i);
    }
  }

  absl::Status TakeRenames(const std::map<std::string, WeightRename>& renames) {
    for (const auto& [variable, rename] : renames) {
      const auto found =
          std::find_if(wanted_.begin(), wanted_.end(),
                       [&name = variable](const auto& wanted) { return wanted.name == name; });
      if (found == wanted_.end()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "the map names the variable '", Excerpt(variable), "', which the model does not have"));
      }
      const size_t entry = FindNamed(rename.name);
      if (entry == kNone) {
        return absl::InvalidArgumentError(absl::StrCat("the map names '", Excerpt(rename.name),
                                                       "', which ", file_.path, " does not have"));
      }
      RETURN_IF_ERROR(CheckTranspose(variable, rename.transpose, file_.entries[entry].shape));
      const size_t index = static_cast<size_t>(found - wanted_.begin());
      entry_of_[index] = entry;
      transposes_[index] = rename.transpose;
      is_renamed_[index] = true;
    }
    return absl::OkStatus();
  }

  void MatchAll() {
    for (size_t i = 0; i < wanted_.size(); ++i) {
      if (entry_of_[i] == kNone) entry_of_[i] = FindByPlaceOrName(wanted_[i]);
    }
    if (file_.kind == WeightFileKind::kLegacyHdf5) MatchByPosition();
  }

  WeightMatches Result() const {
    WeightMatches result;
    std::set<size_t> taken;
    for (size_t i = 0; i < wanted_.size(); ++i) {
      const WantedWeight& wanted = wanted_[i];
      if (entry_of_[i] == kNone) {
        result.missing.push_back(wanted.name);
        continue;
      }
      taken.insert(entry_of_[i]);
      const Shape shape = Transposed(file_.entries[entry_of_[i]].shape, transposes_[i]);
      if (shape == wanted.shape) {
        result.matched.push_back({i, entry_of_[i], transposes_[i]});
      } else {
        result.mismatched.push_back(absl::StrCat(wanted.name, " is ", wanted.shape.ToString(),
                                                 " here and ", shape.ToString(), " in the file"));
      }
    }
    for (const size_t index : weights_) {
      if (taken.count(index) == 0) result.left_over.push_back(file_.entries[index].name);
    }
    return result;
  }

 private:
  // Adds a name. A name that two values have identifies neither, and is kept with the index kNone.
  static void Add(std::map<std::string, size_t>& names, const std::string& name, size_t index) {
    const auto [known, is_new] = names.emplace(name, index);
    if (!is_new) known->second = kNone;
  }
  static size_t FindIn(const std::map<std::string, size_t>& names, const std::string& name) {
    const auto found = names.find(name);
    return found == names.end() ? kNone : found->second;
  }

  // Returns the index of the value whose name in the file, or whose variable's name, is `name`.
  size_t FindNamed(const std::string& name) const {
    for (const size_t index : weights_) {
      if (file_.entries[index].name == name) return index;
    }
    return FindIn(by_name_, name);
  }

  size_t FindByPlaceOrName(const WantedWeight& wanted) const {
    for (const std::string& layer : {wanted.layer, wanted.group}) {
      const auto found = by_place_.find({layer, wanted.position});
      if (!layer.empty() && found != by_place_.end()) return found->second;
    }
    const size_t by_name = FindIn(by_name_, wanted.name);
    return by_name != kNone ? by_name : FindIn(by_last_parts_, LastParts(wanted.name));
  }

  // Returns whether each variable of our layer already has a value from the file's layer.
  bool IsPaired(const LayerWeights& ours, const LayerWeights& theirs) const {
    return std::all_of(ours.indices.begin(), ours.indices.end(), [&](size_t index) {
      return std::find(theirs.indices.begin(), theirs.indices.end(), entry_of_[index]) !=
             theirs.indices.end();
    });
  }

  // Pairs our layers with the file's layers in order, if both have as many layers and names did not
  // match every variable.
  void MatchByPosition() {
    if (std::find(entry_of_.begin(), entry_of_.end(), kNone) == entry_of_.end()) return;
    std::vector<LayerWeights> ours;
    std::vector<LayerWeights> theirs;
    for (size_t i = 0; i < wanted_.size(); ++i) AddTo(ours, wanted_[i].layer, i);
    for (const size_t index : weights_) AddTo(theirs, file_.entries[index].layer, index);
    if (ours.size() != theirs.size()) return;
    for (size_t i = 0; i < ours.size(); ++i) {
      if (ours[i].indices.size() != theirs[i].indices.size()) return;
    }
    for (size_t i = 0; i < ours.size(); ++i) {
      // A layer that names have matched stays as it is. Keras 2 writes the statistics of a nested
      // model after all trained weights, so positions would be wrong there.
      if (IsPaired(ours[i], theirs[i])) continue;
      for (size_t k = 0; k < ours[i].indices.size(); ++k) {
        if (!is_renamed_[ours[i].indices[k]]) {
          entry_of_[ours[i].indices[k]] = theirs[i].indices[k];
        }
      }
    }
  }

  const absl::Span<const WantedWeight> wanted_;
  const WeightFile& file_;
  std::vector<size_t> entry_of_;  // by variable: the index of its value; kNone: none yet
  std::vector<std::vector<int>> transposes_;
  std::vector<bool> is_renamed_;  // by variable: whether `renames` gave its value
  std::vector<size_t> weights_;   // indices of the values that are weights
  std::map<std::pair<std::string, int>, size_t> by_place_;
  std::map<std::string, size_t> by_name_;
  std::map<std::string, size_t> by_last_parts_;
};

Tensor TransposedTensor(const Tensor& tensor, const std::vector<int>& transpose) {
  Tensor out(tensor.dtype(), Transposed(tensor.shape(), transpose));
  const size_t width = ElementSize(tensor.dtype());
  const size_t rank = transpose.size();
  // The distance in the source of two elements that differ by one along each axis of the result.
  std::vector<int64_t> of_source(rank, 1);
  for (size_t axis = rank - 1; axis > 0; --axis) {
    of_source[axis - 1] = of_source[axis] * tensor.shape().dim(static_cast<int>(axis));
  }
  std::vector<int64_t> at(rank, 0);
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    int64_t from = 0;
    for (size_t axis = 0; axis < rank; ++axis) {
      from += at[axis] * of_source[static_cast<size_t>(transpose[axis])];
    }
    std::memcpy(out.mutable_raw() + static_cast<size_t>(i) * width,
                tensor.raw() + static_cast<size_t>(from) * width, width);
    for (size_t axis = rank;
         axis > 0 && ++at[axis - 1] == out.shape().dim(static_cast<int>(axis - 1)); --axis) {
      at[axis - 1] = 0;
    }
  }
  return out;
}

float FromHalf(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  const uint32_t exponent = bits >> 10 & 31;
  const uint32_t mantissa = bits & 1023;
  uint32_t wide = 0;
  if (exponent == 31) {
    wide = sign | 0x7f800000 | mantissa << 13;
  } else if (exponent != 0) {
    wide = sign | (exponent + 112) << 23 | mantissa << 13;
  } else {
    const float value = static_cast<float>(mantissa) * 0x1p-24f;
    return sign != 0 ? -value : value;
  }
  float value = 0;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

// Copies numbers of the type From into `out`, whose type is To.
template <typename From, typename To>
void Convert(const Tensor& from, Tensor& out) {
  const From* const in = reinterpret_cast<const From*>(from.raw());
  To* const to = out.mutable_data<To>();
  for (int64_t i = 0; i < out.num_elements(); ++i) {
    if constexpr (std::is_same_v<From, uint16_t>) {
      const uint32_t wide = static_cast<uint32_t>(in[i]) << 16;
      float value = FromHalf(in[i]);
      if (from.dtype() == DType::kBfloat16) std::memcpy(&value, &wide, sizeof(value));
      to[i] = static_cast<To>(value);
    } else {
      to[i] = static_cast<To>(in[i]);
    }
  }
}

template <typename To>
bool ConvertTo(const Tensor& from, Tensor& out) {
  switch (from.dtype()) {
    case DType::kFloat32:
      Convert<float, To>(from, out);
      return true;
    case DType::kFloat64:
      Convert<double, To>(from, out);
      return true;
    case DType::kFloat16:
    case DType::kBfloat16:
      Convert<uint16_t, To>(from, out);
      return true;
    default:
      return false;
  }
}

}  // namespace

absl::StatusOr<WeightMatches> MatchWeights(absl::Span<const WantedWeight> wanted,
                                           const WeightFile& file,
                                           const std::map<std::string, WeightRename>& renames) {
  Matcher matcher(wanted, file);
  RETURN_IF_ERROR(matcher.TakeRenames(renames));
  matcher.MatchAll();
  return matcher.Result();
}

absl::StatusOr<Tensor> ReadMatch(const WeightFile& file, const WeightMatch& match, DType dtype) {
  ASSIGN_OR_RETURN(Tensor value, file.source->Read(match.entry));
  if (!match.transpose.empty()) value = TransposedTensor(value, match.transpose);
  if (value.dtype() == dtype) return value;
  Tensor converted(dtype, value.shape());
  const bool is_converted = dtype == DType::kFloat32   ? ConvertTo<float>(value, converted)
                            : dtype == DType::kFloat64 ? ConvertTo<double>(value, converted)
                                                       : false;
  if (is_converted) return converted;
  return absl::InvalidArgumentError(
      absl::StrCat(file.path, ": '", Excerpt(file.entries[match.entry].name), "' is ",
                   DTypeName(value.dtype()), ", which cannot become ", DTypeName(dtype)));
}

}  // namespace cohort
