#include <algorithm>
#include <regex>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

constexpr size_t kSourceLinesMax = 600;
constexpr size_t kHeaderLinesMax = 300;
constexpr size_t kFunctionLinesMax = 60;
constexpr size_t kColumnsMax = 100;

bool HasWord(const std::string& text, const std::string& word) {
  return std::regex_search(text, std::regex("\\b" + word + "\\b"));
}

// Characters, not bytes: UTF-8 continuation bytes do not count.
size_t Columns(absl::string_view line) {
  return static_cast<size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// Returns how many lines are neither blank nor a comment.
size_t LinesOfCode(const std::vector<std::string>& lines) {
  return static_cast<size_t>(std::count_if(lines.begin(), lines.end(), [](const std::string& line) {
    const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
    return !text.empty() && !absl::StartsWith(text, "//");
  }));
}

// Follows the braces. A brace that opens at namespace or class level after a text with a parameter
// list is a function; what is inside belongs to it. Thread-compatible.
class FunctionFinder {
 public:
  std::vector<LinesOfFunction> Find(const std::string& code) {
    for (const char c : code) {
      if (c == '{') {
        Open();
      } else if (c == '}') {
        Close();
      } else if (c == ';') {
        head_.clear();
      } else {
        if (head_.empty() && !absl::ascii_isspace(static_cast<unsigned char>(c))) start_ = line_;
        if (!head_.empty() || start_ == line_) head_.push_back(c);
      }
      if (c == '\n') ++line_;
    }
    return functions_;
  }

 private:
  void Open() {
    const bool type = HasWord(head_, "(namespace|class|struct|union|enum)");
    const bool call = absl::StrContains(head_, "(") && !absl::StrContains(head_, " = ");
    const bool function = function_depth_ == 0 && call && (!type || absl::EndsWith(Trimmed(), ")"));
    ++depth_;
    if (function) {
      function_depth_ = depth_;
      functions_.push_back({start_, 0});
    }
    head_.clear();
    start_ = 0;
  }
  void Close() {
    if (function_depth_ == depth_ && depth_ > 0) {
      functions_.back().last_line = line_;
      function_depth_ = 0;
    }
    if (depth_ > 0) --depth_;
    head_.clear();
    start_ = 0;
  }
  std::string Trimmed() const { return std::string(absl::StripAsciiWhitespace(head_)); }

  std::vector<LinesOfFunction> functions_;
  std::string head_;  // since the last brace or semicolon
  size_t start_ = 0;  // line on which head_ starts
  size_t line_ = 1;
  int depth_ = 0;
  int function_depth_ = 0;  // depth of the function that is open; 0 when none is
};

// The comment lines right above line `index` (from 0), joined; template lines are skipped.
std::string CommentAbove(const std::vector<std::string>& lines, size_t index) {
  std::string comment;
  for (size_t i = index; i > 0; --i) {
    const std::string& line = lines[i - 1];
    if (absl::StartsWith(line, "template")) continue;
    if (!absl::StartsWith(line, "//")) break;
    comment = absl::StrCat(line.substr(2), " ", comment);
  }
  return comment;
}

void CheckClassComments(const SourceFile& file, Findings& findings) {
  static const std::regex definition("^class (ABSL_\\w+ )?(\\w+)[^;]*\\{?$");
  static const std::regex threads("thread-safe|thread-compatible|lives on|belongs to the thread",
                                  std::regex::icase);
  const std::vector<std::string> lines = absl::StrSplit(file.text, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, definition)) continue;
    if (!std::regex_search(CommentAbove(lines, i), threads)) {
      findings.push_back(At(file, i + 1,
                            absl::StrCat("the comment of class ", match[2].str(),
                                         " does not end with \"Thread-safe.\", "
                                         "\"Thread-compatible.\" or \"Lives on "
                                         "strand X.\"")));
    }
  }
}

// Rule 11 of STYLE.md: a method that is defined in the class and returns nothing changes the
// object, and is too short to begin with InvariantsAfter.
void CheckInvariantsOf(const SourceFile& file, Findings& findings) {
  static const std::regex defined("  void (\\w+)\\(.*\\) \\{.*");
  if (!absl::StrContains(file.code, " CheckInvariants() const")) return;
  const std::vector<std::string> lines = absl::StrSplit(file.code, '\n');
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (!std::regex_match(lines[i], match, defined)) continue;
    findings.push_back(At(file, i + 1,
                          absl::StrCat(match[1].str(),
                                       " changes an object that has CheckInvariants: define it in "
                                       "the .cc file, with InvariantsAfter")));
  }
}

void Forbid(const SourceFile& file, const std::string& text, const std::string& pattern,
            const std::string& why, Findings& findings) {
  const std::regex regex(pattern);
  for (auto match = std::sregex_iterator(text.begin(), text.end(), regex);
       match != std::sregex_iterator(); ++match) {
    const size_t line = LineOf(text, static_cast<size_t>(match->position()));
    findings.push_back(At(file, line, absl::StrCat("'", match->str(), "': ", why)));
  }
}

}  // namespace

std::vector<LinesOfFunction> FindFunctions(const SourceFile& file) {
  std::vector<LinesOfFunction> functions = FunctionFinder().Find(file.code);
  functions.erase(std::remove_if(functions.begin(), functions.end(),
                                 [](const LinesOfFunction& function) {
                                   return function.last_line < function.first_line;
                                 }),
                  functions.end());  // unbalanced braces
  return functions;
}

