#pragma once

// Text for a terminal, made of the content of files that may be hostile: control characters in a
// name must neither move the cursor nor fake a line, and a long name must not fill the screen.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// Upper bound on a name in a table, a picture or a line of text.
inline constexpr size_t kShownNameMax = 200;

// Returns `text` as printable ASCII of at most `bytes_max` bytes. Other bytes are written as \xNN,
// and a text that is cut ends with "...".
std::string Printable(absl::string_view text, size_t bytes_max);

// Returns `text` with every byte written as \xNN that is neither printable ASCII nor a newline.
std::string PrintableLines(absl::string_view text);

// Returns the number with commas, as Keras shows counts: "1,234,567".
std::string WithCommas(int64_t number);

// Returns a number of bytes as Keras shows it: "48.00 B", "1.50 KB".
std::string SizeText(uint64_t bytes);

// A table of columns that are as wide as their widest cell. A cell may have several lines.
// Thread-compatible.
class TextTable {
 public:
  using Cell = std::vector<std::string>;  // lines

  // Makes a table; columns whose titles end with '#' are aligned to the right.
  explicit TextTable(std::vector<std::string> titles);

  // Adds a row with a cell for each column.
  void Add(std::vector<Cell> row);
  // Returns the table: titles, a line, and the rows, without spaces at the ends of lines.
  std::string ToText() const;

 private:
  void AppendLine(const std::vector<std::string>& cells, std::string& text) const;

  const std::vector<std::string> titles_;
  std::vector<size_t> widths_;
  std::vector<std::vector<Cell>> rows_;
};

}  // namespace cohort
