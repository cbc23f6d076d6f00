#include <algorithm>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

struct Requirement {
  std::string id, text, status, source;
};

// The two tables of the document, which differ by their numbers of cells.
struct Tables {
  std::vector<Requirement> requirements;     // "| XX-01 | requirement | status | source |"
  std::map<std::string, std::string> tests;  // "| XX-01 | tests |", by id
};

Tables ReadTables(const std::string& table, Findings& findings) {
  static const std::regex id("[A-Z]+-[0-9]+");
  Tables tables;
  for (const absl::string_view line : absl::StrSplit(table, '\n')) {
    if (!absl::StartsWith(line, "|")) continue;
    std::vector<std::string> cells = absl::StrSplit(line, '|');
    for (std::string& cell : cells) absl::StripAsciiWhitespace(&cell);
    if (cells.size() < 2 || !std::regex_match(cells[1], id)) continue;
    // The text before the first bar and behind the last one counts as a cell, too.
    if (cells.size() == 6) {
      tables.requirements.push_back({cells[1], cells[2], cells[3], cells[4]});
    } else if (cells.size() != 4) {
      findings.push_back(absl::StrCat(
          cells[1], ": the row has neither the four cells of a requirement nor the two of tests"));
    } else if (!tables.tests.emplace(cells[1], cells[2]).second) {
      findings.push_back(absl::StrCat(cells[1], ": has two rows of tests"));
    }
  }
  return tables;
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

void CheckTests(const std::string& id, const std::string& tests, const std::set<std::string>& names,
                Findings& findings) {
  const std::vector<std::string> list =
      absl::StrSplit(tests, absl::ByAnyChar(", `"), absl::SkipWhitespace());
  if (list.empty()) findings.push_back(absl::StrCat(id, ": names no test"));
  for (const std::string& test : list) {
    if (names.count(test) == 0) {
      findings.push_back(absl::StrCat(id, ": there is no test ", test));
    }
  }
}

}  // namespace

Findings CheckCompatibility(const std::string& table, const std::string& ids,
                            const std::vector<SourceFile>& files) {
  Findings findings;
  std::set<std::string> names = TestNames(files);
  for (const SourceFile& file : files) names.insert(file.path);  // a script is a test too
  std::set<std::string> missing = absl::StrSplit(ids, '\n', absl::SkipWhitespace());

  Tables tables = ReadTables(table, findings);
  for (const Requirement& row : tables.requirements) {
    if (missing.erase(row.id) == 0) {
      findings.push_back(absl::StrCat(row.id, ": is not in requirement_ids.txt or is repeated"));
    }
    if (row.text.empty()) findings.push_back(absl::StrCat(row.id, ": has no requirement"));
    if (row.status == "works" || row.status == "better") {
      CheckTests(row.id, tables.tests[row.id], names, findings);
      if (row.source.empty()) {
        findings.push_back(absl::StrCat(row.id, ": does not say where its expectation comes from"));
      }
      tables.tests.erase(row.id);
    } else if (row.status != "not yet") {
      findings.push_back(
          absl::StrCat(row.id, ": status '", row.status, "' is not works, better or not yet"));
    }
  }
  for (const auto& [id, tests] : tables.tests) {
    findings.push_back(absl::StrCat(id, ": has tests, but no requirement that holds"));
  }
  for (const std::string& id : missing) findings.push_back(absl::StrCat(id, ": has no row"));
  return findings;
}

}  // namespace cohort::lint
