#pragma once

// Which golden case covers which option of which class. A case covers a key of a config if the
// config without the key would be read as something else, or not at all: then the case, which
// passes, computes with the key. A key that every case has at its default is covered by none.

#include <map>
#include <string>
#include <vector>

#include "tests/models/keras_probe.h"

namespace cohort {

enum class OptionRule {
  kTaken,
  kOneValue,  // any value but one is refused with the name of the key
  kIgnored,   // no value changes what is read
};

// The cases of one version that concern an option.
struct OptionCases {
  bool written = false;            // true: this version writes the key
  std::vector<std::string> names;  // cases that cover the key, the plainest first
};

struct OptionCoverage {
  std::string key;
  OptionRule rule = OptionRule::kTaken;
  std::string value;               // of kOneValue: the value
  std::vector<OptionCases> cases;  // by version, as ModelCaseVersions()
  std::string test;                // the file of the test that covers the key beside the cases

  // Returns whether nothing covers the option in one version, which has it.
  bool IsOpenIn(size_t version) const;
};

// The cases of one version that have a class.
struct ClassCases {
  int passed = 0;
  int not_yet = 0;
};

struct ClassCoverage {
  std::string name;
  std::vector<OptionCoverage> options;  // sorted by their keys
  std::vector<ClassCases> cases;        // by version
  bool depends_on_version = false;
  std::string test;  // the file of the test that covers the class beside the cases
};

// The coverage of all classes of a kind, and of the keys that all classes of the kind have.
struct KindCoverage {
  std::vector<ClassCoverage> classes;
  std::vector<OptionCoverage> common;  // their options are not among those of the classes
};

// A test that covers an option or, with the key "*", a class that no golden case has.
struct CoveringTest {
  std::string kind, class_name, key, file;
};

// Returns the lines of tests/models/covered_elsewhere.txt.
std::vector<CoveringTest> CoveringTests();

// Returns the coverage of a kind (keras_probe.h). COHORT_CHECKs that the packs can be read.
KindCoverage CoverageOf(const std::string& kind);

// Returns how many cases of each version have an activation function, by its name.
std::map<std::string, std::vector<ClassCases>> ActivationCases();

}  // namespace cohort
