#pragma once

// Reads a list of metrics from what Keras writes for them, and writes it: names ("accuracy", "mse",
// "AUC"), class forms of classes with their configs, and class forms of functions.

#include <set>
#include <string>
#include <vector>

#include "coordinator/json/json_reader.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {

// Reads one metric, or a list of metrics, and appends them to `metrics`. `keras` is the version of
// the file, or 0 if the file does not say it (ReadLoss). `weighted` says whether weights of
// examples count. `taken` has names that no metric may have; the names of the new metrics are added
// to it.
struct MetricListOptions {
  int keras = 0;
  bool weighted = false;
  std::set<std::string>& taken;
};
void ReadMetrics(const JsonPlace& place, const MetricListOptions& options,
                 std::vector<MetricSpec>& metrics);

// Records those of the metrics whose member `weighted` has this value.
void RecordMetrics(const JsonPlace& place, bool weighted, const std::vector<MetricSpec>& metrics);

}  // namespace cohort
