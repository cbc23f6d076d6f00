#include "coordinator/inspect/checkpoint_diff.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/formats/weights/match_weights.h"
#include "common/formats/weights/open_weights.h"
#include "coordinator/inspect/text.h"
#include "coordinator/inspect/value_names.h"

namespace cohort {

namespace {

// Elements are compared in chunks of this many. A long double holds every int64 exactly.
constexpr int64_t kChunk = 4096;
using Numbers = std::vector<long double>;

template <typename T>
void Widen(const Tensor& tensor, int64_t begin, Numbers& out) {
  const T* const from = tensor.data<T>() + begin;
  for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<long double>(from[i]);
}

// Fills `out` with the elements from `begin` on.
void Widen(const Tensor& tensor, int64_t begin, Numbers& out) {
  switch (tensor.dtype()) {
    case DType::kFloat32:
      return Widen<float>(tensor, begin, out);
    case DType::kFloat64:
      return Widen<double>(tensor, begin, out);
    case DType::kInt32:
      return Widen<int32_t>(tensor, begin, out);
    case DType::kInt64:
      return Widen<int64_t>(tensor, begin, out);
    case DType::kUint8:
      return Widen<uint8_t>(tensor, begin, out);
    case DType::kInt8:
      return Widen<int8_t>(tensor, begin, out);
    case DType::kBool:
      return Widen<bool>(tensor, begin, out);
    default:
      COHORT_CHECK(false, "16-bit floats were widened before");
  }
}

double Difference(long double a, long double b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const long double difference = std::fabs(a - b);
  return std::isnan(difference) ? std::numeric_limits<double>::infinity()
                                : static_cast<double>(difference);
}

// Reads a value whose elements CompareValues takes.
absl::StatusOr<Tensor> ReadValue(const WeightFile& file, size_t index) {
  const DType dtype = file.entries[index].dtype;
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBfloat16;
  return ReadMatch(file, {.entry = index, .transpose = {}}, is_half ? DType::kFloat32 : dtype);
}

// Returns the place of an element: "[1,2]".
std::string PlaceText(const Shape& shape, int64_t element) {
  std::vector<int64_t> place(static_cast<size_t>(shape.rank()));
  for (int axis = shape.rank(); axis-- > 0;) {
    place[static_cast<size_t>(axis)] = element % shape.dim(axis);
    element /= shape.dim(axis);
  }
  return absl::StrCat("[", absl::StrJoin(place, ","), "]");
}

std::string TypeText(const WeightEntry& entry) {
  return absl::StrCat(DTypeName(entry.dtype), entry.shape.ToString());
}

// Compares two open files. Lives for one DiffCheckpoints. Thread-compatible.
class Comparison {
 public:
  Comparison(const WeightFile& a, const WeightFile& b) : a_(a), b_(b) {
    const bool own = a.kind == b.kind;
    a_names_ = own ? OwnNames(a) : VariableNames(a);
    b_names_ = own ? OwnNames(b) : VariableNames(b);
  }

  absl::StatusOr<CheckpointDiff> Run() {
    std::map<std::string, size_t> in_b;
    for (size_t i = 0; i < b_names_.size(); ++i) in_b[b_names_[i]] = i;
    for (size_t i = 0; i < a_names_.size(); ++i) {
      const auto found = in_b.find(a_names_[i]);
      if (found == in_b.end()) {
        AddLine(a_names_[i], absl::StrCat("only in A, ", TypeText(a_.entries[i])));
        ++only_a_;
        continue;
      }
      RETURN_IF_ERROR(Compare(a_names_[i], i, found->second));
      in_b.erase(found);
    }
    for (size_t i = 0; i < b_names_.size(); ++i) {
      if (!in_b.contains(b_names_[i])) continue;
      AddLine(b_names_[i], absl::StrCat("only in B, ", TypeText(b_.entries[i])));
      ++only_b_;
    }
    NoteLeftOut("A", a_);
    NoteLeftOut("B", b_);
    absl::StrAppend(&text_, equal_, " equal, ", different_, " different, ", only_a_, " only in A, ",
                    only_b_, " only in B, ", not_compared_, " not compared\n");
    return CheckpointDiff{text_, different_ + only_a_ + only_b_ + not_compared_ == 0};
  }

 private:
  void AddLine(const std::string& name, const std::string& what) {
    absl::StrAppend(&text_, Printable(name, kShownNameMax), ": ", what, "\n");
  }

  absl::Status Compare(const std::string& name, size_t a, size_t b) {
    const WeightEntry& of_a = a_.entries[a];
    const WeightEntry& of_b = b_.entries[b];
    // NoteLeftOut has a line for a value of such a type.
    if (of_a.dtype == DType::kUndefined || of_b.dtype == DType::kUndefined) return absl::OkStatus();
    if (of_a.shape != of_b.shape) {
      AddLine(name, absl::StrCat(TypeText(of_a), " in A, ", TypeText(of_b), " in B"));
      ++different_;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const Tensor value_a, ReadValue(a_, a));
    ASSIGN_OR_RETURN(const Tensor value_b, ReadValue(b_, b));
    const LargestDifference largest = CompareValues(value_a, value_b);
    std::string what;
    if (of_a.dtype != of_b.dtype) {
      what = absl::StrCat(TypeText(of_a), " in A, ", TypeText(of_b), " in B; ");
    }
    if (largest.element >= 0) {
      absl::StrAppend(&what, "largest absolute difference ", largest.difference, " at ",
                      PlaceText(of_a.shape, largest.element), ": ", largest.a, " in A, ", largest.b,
                      " in B");
    } else if (!what.empty()) {
      absl::StrAppend(&what, "all elements are equal");
    }
    if (what.empty()) {
      ++equal_;
    } else {
      AddLine(name, what);
      ++different_;
    }
    return absl::OkStatus();
  }

  // Notes the values of a file whose types cannot be read.
  void NoteLeftOut(const char* which, const WeightFile& file) {
    for (const std::string& name : file.left_out) {
      AddLine(name, absl::StrCat("not compared: the type in ", which, " is not read"));
      ++not_compared_;
    }
  }

  const WeightFile& a_;
  const WeightFile& b_;
  std::vector<std::string> a_names_, b_names_;  // for each entry
  std::string text_;
  int64_t equal_ = 0, different_ = 0, only_a_ = 0, only_b_ = 0, not_compared_ = 0;
};

}  // namespace

LargestDifference CompareValues(const Tensor& a, const Tensor& b) {
  LargestDifference largest;
  Numbers numbers_a, numbers_b;
  for (int64_t begin = 0; begin < a.num_elements(); begin += kChunk) {
    const auto count = static_cast<size_t>(std::min(kChunk, a.num_elements() - begin));
    numbers_a.resize(count);
    numbers_b.resize(count);
    Widen(a, begin, numbers_a);
    Widen(b, begin, numbers_b);
    for (size_t i = 0; i < count; ++i) {
      const double difference = Difference(numbers_a[i], numbers_b[i]);
      if (difference <= largest.difference) continue;
      largest = {difference, begin + static_cast<int64_t>(i), static_cast<double>(numbers_a[i]),
                 static_cast<double>(numbers_b[i])};
    }
  }
  return largest;
}

absl::StatusOr<CheckpointDiff> DiffCheckpoints(FileSystem& files, const std::string& a,
                                               const std::string& b) {
  ASSIGN_OR_RETURN(const WeightFile file_a, OpenWeights(files, a));
  ASSIGN_OR_RETURN(const WeightFile file_b, OpenWeights(files, b));
  return Comparison(file_a, file_b).Run();
}

}  // namespace cohort
