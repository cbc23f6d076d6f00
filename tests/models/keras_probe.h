#pragma once

// Asks the readers of a job file what they know of Keras: which classes there are of a kind, which
// keys the config of a class may have, and what a config means. A reader answers by what it reads
// and by its errors, which list what it knows, so no table is written down a second time.

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace cohort {

// A key that no config has. A reader reports such a key beside the keys that it knows.
inline constexpr char kNoSuchKey[] = "?";

// What a reader said of one config.
struct ConfigReading {
  bool ok = false;
  std::string canonical;                     // what the config means, with defaults; empty: not ok
  std::map<std::string, std::string> wrong;  // messages by the config's key
  std::vector<std::string> known;            // the known keys, if the config has kNoSuchKey
  bool depends_on_version = false;           // true: the meaning depends on the version of Keras
};

// A class that a file may name, and its reader. `version` is one of ModelCaseVersions().
struct ProbedClass {
  std::string kind;
  std::string name;
  std::function<ConfigReading(const nlohmann::json& config, const std::string& version)> read;
};

// Returns the classes of a kind: "layer", "cell", "loss", "metric", "optimizer", "initializer",
// "regularizer", "constraint" or "schedule". Models as layers and operations are not among them.
std::vector<ProbedClass> ProbedClasses(const std::string& kind);

// Returns the classes of Keras 3's operations, and those of tf.keras.
std::vector<std::string> OperationClasses();

}  // namespace cohort
