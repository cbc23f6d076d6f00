#pragma once

// Reads the sections of a job file into typed values, and writes them back: json_reader.h says how
// one function does both. The readers report to the place's `errors`, and leave a value that they
// could not read at its default. Private to this folder.

#include "coordinator/job/compile_spec.h"
#include "coordinator/job/data_spec.h"
#include "coordinator/job/strategy_spec.h"
#include "coordinator/json/json_reader.h"

namespace cohort {

// Reads the section `compile`. `keras` is the major version of Keras that wrote the model, or 0.
void ReadCompile(ObjectReader& reader, int keras, CompileSpec& compile);
void ReadOptimizer(const JsonPlace& place, int keras, OptimizerSpec& spec);
void ReadSchedule(const JsonPlace& place, ScheduleSpec& spec);
void ReadData(ObjectReader& reader, DataSpec& data);
void ReadStrategy(ObjectReader& reader, StrategySpec& strategy);

}  // namespace cohort
