#pragma once

// The rules, one function each. Sizes are measured first and judged with the exceptions later.

#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/lint/source_tree.h"

namespace cohort::lint {

// Something that is larger than its rule allows: "file_lines", "line_columns" or "function_lines".
struct Excess {
  std::string rule;
  std::string path;
  size_t size = 0;  // the largest of the file
  std::string finding;
};

struct LinesOfFunction {
  size_t first_line = 0;
  size_t last_line = 0;
};

// Returns the functions that are defined in the file, in their order.
std::vector<LinesOfFunction> FindFunctions(const SourceFile& file);

// Rule 1 of STYLE.md: .cc 600 lines, .h 300 without comments and blank lines, function 60, line 100
// columns.
std::vector<Excess> MeasureSizes(const SourceFile& file);

// Judges by lines "rule path size" of the exceptions file. An exception that is larger than what it
// excuses is a finding too, so that the list can only shrink.
Findings JudgeSizes(const std::vector<Excess>& excesses, const std::string& exceptions);

// Sleeps, environment reads, open ends, #pragma once, file names, class comments.
Findings CheckCode(const SourceFile& file);
// Rule 24 of STYLE.md: a header of the product opens with a comment. Rule 25: a source of more than
// 60 lines has one.
Findings CheckComments(const SourceFile& file);
// Rule 11 of STYLE.md: each public method of a class with CheckInvariants that changes the object
// and is defined in a source has InvariantsAfter.
Findings CheckInvariantsAfter(const std::vector<SourceFile>& files);
// Rule 1 of STYLE.md: a class has one source, or is a service by verb. Exceptions are named beside
// the rule.
Findings CheckSourcesOfClasses(const std::vector<SourceFile>& files);
// A type that others can name is defined once in the product: all of it is one namespace.
Findings CheckTypeNames(const std::vector<SourceFile>& files);
// Paths of one machine and hosts of package registries, in any text file.
Findings CheckPortable(const SourceFile& file);
// The arrows of docs/architecture.svg.
Findings CheckIncludes(const SourceFile& file);
// Headers that programs do not see, because each shows much of what stands behind the API.
const std::set<std::string>& BehindTheApi();
// The headers that coordinator/api/cohort.h reaches: none of those above is among them.
Findings CheckApi(const std::vector<SourceFile>& files);
// Paths between backticks in documents: each is a file, with or without its ending, or a folder.
Findings CheckQuotedPaths(const std::vector<SourceFile>& files);
// Types and tests between backticks in the documents of these paths, by each word of their names.
Findings CheckQuotedNames(const std::set<std::string>& documents,
                          const std::vector<SourceFile>& files);
// The indexes of docs/DECISIONS.md: each part lists its decisions, and the first one the parts,
// with how many decisions they have.
Findings CheckDecisions(const SourceFile& decisions);
// The tables of requirements and of tests in docs/COMPATIBILITY.md, against the list of ids and the
// tests that exist.
Findings CheckCompatibility(const std::string& table, const std::string& ids,
                            const std::vector<SourceFile>& files);

}  // namespace cohort::lint