std::vector<Excess> MeasureSizes(const SourceFile& file) {
  std::vector<Excess> excesses;
  if (!IsCpp(file)) return excesses;
  const auto measure = [&](const char* rule, size_t line, size_t size, size_t max) {
    if (size <= max) return;
    const std::string finding = At(file, line, absl::StrCat(rule, " is ", size, ", over ", max));
    if (!excesses.empty() && excesses.back().rule == rule) {
      Excess& known = excesses.back();
      absl::StrAppend(&known.finding, "\n", finding);
      known.size = std::max(known.size, size);
    } else {
      excesses.push_back({rule, file.path, size, finding});
    }
  };
  std::vector<std::string> lines = absl::StrSplit(file.text, '\n');
  if (!lines.empty() && lines.back().empty()) lines.pop_back();
  measure("file_lines", lines.size(), IsHeader(file) ? LinesOfCode(lines) : lines.size(),
          IsHeader(file) ? kHeaderLinesMax : kSourceLinesMax);
  for (size_t i = 0; i < lines.size(); ++i) {
    measure("line_columns", i + 1, Columns(lines[i]), kColumnsMax);
  }
  for (const LinesOfFunction& function : FindFunctions(file)) {
    measure("function_lines", function.first_line, function.last_line - function.first_line + 1,
            kFunctionLinesMax);
  }
  return excesses;
}

Findings JudgeSizes(const std::vector<Excess>& excesses, const std::string& exceptions) {
  std::map<std::string, size_t> allowed;
  Findings findings;
  for (const absl::string_view line : absl::StrSplit(exceptions, '\n', absl::SkipWhitespace())) {
    if (absl::StartsWith(line, "#")) continue;
    const std::vector<std::string> parts = absl::StrSplit(line, ' ', absl::SkipEmpty());
    size_t size = 0;
    if (parts.size() != 3 || !absl::SimpleAtoi(parts[2], &size)) {
      findings.push_back(absl::StrCat("exceptions.txt: not \"rule path size\": ", line));
    } else {
      allowed[absl::StrCat(parts[0], " ", parts[1])] = size;
    }
  }
  for (const Excess& excess : excesses) {
    const auto exception = allowed.find(absl::StrCat(excess.rule, " ", excess.path));
    if (exception == allowed.end() || excess.size > exception->second) {
      findings.push_back(excess.finding);
    } else if (excess.size < exception->second) {
      findings.push_back(
          absl::StrCat("exceptions.txt: lower ", exception->first, " to ", excess.size));
    }
    if (exception != allowed.end()) allowed.erase(exception);
  }
  for (const auto& [key, size] : allowed) {
    findings.push_back(absl::StrCat("exceptions.txt: remove ", key, ", which is in bounds now"));
  }
  return findings;
}

Findings CheckCode(const SourceFile& file) {
  Findings findings;
  if (!IsCpp(file)) return findings;
  static const std::regex snake_case("[a-z0-9_]+\\.(h|cc)");
  const std::string name = file.path.substr(file.path.rfind('/') + 1);
  if (!std::regex_match(name, snake_case)) {
    findings.push_back(At(file, 1, "the file name is not snake_case"));
  }
  Forbid(file, file.code, "\\b(sleep_for|sleep_until|SleepFor|usleep|nanosleep|sleep)\\s*\\(",
         "time goes through Clock", findings);
  if (!absl::StartsWith(file.path, "common/cluster/") && !absl::StartsWith(file.path, "tests/")) {
    Forbid(file, file.code, "\\b(getenv|secure_getenv|environ)\\b",
           "the environment is read in common/cluster only", findings);
  }
  Forbid(file, file.code,
         "std::(mutex|shared_mutex|recursive_mutex|condition_variable)\\b|"
         "absl::Mutex\\b",
         "the only lock is common/base/mutex.h", findings);
  if (file.path == "common/base/mutex.h") findings.clear();
  if (IsHeader(file)) {
    if (!absl::StartsWith(file.text, "#pragma once")) {
      findings.push_back(At(file, 1, "a header starts with #pragma once"));
    }
    if (!absl::StartsWith(file.path, "tests/")) CheckClassComments(file, findings);
    CheckInvariantsOf(file, findings);
  }
  return findings;
}

Findings CheckComments(const SourceFile& file) {
  constexpr size_t kMuteLinesMax = 60;
  Findings findings;
  if (!IsCpp(file) || absl::StartsWith(file.path, "tests/")) return findings;
  const std::vector<std::string> lines = absl::StrSplit(file.text, '\n');
  const auto is_comment = [](absl::string_view line) {
    return absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "//");
  };
  if (IsHeader(file)) {
    const auto first = std::find_if(lines.begin() + 1, lines.end(),
                                    [](const std::string& line) { return !line.empty(); });
    if (first != lines.end() && !is_comment(*first)) {
      findings.push_back(At(file, 2, "a header opens with a comment: what its nouns are"));
    }
  } else if (lines.size() > kMuteLinesMax + 1 &&
             std::none_of(lines.begin(), lines.end(), is_comment)) {
    findings.push_back(At(file, 1, "no comment says why, up to where, or by which proof"));
  }
  return findings;
}

Findings CheckPortable(const SourceFile& file) {
  Findings findings;
  const std::string open_end = absl::StrCat("\\b(TO", "DO|FIX", "ME|X", "XX)\\b");
  if (!absl::EndsWith(file.path, ".md")) {
    Forbid(file, file.text, open_end, "open ends belong into an issue", findings);
  }
  Forbid(file, file.text, absl::StrCat("(^|[^\\w.])/wo", "rk/"), "a path of one machine", findings);
  Forbid(file, file.text, absl::StrCat("py", "pi\\.org|pythonho", "sted|proxy\\.gol", "ang"),
         "the host of a package registry", findings);
  return findings;
}

}  // namespace cohort::lint
