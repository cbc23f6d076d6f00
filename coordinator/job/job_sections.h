#pragma once

// Reads the sections of a job file into typed values, and writes them back. The readers report to
// `errors`, and leave a value that they could not read at its default. Private to this folder.

#include <string>

#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/job/strategy_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

ModelSpec ReadModel(const nlohmann::json& value, const std::string& path, JsonErrors& errors);
CompileSpec ReadCompile(const nlohmann::json& value, const std::string& path, JsonErrors& errors);
OptimizerSpec ReadOptimizer(const nlohmann::json& value, const std::string& path,
                            JsonErrors& errors);
ScheduleSpec ReadSchedule(const nlohmann::json& value, const std::string& path, JsonErrors& errors);
DataSpec ReadData(const nlohmann::json& value, const std::string& path, JsonErrors& errors);
StrategySpec ReadStrategy(const nlohmann::json& value, const std::string& path, JsonErrors& errors);
DynamicTableSpec ReadDynamicTable(const nlohmann::json& value, const std::string& path,
                                  JsonErrors& errors);
// Returns whether the initializer's values depend on the number of rows of a table.
bool NeedsInputDim(const KerasInitializerSpec& initializer);
KerasInitializerSpec ReadInitializer(const nlohmann::json& value, const std::string& path,
                                     JsonErrors& errors);

nlohmann::ordered_json ModelToJson(const ModelSpec& model);
nlohmann::ordered_json CompileToJson(const CompileSpec& compile);
nlohmann::ordered_json OptimizerToJson(const OptimizerSpec& optimizer);
nlohmann::ordered_json ScheduleToJson(const ScheduleSpec& schedule);
nlohmann::ordered_json DataToJson(const DataSpec& data);
nlohmann::ordered_json StrategyToJson(const StrategySpec& strategy);
nlohmann::ordered_json DynamicTableToJson(const DynamicTableSpec& table);
nlohmann::ordered_json InitializerToJson(const KerasInitializerSpec& initializer);

// Returns {"class_name": ..., "config": ...}.
nlohmann::ordered_json ClassFormToJson(const std::string& class_name,
                                       nlohmann::ordered_json config);

}  // namespace cohort
