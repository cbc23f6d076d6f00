#pragma once

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "worker/data/click_log.h"

namespace cohort {

// Formats `row` as a line of a click log, without the line end.
inline std::string ClickRowText(const ClickRow& row) {
  std::string text = row.click ? "1" : "0";
  for (const auto& value : row.integers) {
    absl::StrAppend(&text, "\t");
    if (value) absl::StrAppend(&text, *value);
  }
  for (const auto& value : row.categories) {
    absl::StrAppend(&text, "\t");
    if (value) absl::StrAppendFormat(&text, "%08x", *value);
  }
  return text;
}

}  // namespace cohort
