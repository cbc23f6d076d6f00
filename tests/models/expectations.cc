#include "tests/models/expectations.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cohort {
namespace {

constexpr char kFolder[] = COHORT_SOURCE_DIR "/tests/models/";

}  // namespace

CaseExpectations::CaseExpectations(const std::string& family) {
  std::ifstream refused(absl::StrCat(kFolder, "refused.txt"));
  for (std::string line; std::getline(refused, line);) {
    std::istringstream words(line);
    std::string name;
    std::string word;
    if (absl::StartsWith(line, "#") || !(words >> name >> word)) continue;
    refused_[name] = word;
  }
  std::ifstream not_yet(absl::StrCat(kFolder, "not_yet/", family, ".txt"));
  for (std::string line; std::getline(not_yet, line);) {
    if (!line.empty() && line[0] != '#') not_yet_.insert(line);
  }
}

const std::string* CaseExpectations::WordOf(const ModelCase& one) const {
  // A case is named by "VERSION/CASE" or, for both versions, by its name.
  for (const std::string& name :
       {absl::StrCat(one.version, "/", one.name), one.name, one.class_name}) {
    const auto found = refused_.find(name);
    if (found != refused_.end()) return &found->second;
  }
  return nullptr;
}

bool CaseExpectations::IsRefused(const ModelCase& one) const { return WordOf(one) != nullptr; }

std::string CaseExpectations::Wrong(const ModelCase& one, const Verdict& verdict) const {
  const std::string* const word = WordOf(one);
  if (word == nullptr) {
    if (verdict.kind == Verdict::kPassed) return "";
    return absl::StrCat(verdict.kind == Verdict::kRefused ? "is refused: " : "", verdict.text);
  }
  if (verdict.kind != Verdict::kRefused) {
    return absl::StrCat("is not refused: ", verdict.text);
  }
  if (absl::StrContains(verdict.text, *word)) return "";
  return absl::StrCat("is refused without the word '", *word, "': ", verdict.text);
}

bool CaseExpectations::IsNotYet(const ModelCase& one) const {
  return not_yet_.contains(absl::StrCat(one.version, " ", one.name));
}

std::set<std::string> CaseExpectations::LinesWithoutCase(const std::set<std::string>& names) const {
  std::set<std::string> lines;
  std::set_difference(not_yet_.begin(), not_yet_.end(), names.begin(), names.end(),
                      std::inserter(lines, lines.end()));
  return lines;
}

}  // namespace cohort
