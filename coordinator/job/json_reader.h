#pragma once

// Reads a parsed JSON object key by key into typed values and collects every error on the way, so
// that a user sees all of them at once. A key counts as known once it has been asked for; Finish
// reports the rest. A null value counts as absent, as in Keras's serialised form. Paths are those
// that --set takes: "model.config.layers.1.config.rate".

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// The errors of one file. Thread-compatible.
class JsonErrors {
 public:
  void Add(const std::string& path, const std::string& message);
  size_t size() const { return messages_.size(); }
  // Returns INVALID_ARGUMENT with one line per error after "file_name: ", or OK without errors.
  absl::Status ToStatus(absl::string_view file_name) const;

 private:
  std::vector<std::string> messages_;
};

std::string JoinPath(const std::string& path, absl::string_view key);

struct IntRange {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
};

// Bounds are included unless said otherwise.
struct NumberRange {
  double min = -1e300;
  double max = 1e300;
  bool min_excluded = false;
  bool max_excluded = false;
};

// Readers leave `out` as it is when the key is absent or its value is wrong. Thread-compatible.
class ObjectReader {
 public:
  // Makes a reader; `value` and `errors` must outlive it. A value that is not an object is an
  // error, and then every key is absent.
  ObjectReader(const nlohmann::json& value, std::string path, JsonErrors& errors);

  // Returns nullptr if the key is absent or null.
  const nlohmann::json* Find(const std::string& key);
  // Returns the value; absence is an error.
  const nlohmann::json* Require(const std::string& key);

  void Int(const std::string& key, IntRange range, int64_t* out);
  void OptionalInt(const std::string& key, IntRange range, std::optional<int64_t>* out);
  void Seed(const std::string& key, uint64_t* out);
  void OptionalSeed(const std::string& key, std::optional<uint64_t>* out);
  void Number(const std::string& key, NumberRange range, double* out);
  void Bool(const std::string& key, bool* out);
  void String(const std::string& key, std::string* out);
  // Reads one of the choices in any case, as TensorFlow takes its names; `out` is the choice as
  // written here.
  void Choice(const std::string& key, absl::Span<const std::string> choices, std::string* out);

  // Accepts any value for a part of Keras's form that has no meaning here.
  void Ignore(const std::string& key);
  // Accepts only absent, null or `neutral` for a part of Keras's form that is not supported.
  void OnlyNeutral(const std::string& key, const nlohmann::json& neutral);

  void AddError(const std::string& key, const std::string& message);
  // Reports keys that nobody asked for.
  void Finish();

  const std::string& path() const { return path_; }
  JsonErrors& errors() { return errors_; }

 private:
  const nlohmann::json* const value_;  // nullptr when it is no object
  const std::string path_;
  JsonErrors& errors_;
  std::vector<std::string> known_;
};

// Keras's serialised form of an object: {"class_name": "Adam", "config": {...}}, or only its name
// as a string.
struct ClassForm {
  std::string class_name;                  // empty when the form is wrong, which has been reported
  const nlohmann::json* config = nullptr;  // nullptr: none given
  std::string config_path;
  bool is_name_only = false;
};
// Reads a class form; {"class_name": "function", "config": "relu"} is the name alone. A module or
// registered name that is not Keras's is an error: such a class is not Keras's class of this name.
ClassForm ReadClassForm(const nlohmann::json& value, const std::string& path, JsonErrors& errors);

// Returns the name of a function, given as a string or in the class form of a function.
std::optional<std::string> FunctionName(const nlohmann::json& value);

// Returns the integers of an array, each in `range`, or nothing after an error. `path` is that of
// `value`.
std::optional<std::vector<int64_t>> ReadInts(const nlohmann::json& value, const std::string& path,
                                             IntRange range, JsonErrors& errors);

// Returns "'Dens' is not a known layer; the nearest is 'Dense' (known: ...)"; for a name that Keras
// had once, "...; it is called 'Functional' now (known: ...)".
std::string UnknownName(absl::string_view what, absl::string_view name,
                        absl::Span<const std::string> known);

// Returns an empty object, for a ClassForm without a config.
const nlohmann::json& EmptyJsonObject();

}  // namespace cohort
