#pragma once

// Figures of the whole house: the product's C++ files, which are those outside tests and proto. A
// stem is a header with its source; a circle is a set of folders, or of stems, that include one
// another.

#include <string>
#include <vector>

#include "tests/lint/source_tree.h"

namespace cohort::lint {

struct Measures {
  std::vector<std::string> folder_circles;   // each the names of its folders
  std::vector<std::string> pair_circles;     // each the names of its stems
  std::vector<std::string> crowded_folders;  // those with more stems than a reader can keep apart
  size_t median_pair_lines = 0;              // lines of a header and its source together
  size_t comment_blocks = 0;  // that stand on lines of their own, but for those that open a file
  size_t open_with_verb = 0;  // "Returns ...", "Releases ..."
  size_t open_with_fragment = 0;  // "Of ...", "What ...", "Who ...": they lean on the name
  size_t trailing_of = 0;         // comments behind code that begin with "of"
  std::string report;             // the figures, a line each
};

Measures MeasureHouse(const std::vector<SourceFile>& files);

}  // namespace cohort::lint
