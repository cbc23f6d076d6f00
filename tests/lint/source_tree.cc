#include "tests/lint/source_tree.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cohort::lint {

namespace {

namespace fs = std::filesystem;

// The end (one past) of the literal, comment or directive that starts at `i`; `i` when none does.
size_t EndOfBlank(const std::string& text, size_t i) {
  const auto end_at = [&](const std::string& stop, size_t from) {
    const size_t found = text.find(stop, from);
    return found == std::string::npos ? text.size() : found + stop.size();
  };
  if (text.compare(i, 2, "//") == 0) return std::min(text.find('\n', i), text.size());
  if (text.compare(i, 2, "/*") == 0) return end_at("*/", i + 2);
  if (text.compare(i, 2, "R\"") == 0) {
    const size_t open = text.find('(', i);
    if (open == std::string::npos) return text.size();
    return end_at(")" + text.substr(i + 2, open - i - 2) + "\"", open);
  }
  const bool digit_separator = text[i] == '\'' && i > 0 && isxdigit(text[i - 1]) != 0;
  if ((text[i] != '"' && text[i] != '\'') || digit_separator) return i;
  for (size_t j = i + 1; j < text.size(); ++j) {
    if (text[j] == '\\') {
      ++j;
    } else if (text[j] == text[i] || text[j] == '\n') {
      return j + 1;
    }
  }
  return text.size();
}

// One past the newline of a directive, with its continuation lines.
size_t EndOfDirective(const std::string& text, size_t i) {
  while (true) {
    const size_t newline = text.find('\n', i);
    if (newline == std::string::npos) return text.size();
    if (newline == 0 || text[newline - 1] != '\\') return newline;
    i = newline + 1;
  }
}

const std::set<std::string>& KnownTopLevel() {
  static const auto* const names = new std::set<std::string>{"CMakeLists.txt",
                                                             "proto",
                                                             "coordinator",
                                                             "ps_server",
                                                             "worker",
                                                             "common",
                                                             "deploy",
                                                             "tests",
                                                             "docs",
                                                             "README.md",
                                                             "LICENSE",
                                                             "CMakePresets.json",
                                                             ".ci",
                                                             ".clang-format",
                                                             ".git-blame-ignore-revs",
                                                             ".clang-tidy",
                                                             ".gitignore",
                                                             ".gitattributes",
                                                             ".dockerignore",
                                                             ".editorconfig"};
  return *names;
}

// What git, the build and the editors leave in a checkout.
bool IsMadeByTools(const std::string& name) {
  return name == ".git" || name == "build" || name == ".cache" || name == "shared" ||
         name == "__pycache__" || name == ".vscode" || name == ".idea" || name == "Testing";
}

std::string ReadText(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream text;
  text << in.rdbuf();
  return text.str();
}

}  // namespace

std::string CodeOnly(const std::string& text) {
  std::string code = text;
  bool line_start = true;
  for (size_t i = 0; i < text.size();) {
    size_t end = EndOfBlank(text, i);
    if (line_start && text[i] == '#') end = EndOfDirective(text, i);
    if (end == i) {
      line_start = text[i] == '\n' || (line_start && (text[i] == ' ' || text[i] == '\t'));
      ++i;
      continue;
    }
    for (; i < end; ++i) {
      if (text[i] != '\n') code[i] = ' ';
    }
    line_start = end > 0 && text[end - 1] == '\n';
  }
  return code;
}

SourceFile MakeFile(std::string path, std::string text) {
  SourceFile file{std::move(path), std::move(text), ""};
  if (IsCpp(file)) file.code = CodeOnly(file.text);
  return file;
}

std::vector<SourceFile> ReadTree(const std::string& root) {
  std::vector<SourceFile> files;
  for (const std::string& top : KnownTopLevel()) {
    const fs::path start = fs::path(root) / top;
    if (fs::is_regular_file(start)) files.push_back(MakeFile(top, ReadText(start)));
    if (!fs::is_directory(start)) continue;
    for (auto entry = fs::recursive_directory_iterator(start);
         entry != fs::recursive_directory_iterator(); ++entry) {
      if (IsMadeByTools(entry->path().filename().string())) {
        entry.disable_recursion_pending();
      } else if (entry->is_regular_file()) {
        files.push_back(
            MakeFile(fs::relative(entry->path(), root).generic_string(), ReadText(entry->path())));
      }
    }
  }
  std::sort(files.begin(), files.end(),
            [](const SourceFile& a, const SourceFile& b) { return a.path < b.path; });
  return files;
}

Findings UnknownTopLevelEntries(const std::string& root) {
  Findings findings;
  for (const auto& entry : fs::directory_iterator(root)) {
    const std::string name = entry.path().filename().string();
    if (KnownTopLevel().count(name) == 0 && !IsMadeByTools(name)) {
      findings.push_back(absl::StrCat(name, ": is not a top-level entry of ARCHITECTURE.md"));
    }
  }
  std::sort(findings.begin(), findings.end());
  return findings;
}

bool IsHeader(const SourceFile& file) { return absl::EndsWith(file.path, ".h"); }

bool IsCpp(const SourceFile& file) { return IsHeader(file) || absl::EndsWith(file.path, ".cc"); }

std::string At(const SourceFile& file, size_t line, const std::string& text) {
  return absl::StrCat(file.path, ":", line, ": ", text);
}

size_t LineOf(const std::string& text, size_t position) {
  return 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + position, '\n'));
}

}  // namespace cohort::lint
