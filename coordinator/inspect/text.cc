#include "coordinator/inspect/text.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace cohort {

namespace {

constexpr absl::string_view kCut = "...";
constexpr size_t kColumnGap = 2;

// Appends one byte, as it is if it is printable ASCII.
void AppendByte(unsigned char byte, std::string& text) {
  if (byte < 0x80 && absl::ascii_isprint(byte)) {
    text += static_cast<char>(byte);
  } else {
    absl::StrAppendFormat(&text, "\\x%02x", byte);
  }
}

}  // namespace

std::string Printable(absl::string_view text, size_t bytes_max) {
  std::string shown;
  size_t whole = 0;  // length of the longest beginning behind which kCut has room
  for (const char c : text) {
    if (shown.size() + kCut.size() <= bytes_max) whole = shown.size();
    AppendByte(static_cast<unsigned char>(c), shown);
    if (shown.size() > bytes_max) return absl::StrCat(shown.substr(0, whole), kCut);
  }
  return shown;
}

std::string PrintableLines(absl::string_view text) {
  std::string shown;
  for (const char c : text) {
    if (c == '\n') {
      shown += c;
    } else {
      AppendByte(static_cast<unsigned char>(c), shown);
    }
  }
  return shown;
}

std::string WithCommas(int64_t number) {
  std::string text = absl::StrCat(number);
  const size_t first = number < 0 ? 1 : 0;
  for (size_t end = text.size(); end > first + 3;) {
    end -= 3;
    text.insert(end, ",");
  }
  return text;
}

std::string SizeText(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits = {"B", "KB", "MB", "GB", "TB"};
  auto size = static_cast<double>(bytes);
  size_t unit = 0;
  for (; size >= 1024 && unit + 1 < kUnits.size(); ++unit) size /= 1024;
  return absl::StrFormat("%.2f %s", size, kUnits[unit]);
}

TextTable::TextTable(std::vector<std::string> titles) : titles_(std::move(titles)) {
  for (const std::string& title : titles_) widths_.push_back(title.size());
}

void TextTable::Add(std::vector<Cell> row) {
  row.resize(titles_.size());
  for (size_t i = 0; i < row.size(); ++i) {
    for (const std::string& line : row[i]) widths_[i] = std::max(widths_[i], line.size());
  }
  rows_.push_back(std::move(row));
}

void TextTable::AppendLine(const std::vector<std::string>& cells, std::string& text) const {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    if (i > 0) line.append(kColumnGap, ' ');
    const std::string space(widths_[i] - cells[i].size(), ' ');
    const bool right = absl::EndsWith(titles_[i], "#");
    absl::StrAppend(&line, right ? space : "", cells[i], right ? "" : space);
  }
  absl::StrAppend(&text, absl::StripTrailingAsciiWhitespace(line), "\n");
}

std::string TextTable::ToText() const {
  std::string text;
  AppendLine(titles_, text);
  size_t width = kColumnGap * (titles_.size() - 1);
  for (const size_t column : widths_) width += column;
  absl::StrAppend(&text, std::string(width, '-'), "\n");
  for (const std::vector<Cell>& row : rows_) {
    size_t height = 1;
    for (const Cell& cell : row) height = std::max(height, cell.size());
    for (size_t line = 0; line < height; ++line) {
      std::vector<std::string> cells;
      cells.reserve(row.size());
      for (const Cell& cell : row) cells.push_back(line < cell.size() ? cell[line] : "");
      AppendLine(cells, text);
    }
  }
  return text;
}

}  // namespace cohort
