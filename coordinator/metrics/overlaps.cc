// Intersection over union: the state is a matrix of weights by true and predicted class.

#include <algorithm>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {
namespace {

constexpr double kClassesMax = 4096;  // a matrix of this many classes has 128 MiB

// Returns whether weights are cut to whole numbers: Keras 3 counts in integers, unless `dtype` is a
// float type.
bool CountsWhole(const MetricSpec& spec) {
  if (spec.config.IsNull("dtype")) return spec.keras >= 3;
  return spec.config.Text("dtype").rfind("int", 0) == 0;
}

// Adds the matrix of classes, row by row. `truth` and `prediction` are int64 in any shape.
std::string AddMatrix(const MetricSite& site, std::string truth, std::string prediction,
                      const NodeValue& shape, int64_t classes) {
  FormulaNodes& n = site.nodes;
  std::string weight = n.Flat(SpreadWeight(site.weight, shape, n));
  if (site.weight.has_value() && CountsWhole(site.spec)) {
    weight = n.ToDouble(n.Cast(weight, DType::kInt64));
  }
  truth = n.Flat(truth);
  prediction = n.Flat(prediction);
  const auto& config = site.config();
  if (config.Has("ignore_class") && !config.IsNull("ignore_class")) {
    const std::string ignored = n.Equal(truth, n.Int(config.Whole("ignore_class")));
    const std::string zero = n.Int(0);
    truth = n.Where(ignored, zero, truth);
    prediction = n.Where(ignored, zero, prediction);
    weight = n.Where(ignored, n.Double(0), weight);
  }
  // A negative class number is replaced by one that is too large, so that it is an error. As an
  // index it would count from the end.
  const auto checked = [&](const std::string& ids) {
    const std::string is_negative = n.Op("Less", {ids, n.Int(0)});
    return n.Unsqueeze(n.Where(is_negative, n.Int(classes), ids), 1);
  };
  const std::string places = n.Join({checked(truth), checked(prediction)}, 1);
  const Tensor none = Tensor::Zeros(DType::kFloat64, Shape({classes, classes}));
  return n.Flat(
      n.Op("ScatterND", {n.Constant(none), places, weight}, {StringAttribute("reduction", "add")}));
}

// Returns class numbers: `x` itself if it has class numbers, else the class with the largest score
// along the axis.
std::string ClassesOf(FormulaNodes& n, const std::string& x, bool is_sparse, int64_t axis) {
  return is_sparse ? n.Cast(x, DType::kInt64) : n.LargestIndex(x, axis);
}

std::string AddOverlap(const MetricSite& site) {
  const ClassConfig& config = site.config();
  FormulaNodes& n = site.nodes;
  // The labels of the one-hot classes are never class numbers.
  const bool sparse_true = config.Has("sparse_y_true") && config.Flag("sparse_y_true");
  const bool sparse_pred = config.Flag("sparse_y_pred");
  const int64_t axis = config.Whole("axis");
  const std::string truth = ClassesOf(n, site.y_true(), sparse_true, axis);
  const std::string prediction = ClassesOf(n, site.y_pred(), sparse_pred, axis);
  // The weights are spread to the shape of the class numbers.
  NodeValue shape = {prediction, site.in.y_pred.dims, DType::kInt64};
  if (!sparse_pred) shape.dims = DimsWithout(site.in.y_pred, {axis});
  return AddMatrix(site, truth, prediction, shape, config.Whole("num_classes"));
}

std::string AddBinaryOverlap(const MetricSite& site) {
  FormulaNodes& n = site.nodes;
  const std::string positive =
      n.Op("GreaterOrEqual", {site.y_pred(), n.Number(site.config().Number("threshold"))});
  const NodeValue prediction = {n.Cast(positive, DType::kInt64), site.in.y_pred.dims,
                                DType::kInt64};
  return AddMatrix(site, n.Cast(site.y_true(), DType::kInt64), prediction.name, prediction, 2);
}

// Returns the mean over those classes of `ids` that occur.
double MeanOverlap(MetricState matrix, const std::vector<int64_t>& ids) {
  size_t classes = 0;
  while (classes * classes < matrix.size()) ++classes;
  double sum = 0;
  double valid = 0;
  for (const int64_t id : ids) {
    const auto i = static_cast<size_t>(id);
    double both = 0;
    for (size_t j = 0; j < classes; ++j) both += matrix[i * classes + j] + matrix[j * classes + i];
    const double shared = matrix[i * classes + i];
    const double either = both - shared;
    if (either == 0) continue;
    sum += shared / either;
    valid += 1;
  }
  return DivideOrZero(sum, valid);
}

std::vector<double> TargetOverlap(const ClassConfig& config, MetricState state) {
  return {MeanOverlap(state, config.Wholes("target_class_ids"))};
}

std::vector<double> AllOverlap(const ClassConfig& config, MetricState state) {
  std::vector<int64_t> ids(static_cast<size_t>(config.Whole("num_classes")));
  std::iota(ids.begin(), ids.end(), 0);
  return {MeanOverlap(state, ids)};
}

std::vector<double> BinaryOverlap(const ClassConfig& config, MetricState state) {
  std::vector<int64_t> ids = config.Wholes("target_class_ids");
  if (ids.empty()) ids = {0, 1};
  return {MeanOverlap(state, ids)};
}

std::string CheckTargets(const std::vector<int64_t>& ids, int64_t classes) {
  for (const int64_t id : ids) {
    if (id < classes) continue;
    return absl::StrCat("has target_class_ids ", id, " for ", classes,
                        " classes; give numbers below that");
  }
  return "";
}

std::string CheckOverlap(const ClassConfig& config) {
  if (config.IsNull("num_classes")) return "has no num_classes; give the number of classes";
  return "";
}

std::string CheckTargetOverlap(const ClassConfig& config) {
  const std::string wrong = CheckOverlap(config);
  if (!wrong.empty()) return wrong;
  const std::vector<int64_t> ids = config.Wholes("target_class_ids");
  if (ids.empty()) return "has no target_class_ids; give the numbers of the classes that count";
  return CheckTargets(ids, config.Whole("num_classes"));
}

std::string CheckBinaryOverlap(const ClassConfig& config) {
  return CheckTargets(config.Wholes("target_class_ids"), 2);
}

int64_t MatrixSize(const ClassConfig& config, const NodeValue&) {
  return config.Whole("num_classes") * config.Whole("num_classes");
}

int64_t BinaryMatrixSize(const ClassConfig&, const NodeValue&) { return 4; }

ConfigKey DtypeKey() {
  return OptionalChoiceKey("dtype", {"float32", "float64", "int32", "int64", "int"});
}

// Makes a row of a metric with the number of classes in its config.
MetricRow OverlapRow(const std::string& class_name, const std::string& name, bool of_targets,
                     bool is_one_hot) {
  MetricRow row;
  row.class_name = class_name;
  row.names = {name};
  row.labels = LabelKind::kAny;
  row.keys = {OptionalWholeKey("num_classes", {.min = 1, .max = kClassesMax}),
              OptionalWholeKey("ignore_class", {.min = -1e9, .max = 1e9}),
              FlagKey("sparse_y_pred", !is_one_hot)};
  if (!is_one_hot) row.keys.push_back(FlagKey("sparse_y_true", true));
  row.keys.push_back(WholeKey("axis", -1, {.min = -8, .max = 8}));
  row.keys.push_back(DtypeKey());
  if (of_targets) {
    row.keys.push_back(OptionalWholesKey("target_class_ids", {.min = 0, .max = kClassesMax}));
  }
  row.add = AddOverlap;
  row.value = of_targets ? TargetOverlap : AllOverlap;
  row.size = MatrixSize;
  row.check = of_targets ? CheckTargetOverlap : CheckOverlap;
  return row;
}

}  // namespace

std::vector<MetricRow> OverlapMetrics() {
  std::vector<MetricRow> rows = {OverlapRow("IoU", "io_u", true, false),
                                 OverlapRow("MeanIoU", "mean_io_u", false, false),
                                 OverlapRow("OneHotIoU", "one_hot_io_u", true, true),
                                 OverlapRow("OneHotMeanIoU", "one_hot_mean_io_u", false, true)};
  MetricRow& binary = rows.emplace_back();
  binary.class_name = "BinaryIoU";
  binary.names = {"binary_io_u"};
  binary.labels = LabelKind::kLikeOutput;
  binary.keys = {OptionalWholesKey("target_class_ids", {.min = 0, .max = kClassesMax}),
                 NumberKey("threshold", 0.5, {.min = 0, .max = 1}), DtypeKey()};
  binary.add = AddBinaryOverlap;
  binary.value = BinaryOverlap;
  binary.size = BinaryMatrixSize;
  binary.check = CheckBinaryOverlap;
  return rows;
}

}  // namespace cohort
