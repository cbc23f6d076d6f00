#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/tensor/initializer.h"
#include "coordinator/layers/initializer.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

// Moments of a sample about its mean.
struct Moments {
  double mean = 0;
  double std = 0;
  double kurtosis = 0;  // fourth moment, in units of the squared variance
  double farthest = 0;  // largest distance of a value from the expected mean
};

Moments MomentsOf(absl::Span<const float> values, double expected_mean) {
  Moments moments;
  const double count = static_cast<double>(values.size());
  for (const float value : values) moments.mean += static_cast<double>(value) / count;
  double second = 0;
  double fourth = 0;
  for (const float value : values) {
    const double square = std::pow(static_cast<double>(value) - moments.mean, 2);
    second += square / count;
    fourth += square * square / count;
    moments.farthest =
        std::max(moments.farthest, std::fabs(static_cast<double>(value) - expected_mean));
  }
  moments.std = std::sqrt(second);
  moments.kurtosis = fourth / (second * second);
  return moments;
}

// Returns the kurtosis of a distribution. The truncated normal's fourth moment is 3 E2 - 16 phi(2)
// / P, where E2 = 0.7737 is its variance, phi(2) = 0.05399 and P = 0.9545 the share within the cut.
double KurtosisOf(const std::string& distribution) {
  if (distribution == "uniform") return 1.8;
  return distribution == "truncated_normal" ? 2.366 : 3.0;
}

std::string CompareStatistics(const json& statistics, const Tensor& values) {
  const double mean = statistics["mean"].get<double>();
  const double std = statistics["std"].get<double>();
  const std::string distribution = statistics["distribution"].get<std::string>();
  const Moments moments = MomentsOf(values.span<float>(), mean);
  const std::string text = absl::StrCat("mean ", moments.mean, ", std ", moments.std, ", kurtosis ",
                                        moments.kurtosis, ", farthest ", moments.farthest);
  if (!(std::fabs(moments.mean - mean) <= statistics["tolerance"]["mean"].get<double>()) ||
      !(std::fabs(moments.std - std) <= statistics["tolerance"]["std"].get<double>())) {
    return absl::StrCat(text, "; expected mean ", mean, ", std ", std);
  }
  // The largest error of a kurtosis of 20,000 draws of a normal is 5 sqrt(24 / 20,000) = 0.17.
  if (std::fabs(moments.kurtosis - KurtosisOf(distribution)) > 0.18) {
    return absl::StrCat(text, "; that is not ", distribution);
  }
  if (!statistics["bound"].is_number()) return "";
  const double bound = statistics["bound"].get<double>();
  // float32 may round a value at the bound away from zero.
  if (moments.farthest <= bound * (1 + 1e-6) && moments.farthest > 0.98 * bound) return "";
  return absl::StrCat(text, "; the bound is ", bound);
}

// Compares the products of the rows, or of the columns, of an orthogonal matrix, whichever are
// fewer.
std::string CompareGram(const GoldenTensor& gram, const Tensor& values,
                        const GoldenTolerance& tolerance) {
  const int64_t columns = values.shape().dim(values.shape().rank() - 1);
  const int64_t rows = values.num_elements() / columns;
  const bool by_column = columns <= rows;
  const int64_t size = std::min(rows, columns);
  Tensor actual(DType::kFloat64, Shape({size, size}));
  const auto at = [&](int64_t vector, int64_t k) {
    const int64_t index = by_column ? k * columns + vector : vector * columns + k;
    return static_cast<double>(values.data<float>()[index]);
  };
  for (int64_t a = 0; a < size; ++a) {
    for (int64_t b = 0; b < size; ++b) {
      double sum = 0;
      for (int64_t k = 0; k < std::max(rows, columns); ++k) sum += at(a, k) * at(b, k);
      actual.mutable_data<double>()[a * size + b] = sum;
    }
  }
  return Difference(gram, actual, tolerance);
}

// Reads the case's initializer as a layer does.
absl::StatusOr<KerasInitializerSpec> ReadCaseInitializer(const ModelCase& one) {
  const json form = ClassFormOf(one);
  JsonErrors errors;
  KerasInitializerSpec spec;
  ReadInitializer({"kernel_initializer", errors, &form}, spec);
  RETURN_IF_ERROR(errors.ToStatus(one.name));
  return spec;
}

}  // namespace

Verdict RunInitializerCase(const ModelCase& one) {
  const absl::StatusOr<KerasInitializerSpec> spec = ReadCaseInitializer(one);
  if (!spec.ok()) return Verdict::Refused(spec.status());
  const Shape shape(one.json["call"]["shape"].get<std::vector<int64_t>>());
  const proto::Initializer rule = MakeInitializer(*spec, shape, 7);
  const InitializerSpec initializer = {rule.op(), rule.a(), rule.b(), rule.seed()};
  const absl::StatusOr<Tensor> values =
      InitialRows(initializer, "dense/kernel", DType::kFloat32, shape,
                  {0, shape.rank() > 0 ? shape.dim(0) : 1});
  if (!values.ok()) return Verdict::Failed(values.status().ToString());
  std::string difference;
  if (!one.json.contains("statistics")) {
    difference = Difference(TensorsOf(one.json, "outputs").at(0), *values, ToleranceOf(one.json));
  } else if (const json& statistics = one.json["statistics"];
             statistics["distribution"] == "orthogonal") {
    const GoldenTensor gram = TensorsOf({{"gram", {statistics["gram"]}}}, "gram").at(0);
    difference = CompareGram(gram, *values, ToleranceOf(one.json));
  } else {
    difference = CompareStatistics(statistics, *values);
  }
  return difference.empty() ? Verdict::Passed() : Verdict::Failed(difference);
}

}  // namespace cohort
