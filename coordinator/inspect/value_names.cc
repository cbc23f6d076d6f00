#include "coordinator/inspect/value_names.h"

#include <map>
#include <utility>

namespace cohort {

std::vector<std::string> VariableNames(const WeightFile& file) {
  // For each name, the number of entries that it could mean.
  std::map<std::string, int> entries;
  for (const WeightEntry& entry : file.entries) {
    ++entries[entry.name];
    if (entry.variable != entry.name) ++entries[entry.variable];
  }
  std::vector<std::string> names;
  for (const WeightEntry& entry : file.entries) {
    const bool is_unique = !entry.variable.empty() && entries[entry.variable] == 1;
    names.push_back(is_unique ? entry.variable : entry.name);
  }
  return names;
}

std::vector<std::string> OwnNames(const WeightFile& file) {
  std::vector<std::string> names;
  for (const WeightEntry& entry : file.entries) names.push_back(entry.name);
  return names;
}

}  // namespace cohort
