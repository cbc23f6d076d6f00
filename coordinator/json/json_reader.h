#pragma once

// Reads a parsed JSON object key by key into typed values, and collects every error on the way, so
// that a user sees all errors at once. A key counts as known once a reader method has asked for it;
// Finish reports all other keys. A null value counts as absent, as in Keras's serialised form.
// Paths have the form that --set takes: "model.config.layers.1.config.rate".
//
// The function that reads an object also writes it: given a place that records, each method records
// the value under its key, in the order of the calls. A place that only records has no value, so a
// reader finds no key and every value stays as it is. A place that has both is read, and what was
// read is recorded at once with the defaults of absent keys: the canonical form of the object. So a
// key stands in one place of the code, and what is written can be read.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// A list of the mistakes that were found in the contents of one JSON file. Thread-compatible.
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

// Returns the place of `key` inside `path` as messages name places: "compile.optimizer".
std::string JoinKeys(const std::string& path, absl::string_view key);

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

// One value of the file, the place where one is recorded, or both. At least one of `value` and
// `record` is set.
struct JsonPlace {
  std::string path;
  JsonErrors& errors;
  const nlohmann::json* value = nullptr;
  nlohmann::ordered_json* record = nullptr;
};

// The only value that is accepted for a key that is not supported.
using NeutralValue = std::variant<std::nullptr_t, bool, int64_t, double, std::string>;

// The reader of one JSON object. Its methods leave `out` unchanged if the key is absent or its
// value is wrong. Thread-compatible.
class ObjectReader {
 public:
  // Makes a reader; what the place points to must outlive the reader. A value that is not an object
  // is reported as an error, and every key then counts as absent.
  explicit ObjectReader(const JsonPlace& place);

  // Returns whether this reader only records what the caller has, and reads nothing.
  bool recording() const { return record_ != nullptr && !reads_; }
  // Returns the key's value, or nullptr if the key is absent or null.
  const nlohmann::json* Find(const std::string& key);
  // Returns the key's value; reports an error if the key is absent or null.
  const nlohmann::json* Require(const std::string& key);
  // Returns whether the key is in the file, or, if this reader records, `is_recorded`.
  bool Given(const std::string& key, bool is_recorded);
  bool HoldsObject(const std::string& key);
  bool HoldsList(const std::string& key);
  // Returns whether the key is in the file with the value null.
  bool HoldsNull(const std::string& key);
  // Returns the key's place, or nullopt if the key is absent or null. The place is valid until
  // another key is recorded.
  std::optional<JsonPlace> Place(const std::string& key);

  void Int(const std::string& key, IntRange range, int64_t* out);
  void OptionalInt(const std::string& key, IntRange range, std::optional<int64_t>* out);
  void Seed(const std::string& key, uint64_t* out);
  void OptionalSeed(const std::string& key, std::optional<uint64_t>* out);
  void Number(const std::string& key, NumberRange range, double* out);
  // Reads a number under its key, or under the key that older releases of Keras wrote.
  void NumberOrOld(const std::string& key, const std::string& old_key, NumberRange range,
                   double* out);
  void Bool(const std::string& key, bool* out);
  void String(const std::string& key, std::string* out);
  // Reads the name of a function, which may be in the class form of a function.
  void Function(const std::string& key, std::string* out);
  // Reads one of the choices, ignoring upper and lower case, as TensorFlow does for its names.
  // `out` gets the spelling in `choices`. An empty string is not recorded.
  void Choice(const std::string& key, absl::Span<const std::string> choices, std::string* out);
  // Reads a list of integers. A number alone stands for a list of `repeated` such numbers, unless
  // `repeated` is 0.
  void Ints(const std::string& key, IntRange range, size_t repeated, std::vector<int64_t>* out);
  // Reads a list of integers, in which null becomes -1.
  void NullableInts(const std::string& key, IntRange range, std::vector<int64_t>* out);
  // Reads a list of numbers, each of which must be at least 0.
  void Numbers(const std::string& key, std::vector<double>* out);
  // Reads a list of at least `count_min` strings; `description` says in errors what they are.
  void Strings(const std::string& key, size_t count_min, const char* description,
               std::vector<std::string>* out);
  // Reads an object, whose keys `fields` reads.
  template <typename Spec>
  void Object(const std::string& key, void (*fields)(ObjectReader&, Spec&), Spec* out) {
    const std::optional<JsonPlace> place = Place(key);
    if (!place) return;
    ObjectReader reader(*place);
    fields(reader, *out);
    reader.Finish();
  }

