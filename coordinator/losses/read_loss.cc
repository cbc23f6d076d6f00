#include "coordinator/losses/read_loss.h"

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;

struct ReductionName {
  LossReduction reduction;
  const char* name;
};

constexpr ReductionName kReductions[] = {
    {LossReduction::kSumOverBatchSize, "sum_over_batch_size"},
    {LossReduction::kSumOverBatchSize, "auto"},
    {LossReduction::kSumOverBatchSize, "mean"},
    {LossReduction::kSum, "sum"},
    {LossReduction::kNone, "none"},
    {LossReduction::kMeanWithSampleWeight, "mean_with_sample_weight"},
};

void ReadReduction(ObjectReader& config, LossReduction& reduction) {
  // The default is not recorded, because job files of earlier versions had no such key, and their
  // fingerprints must stay the same (ConfigKey).
  if (config.recording() && reduction == LossReduction::kSumOverBatchSize) return;
  std::vector<std::string> names;
  std::string name;
  for (const ReductionName& one : kReductions) {
    names.emplace_back(one.name);
    if (name.empty() && one.reduction == reduction) name = one.name;
  }
  config.Choice("reduction", names, &name);
  for (const ReductionName& one : kReductions) {
    if (name == one.name) reduction = one.reduction;
  }
}

const LossRow* FindRow(const ClassForm& form, const JsonPlace& place) {
  const LossRow* row = FindLossClass(form.class_name);
  if (row == nullptr) row = FindLossFunction(form.class_name);
  if (row != nullptr) return row;
  std::vector<std::string> names;
  for (const LossRow& one : LossTable()) {
    names.push_back(form.is_name_only ? one.names.front() : one.class_name);
  }
  place.errors.Add(place.path, UnknownName("loss", form.class_name, names));
  return nullptr;
}

// Reads or records `fn`, the name of a function. A string says that Keras 2 wrote the file, so its
// formula counts; later releases write the class form of the function.
void ReadFunctionName(ObjectReader& config, const LossRow& row, bool is_known, int& keras) {
  std::string name = row.names.front();
  if (config.recording()) {
    if (keras == 2) config.String("fn", &name);
    return;
  }
  const json* const given = config.Find("fn");
  if (given == nullptr) return;
  config.Function("fn", &name);
  if (FindLossFunction(name) != &row) {
    config.AddError("fn", absl::StrCat("is ", JsonExcerpt(name), ", which is not the function of ",
                                       row.class_name, "; leave it out"));
  }
  if (!is_known && given->is_string()) keras = 2;
}

}  // namespace

bool ReadLoss(const JsonPlace& place, int keras, LossSpec& spec) {
  const ClassForm form = ReadClassForm(place, spec.class_name);
  // A wrong form has been reported already.
  if (!form.ok()) return false;
  const LossRow* const row = FindRow(form, place);
  if (row == nullptr) return false;
  if (place.record == nullptr) spec = DefaultLoss(*row, keras == 0 ? kKerasOtherwise : keras);
  ObjectReader config = form.Config(row->class_name);
  ReadFunctionName(config, *row, keras != 0, spec.keras);
  ReadReduction(config, spec.reduction);
  ReadConfigKeys(config, row->keys, spec.config);
  config.Ignore("name");
  config.OnlyNeutral("dtype", "float32");
  config.Finish();
  const std::string wrong = row->check == nullptr ? "" : row->check(spec.config);
  if (!wrong.empty()) place.errors.Add(place.path, wrong);
  // The version is recorded only if it matters, because it would make another job of the same
  // training.
  if (!row->differs_by_version) spec.keras = kKerasOtherwise;
  return true;
}

}  // namespace cohort
