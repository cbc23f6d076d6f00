// Documents name what is there: paths, types and tests.

#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

struct Quote {
  std::string text;
  size_t line = 0;
};

// Returns what stands between two backticks of one line.
std::vector<Quote> QuotesOf(const SourceFile& document) {
  std::vector<Quote> quotes;
  size_t line = 0;
  for (const absl::string_view text : absl::StrSplit(document.text, '\n')) {
    ++line;
    const std::vector<std::string> parts = absl::StrSplit(text, '`');
    for (size_t i = 1; i + 1 < parts.size(); i += 2) quotes.push_back({parts[i], line});
  }
  return quotes;
}

// Paths of files, of files without their ending, and of folders.
std::set<std::string> PathsOf(const std::vector<SourceFile>& files) {
  std::set<std::string> paths;
  for (const SourceFile& file : files) {
    paths.insert(file.path);
    paths.insert(file.path.substr(0, file.path.rfind('.')));
    for (size_t end = file.path.rfind('/'); end != std::string::npos && end > 0;
         end = file.path.rfind('/', end - 1)) {
      paths.insert(file.path.substr(0, end));
    }
  }
  return paths;
}

std::set<std::string> WordsOf(const std::vector<SourceFile>& files) {
  std::set<std::string> words;
  for (const SourceFile& file : files) {
    if (!IsCpp(file) && !absl::EndsWith(file.path, ".proto")) continue;
    for (size_t begin = 0, end = 0; begin < file.text.size(); begin = end + 1) {
      const auto in_word = [&](size_t at) {
        return at < file.text.size() &&
               (absl::ascii_isalnum(static_cast<unsigned char>(file.text[at])) ||
                file.text[at] == '_');
      };
      for (end = begin; in_word(end);) ++end;
      if (end > begin) words.insert(file.text.substr(begin, end - begin));
    }
  }
  return words;
}

// Returns the anchor that a heading has in rendered Markdown.
std::string AnchorOf(absl::string_view heading) {
  std::string anchor;
  for (const char c : absl::AsciiStrToLower(heading)) {
    const bool kept = absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_';
    if (kept) anchor.push_back(c);
    if (c == ' ') anchor.push_back('-');
  }
  return anchor;
}

// A part of docs/DECISIONS.md: its heading, the lines of its index, and its decisions.
struct Room {
  std::string heading;
  size_t line = 0;
  std::vector<std::string> index;
  std::vector<std::string> decisions;  // the lines that the index should have
};

// The first room is what stands above the first part: its index is that of the parts.
std::vector<Room> RoomsOf(const SourceFile& decisions) {
  std::vector<Room> rooms(1);
  size_t line = 0;
  for (const absl::string_view text : absl::StrSplit(decisions.text, '\n')) {
    ++line;
    if (absl::StartsWith(text, "# ") && line > 1) {
      rooms.push_back({std::string(text.substr(2)), line, {}, {}});
    } else if (absl::StartsWith(text, "## ")) {
      const std::string heading(text.substr(3));
      rooms.back().decisions.push_back(absl::StrCat("- [", heading, "](#", AnchorOf(heading), ")"));
    } else if (absl::StartsWith(text, "- [")) {
      rooms.back().index.emplace_back(text);
    }
  }
  return rooms;
}

}  // namespace

Findings CheckDecisions(const SourceFile& decisions) {
  const std::vector<Room> rooms = RoomsOf(decisions);
  Findings findings;
  for (size_t i = 1; i < rooms.size(); ++i) {
    const Room& room = rooms[i];
    if (room.index != room.decisions) {
      findings.push_back(At(decisions, room.line,
                            absl::StrCat("the index of '", room.heading,
                                         "' does not list its decisions, in their order")));
    }
    const std::string begin = absl::StrCat("- [", room.heading, "](#", AnchorOf(room.heading), ")");
    const std::string end = absl::StrCat(": ", room.decisions.size());
    const std::vector<std::string>& counts = rooms.front().index;
    if (i > counts.size() || !absl::StartsWith(counts[i - 1], begin) ||
        !absl::EndsWith(counts[i - 1], end)) {
      findings.push_back(
          At(decisions, room.line,
             absl::StrCat("line ", i, " of the first index is not '", begin, " ...", end, "'")));
    }
  }
  return findings;
}

Findings CheckQuotedPaths(const std::vector<SourceFile>& files) {
  static const std::regex path(
      "(common|coordinator|deploy|docs|proto|ps_server|tests|worker)/[\\w./-]+");
  const std::set<std::string> paths = PathsOf(files);
  Findings findings;
  for (const SourceFile& file : files) {
    if (!absl::EndsWith(file.path, ".md")) continue;
    for (const Quote& quote : QuotesOf(file)) {
      std::string named = quote.text;
      if (!std::regex_match(named, path)) continue;
      if (absl::EndsWith(named, "/")) named.pop_back();
      if (paths.count(named) > 0) continue;
      findings.push_back(At(file, quote.line, "there is no " + quote.text));
    }
  }
  return findings;
}

Findings CheckQuotedNames(const std::set<std::string>& documents,
                          const std::vector<SourceFile>& files) {
  // The name has at least two humps: a type, its member, or a test, perhaps with a star for many.
  static const std::regex name("[A-Z][a-z0-9]+[A-Z]\\w*((::|\\.)[A-Z]\\w*|\\.\\*)*");
  const std::set<std::string> words = WordsOf(files);
  Findings findings;
  for (const SourceFile& file : files) {
    if (documents.count(file.path) == 0) continue;
    for (const Quote& quote : QuotesOf(file)) {
      if (!std::regex_match(quote.text, name)) continue;
      for (const absl::string_view part :
           absl::StrSplit(quote.text, absl::ByAnyChar(":.*"), absl::SkipEmpty())) {
        if (words.count(std::string(part)) > 0) continue;
        findings.push_back(
            At(file, quote.line, absl::StrCat("nothing is called ", part, ", of ", quote.text)));
      }
    }
  }
  return findings;
}

}  // namespace cohort::lint
