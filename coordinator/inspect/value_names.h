#pragma once

// The names by which values of two files are compared, and under which they are written to another
// file. A file's own name of a value may be the path of an object ("layers/dense/vars/0"), while
// the file also says which variable it is ("dense/kernel").

#include <string>
#include <vector>

#include "common/formats/weights/weight_file.h"

namespace cohort {

// Returns for each entry the variable's name, if the file says it and no other entry has it as its
// variable or as its own name; else the entry's own name. All names differ.
std::vector<std::string> VariableNames(const WeightFile& file);

// Returns the entries' own names.
std::vector<std::string> OwnNames(const WeightFile& file);

}  // namespace cohort
