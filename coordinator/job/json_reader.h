#pragma once

// Reads a parsed JSON object key by key into typed values, and collects every error on the way, so
// that a user sees all errors at once. A key counts as known once a reader method has asked for it;
// Finish reports all other keys. A null value counts as absent, as in Keras's serialised form.
// Paths have the form that --set takes: "model.config.layers.1.config.rate".

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
  // Returns INVALID_ARGUMENT with one line per error after "file_name: ", or OK if there are no
  // errors.
  absl::Status ToStatus(absl::string_view file_name) const;

 private:
  std::vector<std::string> messages_;
};

std::string JoinPath(const std::string& path, absl::string_view key);

struct IntRange {
  int64_t min = INT64_MIN;
  int64_t max = INT64_MAX;
};

// A range of numbers; the bounds belong to the range unless they are excluded.
struct NumberRange {
  double min = -1e300;
  double max = 1e300;
  bool min_excluded = false;
  bool max_excluded = false;
};

// The reader of one JSON object. Its methods leave `out` unchanged if the key is absent or its
// value is wrong. Thread-compatible.
class ObjectReader {
 public:
  // Makes a reader; `value` and `errors` must outlive the reader. A value that is not an object is
  // reported as an error, and every key then counts as absent.
  ObjectReader(const nlohmann::json& value, std::string path, JsonErrors& errors);

  // Returns the key's value, or nullptr if the key is absent or null.
  const nlohmann::json* Find(const std::string& key);
  // Returns the key's value; reports an error if the key is absent or null.
  const nlohmann::json* Require(const std::string& key);

  void Int(const std::string& key, IntRange range, int64_t* out);
  void OptionalInt(const std::string& key, IntRange range, std::optional<int64_t>* out);
  void Seed(const std::string& key, uint64_t* out);
  void OptionalSeed(const std::string& key, std::optional<uint64_t>* out);
  void Number(const std::string& key, NumberRange range, double* out);
  void Bool(const std::string& key, bool* out);
  void String(const std::string& key, std::string* out);
  // Reads one of the choices, ignoring upper and lower case, as TensorFlow does for its names.
  // `out` gets the spelling in `choices`.
  void Choice(const std::string& key, absl::Span<const std::string> choices, std::string* out);

  // Accepts any value of a key that is part of Keras's form but has no meaning in a job.
  void Ignore(const std::string& key);
  // Accepts only an absent key, null or `neutral`, for a key of Keras's form that is not supported.
  void OnlyNeutral(const std::string& key, const nlohmann::json& neutral);

  void AddError(const std::string& key, const std::string& message);
  // Reports the keys that no method has asked for.
  void Finish();

  const std::string& path() const { return path_; }
  JsonErrors& errors() { return errors_; }

 private:
  const nlohmann::json* const value_;  // nullptr if the value is not an object
  const std::string path_;
  JsonErrors& errors_;
  std::vector<std::string> known_;
};

// Keras's serialised form of an object: {"class_name": "Adam", "config": {...}}, or the name alone
// as a string.
struct ClassForm {
  std::string class_name;  // empty if the form is wrong; the error has then been reported
  const nlohmann::json* config = nullptr;  // nullptr if no config is given
  std::string config_path;
  bool is_name_only = false;
};
// Reads a class form. {"class_name": "function", "config": "relu"} counts as the name alone. A
// module or registered name that is not Keras's is an error, because such a class is not the Keras
// class of the same name.
ClassForm ReadClassForm(const nlohmann::json& value, const std::string& path, JsonErrors& errors);

// Returns the name of a function, which is given as a string or in the class form of a function.
std::optional<std::string> FunctionName(const nlohmann::json& value);

// Returns the integers of an array, each of which must be in `range`, or nothing after an error.
// `path` is the path of `value`.
std::optional<std::vector<int64_t>> ReadInts(const nlohmann::json& value, const std::string& path,
                                             IntRange range, JsonErrors& errors);

// Returns a message for an unknown name: "'Dens' is not a known layer; the nearest is 'Dense'
// (known: ...)". For a name from older versions of Keras: "...; it is called 'Functional' now
// (known: ...)".
std::string UnknownName(absl::string_view what, absl::string_view name,
                        absl::Span<const std::string> known);

// Returns an empty JSON object, for a ClassForm without a config.
const nlohmann::json& EmptyJsonObject();

}  // namespace cohort
