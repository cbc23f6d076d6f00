#include <map>
#include <regex>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

struct Definition {
  std::string name;
  size_t line = 0;
};

// Types that other files can name, by lines: the code is formatted.
std::vector<Definition> TypesOf(const SourceFile& file) {
  static const std::regex definition(
      "^(?:class|struct) (?:(?:alignas|ABSL_\\w+)(?:\\(.*\\))? )?(\\w+)"
      "(?: final)?(?: :[^;]*)?(?: \\{[^;]*)?");
  std::vector<Definition> types;
  bool unnamed = false;
  const std::vector<std::string> lines = absl::StrSplit(file.text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (lines[i] == "namespace {") {
      unnamed = true;
    } else if (lines[i] == "}  // namespace") {
      unnamed = false;
    } else if (!unnamed && std::regex_match(lines[i], match, definition)) {
      types.push_back({match[1].str(), i + 1});
    }
  }
  return types;
}

}  // namespace

Findings CheckTypeNames(const std::vector<SourceFile>& files) {
  Findings findings;
  std::map<std::string, std::string> seen;  // where, by name
  for (const SourceFile& file : files) {
    if (!IsCpp(file) || absl::StartsWith(file.path, "tests/")) continue;
    for (const Definition& type : TypesOf(file)) {
      const auto [other, first] = seen.emplace(type.name, absl::StrCat(file.path, ":", type.line));
      if (first) continue;
      findings.push_back(At(file, type.line,
                            absl::StrCat(type.name, " is a type at ", other->second,
                                         " too: what links both has one of them at random")));
    }
  }
  return findings;
}

}  // namespace cohort::lint
