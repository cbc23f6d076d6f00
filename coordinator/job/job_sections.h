#pragma once

// Readers of the sections of a job file. Each function reads a section into typed values, and also
// records it (json_reader.h). Errors go to the place's `errors`; a value that could not be read
// keeps its default. Private to this folder.

#include <string>
#include <vector>

#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/json/json_reader.h"

namespace cohort {

// The facts about the model that the section `compile` needs.
struct CompiledModel {
  int keras = 0;                     // the major version of Keras that wrote the model, or 0
  std::vector<std::string> outputs;  // the names of its outputs; empty: the model is not known
};

void ReadCompile(ObjectReader& reader, const CompiledModel& model, CompileSpec& compile);
void ReadOptimizer(const JsonPlace& place, int keras, OptimizerSpec& spec);
void ReadSchedule(const JsonPlace& place, ScheduleSpec& spec);
void ReadData(ObjectReader& reader, DataSpec& data);
// Reads the transforms of a data set's pipeline. `source` has the columns of the training data;
// those of the test data must be the same.
void ReadPipeline(const JsonPlace& place, const DataSourceSpec& source,
                  std::vector<TransformSpec>& pipeline);
// Reads the config of files of records, whose kind is set.
void ReadRecords(ObjectReader& config, RecordSpec& spec);
// Reads a function of the columns. Returns whether its class is known.
bool ReadMap(const JsonPlace& place, const std::vector<std::string>& columns, MapSpec& map);
void ReadStrategy(ObjectReader& reader, StrategySpec& strategy);

}  // namespace cohort
