#include "coordinator/train/train_summary.h"

#include <nlohmann/json.hpp>

#include "coordinator/homes/ps_stats_sum.h"

namespace cohort {

std::string SummaryToJson(const TrainSummary& summary) {
  const double seconds = absl::ToDoubleSeconds(summary.train_time);
  nlohmann::ordered_json json;
  json["data"] = summary.data;
  json["epochs"] = summary.epochs;
  json["steps"] = summary.steps;
  json["global_step"] = summary.global_step;
  json["train_seconds"] = seconds;
  // If no step was run, the rates are 0, because JSON has no infinity.
  json["steps_per_second"] = seconds > 0 ? static_cast<double>(summary.steps) / seconds : 0.0;
  json["examples_per_second"] = seconds > 0 ? summary.examples / seconds : 0.0;
  if (summary.train_loss.has_value()) json["train_loss"] = *summary.train_loss;
  // The names of metrics get prefixes, which distinguish training, validation and test.
  for (const auto& [name, value] : summary.train_metrics) json["train_" + name] = value;
  if (summary.validation_loss.has_value()) json["validation_loss"] = *summary.validation_loss;
  for (const auto& [name, value] : summary.validation_metrics) json["validation_" + name] = value;
  if (summary.test_loss.has_value()) json["test_loss"] = *summary.test_loss;
  for (const auto& [name, value] : summary.test_metrics) json["test_" + name] = value;
  json["test_examples"] = summary.test_examples;
  json["checkpoint"] = summary.checkpoint;
  json["model"] = summary.model;
  json["closures_done"] = summary.closures.done;
  json["closures_put_back"] = summary.closures.put_back;
  json["closures_quarantined"] = summary.closures.quarantined;
  json["ps_pushes"] = summary.ps.pushes();
  json["ps_bytes_in"] = summary.ps.bytes_in();
  json["ps_bytes_out"] = summary.ps.bytes_out();
  json["ps_duplicate_slices"] = summary.ps.duplicate_slices();
  json["ps_applied_slices"] = summary.ps.applied_slices();
  json["ps_dropped_slices"] = summary.ps.dropped_slices();
  json["ps_received_held_max"] = summary.ps.received().held_bytes_max();
  json["ps_sent_held_max"] = summary.ps.sent().held_bytes_max();
  json["ps_waits"] = summary.ps.received().waits() + summary.ps.sent().waits();
  if (const std::optional<proto::DynamicTableUse> tables = TablesOf(summary.ps)) {
    json["table_rows"] = tables->rows();
    json["table_bytes"] = tables->bytes();
    json["table_not_admitted"] = tables->not_admitted();
    json["table_expired_rows"] = tables->expired_rows();
    json["table_evicted_rows"] = tables->evicted_rows();
  }
  // The mean counts only pushes that were applied to a slice, because others have no staleness.
  const double applied = static_cast<double>(summary.ps.applied_slices());
  json["mean_staleness"] =
      applied > 0 ? static_cast<double>(summary.ps.staleness_sum()) / applied : 0.0;
  json["max_staleness"] = summary.ps.staleness_max();
  json["staleness_histogram"] = std::vector<uint64_t>(summary.ps.staleness_histogram().begin(),
                                                      summary.ps.staleness_histogram().end());
  return json.dump();
}

}  // namespace cohort
