#include <algorithm>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

struct Row {
  std::string id, requirement, status, tests, source;
};

// The rows "| XX-01 | requirement | status | test | source |".
std::vector<Row> ReadRows(const std::string& table, Findings& findings) {
  static const std::regex id("[A-Z]+-[0-9]+");
  std::vector<Row> rows;
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    if (!absl::StartsWith(line, "|")) continue;
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (cells.size() < 2 || !std::regex_match(cells[1], id)) continue;
    if (cells.size() != 7) {
      findings.push_back(absl::StrCat(cells[1], ": the row does not have five cells"));
    } else {
      rows.push_back({cells[1], cells[2], cells[3], cells[4], cells[5]});
    }
  }
  return rows;
}

// "Suite.Name" of every test in the sources; parametrised ones under the name of their suite.
std::set<std::string> TestNames(const std::vector<SourceFile>& files) {
  static const std::regex macro("\\b(TYPED_)?TEST(_F|_P)?\\s*\\(\\s*(\\w+)\\s*,\\s*(\\w+)\\s*\\)");
  std::set<std::string> names;
  for (const SourceFile& file : files) {
    if (!absl::StartsWith(file.path, "tests/") || !IsCpp(file)) continue;
    for (auto match = std::sregex_iterator(file.code.begin(), file.code.end(), macro);
         match != std::sregex_iterator(); ++match) {
      names.insert(absl::StrCat((*match)[3].str(), ".", (*match)[4].str()));
    }
  }
  return names;
}

void CheckTests(const Row& row, const std::set<std::string>& names, Findings& findings) {
  const std::vector<std::string> tests =
      absl::StrSplit(row.tests, absl::ByAnyChar(", `"), absl::SkipWhitespace());
  if (tests.empty()) findings.push_back(absl::StrCat(row.id, ": names no test"));
  for (const std::string& test : tests) {
    if (names.count(test) == 0) {
      findings.push_back(absl::StrCat(row.id, ": there is no test ", test));
    }
  }
  if (row.source.empty()) {
    findings.push_back(absl::StrCat(row.id, ": does not say where its expectation comes from"));
  }
}

}  // namespace

Findings CheckCompatibility(const std::string& table, const std::string& ids,
                            const std::vector<SourceFile>& files) {
  Findings findings;
  std::set<std::string> names = TestNames(files);
  for (const SourceFile& file : files) names.insert(file.path);  // a script is a test too
  std::set<std::string> missing = absl::StrSplit(ids, '\n', absl::SkipWhitespace());

  for (const Row& row : ReadRows(table, findings)) {
    if (missing.erase(row.id) == 0) {
      findings.push_back(absl::StrCat(row.id, ": is not in requirement_ids.txt or is repeated"));
    }
    if (row.requirement.empty()) findings.push_back(absl::StrCat(row.id, ": has no requirement"));
    if (row.status == "works" || row.status == "better") {
      CheckTests(row, names, findings);
    } else if (row.status != "not yet") {
      findings.push_back(
          absl::StrCat(row.id, ": status '", row.status, "' is not works, better or not yet"));
    }
  }
  for (const std::string& id : missing) findings.push_back(absl::StrCat(id, ": has no row"));
  return findings;
}

}  // namespace cohort::lint