  // Reads an integer without recording it.
  void FindInt(const std::string& key, IntRange range, std::optional<int64_t>* out);
  // Records what was read by other means.
  void RecordAs(const std::string& key, const nlohmann::ordered_json& value);

  // Accepts any value of a key that is part of Keras's form but has no meaning in a job.
  void Ignore(const std::string& key);
  // Accepts only an absent key, null or `neutral`, for a key of Keras's form that is not supported.
  void OnlyNeutral(const std::string& key, const NeutralValue& neutral);

  void AddError(const std::string& key, const std::string& message);
  // Reports the keys that no method has asked for.
  void Finish();

  // Returns the keys of the object that is read.
  std::vector<std::string> Keys() const;
  const std::string& path() const { return path_; }
  JsonErrors& errors() { return errors_; }

 private:
  // Records a value if this reader records.
  template <typename T>
  void Record(const std::string& key, const T& value);

  const bool reads_;                   // false: the place has no value, only a record
  const nlohmann::json* const value_;  // nullptr if there is no object to read
  nlohmann::ordered_json* const record_;
  const std::string path_;
  JsonErrors& errors_;
  std::vector<std::string> known_;
};

// Keras's serialised form of an object: {"class_name": "Adam", "config": {...}}, or the name alone
// as a string.
struct ClassForm {
  JsonPlace place;
  std::string class_name;  // empty if the form is wrong; the error has then been reported
  const nlohmann::json* config = nullptr;  // nullptr if no config is given
  std::string config_path;
  bool is_name_only = false;

  bool ok() const { return !class_name.empty() || is_name_only; }
  // Returns a reader of the config. A place that records gets `name`, which is the name of the
  // class without its other spellings.
  ObjectReader Config(const std::string& name) const;
};
// Reads a class form; of a place that only records, the class is `recorded`. {"class_name":
// "function", "config": "relu"} counts as the name alone. A module or registered name that is not
// Keras's is an error, because such a class is not the Keras class of the same name.
ClassForm ReadClassForm(const JsonPlace& place, const std::string& recorded);

// Returns whether a module is one of Keras's own, such as "keras.layers". A class without a module
// counts as Keras's.
bool IsKerasModule(absl::string_view module);
// Returns whether a registered name, such as "keras_hub>RotaryEmbedding", is of a package other
// than Keras.
bool IsOfOtherPackage(absl::string_view registered);

// Returns the name of a function, which is given as a string or in the class form of a function.
std::optional<std::string> FunctionName(const nlohmann::json& value);

// Returns the integers of an array, each of which must be in `range`, or nullopt after an error.
// `path` is the path of `value`.
std::optional<std::vector<int64_t>> ReadInts(const nlohmann::json& value, const std::string& path,
                                             IntRange range, JsonErrors& errors);

// Returns a message for an unknown name: "'Dens' is not a known layer; the nearest is 'Dense'
// (known: ...)". For a name from older versions of Keras: "...; it is called 'Functional' now
// (known: ...)".
std::string UnknownName(absl::string_view what, absl::string_view name,
                        absl::Span<const std::string> known);

// A class that a class form may name, and the spec with which its config begins.
template <typename Spec>
struct ClassChoice {
  std::string name;
  Spec start;
};

// Reads a class form of one of `choices` with `fields`, a callable that reads the config. `what`
// names the kind of class in errors, and `recorded` is the class of `spec`, if the place only
// records. Returns whether the class is known; if not, `spec` is unchanged.
template <typename Spec, typename Fields>
bool ReadClass(const JsonPlace& place, const char* what,
               const std::vector<ClassChoice<Spec>>& choices, const std::string& recorded,
               Fields fields, Spec& spec) {
  const ClassForm form = ReadClassForm(place, recorded);
  if (!form.ok()) return false;
  const auto found = std::find_if(choices.begin(), choices.end(),
                                  [&](const auto& one) { return one.name == form.class_name; });
  if (found == choices.end()) {
    std::vector<std::string> names;
    for (const ClassChoice<Spec>& one : choices) names.push_back(one.name);
    place.errors.Add(place.path, UnknownName(what, form.class_name, names));
    return false;
  }
  if (place.value != nullptr) spec = found->start;
  ObjectReader config = form.Config(found->name);
  fields(config, spec);
  config.Finish();
  return true;
}

}  // namespace cohort
