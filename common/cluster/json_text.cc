#include "common/cluster/json_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"

namespace cohort {

namespace {

using Json = nlohmann::json;

// Returns the error text of the JSON parser with a shorter "last read" part. In this part, the
// parser quotes the token that it could not read, which may be most of the file.
std::string ShortLastRead(const std::string& text) {
  const std::string last_read = "last read: '";
  const size_t found = text.find(last_read);
  const size_t end = text.rfind('\'');
  if (found == std::string::npos || end < found + last_read.size()) return text;
  const size_t begin = found + last_read.size();
  return absl::StrCat(text.substr(0, begin), Excerpt(text.substr(begin, end - begin)),
                      text.substr(end));
}

// The checker that receives the JSON parser's events and finds repeated keys, too many levels and
// the first syntax error. Thread-compatible.
class JsonChecker final : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Value(); }
  bool boolean(bool) override { return Value(); }
  bool number_integer(number_integer_t) override { return Value(); }
  bool number_unsigned(number_unsigned_t) override { return Value(); }
  bool number_float(number_float_t, const string_t&) override { return Value(); }
  bool string(string_t&) override { return Value(); }
  bool binary(binary_t&) override { return Value(); }

  bool start_object(size_t) override { return Open(false); }
  bool start_array(size_t) override { return Open(true); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    level.key = name;
    // JsonChecker reports all repeated keys together, so a repeated key does not stop the parser.
    if (!level.keys.insert(name).second) repeated_.push_back(absl::StrCat(Path(), ": given twice"));
    return true;
  }

  bool parse_error(size_t position, const std::string&, const Json::exception& error) override {
    error_position_ = position;
    // The text of the parser's exception has the form "[json.exception.x.n] parse error at line l,
    // column c: what is wrong".
    const std::string text = error.what();
    const size_t start = text.find(absl::StrContains(text, "column ") ? ": " : "] ");
    error_text_ = ShortLastRead(start == std::string::npos ? text : text.substr(start + 2));
    return false;
  }

  bool too_deep() const { return too_deep_; }
  size_t error_position() const { return error_position_; }
  const std::string& error_text() const { return error_text_; }
  const std::vector<std::string>& repeated() const { return repeated_; }

 private:
  // An object or array that contains the current value, on the way from the root of the JSON text.
  struct Level {
    bool is_array = false;
    size_t next_index = 0;
    std::string key;
    std::set<std::string> keys;
  };

  bool Value() {
    // `next_index` is read only for arrays. Counting the values of objects as well does no harm.
    if (!levels_.empty()) ++levels_.back().next_index;
    return true;
  }
  bool Open(bool is_array) {
    too_deep_ = levels_.size() >= static_cast<size_t>(kJsonDepthMax);
    if (too_deep_) return false;
    levels_.emplace_back();
    levels_.back().is_array = is_array;
    return true;
  }
  bool Close() {
    levels_.pop_back();
    return Value();
  }
  // Returns the JSON path of the current value, such as "cluster.worker[1]".
  std::string Path() const {
    std::string path;
    for (const Level& level : levels_) {
      if (level.is_array) {
        absl::StrAppend(&path, "[", level.next_index, "]");
      } else {
        absl::StrAppend(&path, path.empty() ? "" : ".", Excerpt(level.key));
      }
    }
    return path;
  }

  std::vector<Level> levels_;
  std::vector<std::string> repeated_;
  bool too_deep_ = false;
  size_t error_position_ = 0;
  std::string error_text_;
};

// Returns the line and the column of the byte at `position`. The first byte of `text` has the
// position 1.
std::string LineAndColumn(absl::string_view text, size_t position) {
  const absl::string_view before = text.substr(0, position == 0 ? 0 : position - 1);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t newline = before.rfind('\n');
  const size_t column = before.size() - (newline == absl::string_view::npos ? 0 : newline + 1) + 1;
  return absl::StrCat("line ", line, ", column ", column);
}

}  // namespace

absl::StatusOr<nlohmann::json> ParseJsonText(absl::string_view text) {
  JsonChecker checker;
  const bool parsed = Json::sax_parse(text.begin(), text.end(), &checker);
  // sax_parse also returns false for a text with too many levels. So the number of levels is
  // checked before a syntax error is reported.
  if (checker.too_deep()) {
    return absl::InvalidArgumentError(
        absl::StrCat("not valid JSON: more than ", kJsonDepthMax, " levels deep"));
  }
  if (!parsed) {
    return absl::InvalidArgumentError(absl::StrCat("not valid JSON at ",
                                                   LineAndColumn(text, checker.error_position()),
                                                   ": ", checker.error_text()));
  }
  if (!checker.repeated().empty()) {
    return absl::InvalidArgumentError(absl::StrJoin(checker.repeated(), "\n"));
  }
  // JsonChecker found no error in the text, so parsing the text a second time cannot fail.
  return Json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
}

std::string JsonLine(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

std::string JsonExcerpt(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  return Excerpt(text);
}

}  // namespace cohort
