#pragma once

// The repository as lint sees it: every text file below the fixed top-level entries, read once.
// A rule is a pure function from files to findings "path:line: what is wrong".

#include <string>
#include <vector>

namespace cohort::lint {

struct SourceFile {
  std::string path;  // from the root of the repository, such as "common/base/log.h"
  std::string text;
  std::string code;  // text with comments, literals and preprocessor lines blanked, newlines kept
};

using Findings = std::vector<std::string>;

// Comments, string and character literals and preprocessor lines become spaces.
std::string CodeOnly(const std::string& text);

// A file as it would be read from `path`.
SourceFile MakeFile(std::string path, std::string text);

// All files of the repository at `root`, by path; nothing below folders that tools make.
std::vector<SourceFile> ReadTree(const std::string& root);

// Names in the root folder that the rules do not know.
Findings UnknownTopLevelEntries(const std::string& root);

bool IsCpp(const SourceFile& file);
bool IsHeader(const SourceFile& file);
// "path:line: text"
std::string At(const SourceFile& file, size_t line, const std::string& text);
size_t LineOf(const std::string& text, size_t position);

}  // namespace cohort::lint
