#pragma once

// The config of a Keras class as values by key. A table lists the keys of a class, with the values
// that each may have and its default. The same table reads a config and writes it.

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

class ObjectReader;

// A value of a config: null, a number (a flag is 0 or 1), a text, or a list of numbers.
using ConfigValue = std::variant<std::monostate, double, std::string, std::vector<double>>;

// The range of a number. The bounds belong to the range, unless they are excluded.
struct KeyRange {
  double min = -1e300;
  double max = 1e300;
  bool min_excluded = false;
  bool max_excluded = false;
};

// A key of a class with the values that it may have.
struct ConfigKey {
  enum class Kind {
    kFlag,
    kNumber,
    kWhole,
    kChoice,   // one of `choices`
    kNumbers,  // a number or a list of numbers
    kWholes,   // a whole number or a list of whole numbers
  };
  std::string name;
  Kind kind = Kind::kNumber;
  ConfigValue otherwise;  // the value of an absent key; null: the key may be null
  KeyRange range;         // the range of each number
  std::vector<std::string> choices;
  bool nullable = false;  // true: null is a value like others, although `otherwise` is not null
  // True: the key is not recorded at its value `otherwise`, because job files of earlier versions
  // had no such key, and a job's fingerprint is taken from what is recorded.
  bool is_later = false;
};

// Values by the keys of a class. Thread-compatible.
class ClassConfig {
 public:
  // Makes the config that has each key's value `otherwise`.
  static ClassConfig Default(absl::Span<const ConfigKey> keys);

  // Returns the value of a key that the class has.
  const ConfigValue& At(absl::string_view key) const;
  bool Has(absl::string_view key) const { return values_.contains(key); }
  bool IsNull(absl::string_view key) const;
  // Return the value of a key, which must have a value of that type.
  double Number(absl::string_view key) const;
  int64_t Whole(absl::string_view key) const;
  bool Flag(absl::string_view key) const;
  const std::string& Text(absl::string_view key) const;
  // Returns the numbers of a list; a number alone is a list of one, and null an empty list.
  std::vector<double> Numbers(absl::string_view key) const;
  std::vector<int64_t> Wholes(absl::string_view key) const;
  // Returns whether the value is a list in the file, not a number alone.
  bool IsList(absl::string_view key) const;

  void Set(const std::string& key, ConfigValue value) { values_[key] = std::move(value); }

  friend bool operator==(const ClassConfig&, const ClassConfig&) = default;

 private:
  std::map<std::string, ConfigValue, std::less<>> values_;
};

// Reads the keys into `config`, which has the value of every key, or records them.
void ReadConfigKeys(ObjectReader& reader, absl::Span<const ConfigKey> keys, ClassConfig& config);

// Make the keys of a table. A key has the value `otherwise` if the file does not have it.
ConfigKey FlagKey(const std::string& name, bool otherwise);
ConfigKey NumberKey(const std::string& name, double otherwise, KeyRange range);
ConfigKey WholeKey(const std::string& name, double otherwise, KeyRange range);
ConfigKey ChoiceKey(const std::string& name, const std::string& otherwise,
                    std::vector<std::string> choices);
// Make keys whose default is null.
ConfigKey OptionalWholeKey(const std::string& name, KeyRange range);
ConfigKey OptionalNumberKey(const std::string& name, KeyRange range);
ConfigKey OptionalNumbersKey(const std::string& name, KeyRange range);
ConfigKey OptionalChoiceKey(const std::string& name, std::vector<std::string> choices);
ConfigKey OptionalWholesKey(const std::string& name, KeyRange range);

}  // namespace cohort
