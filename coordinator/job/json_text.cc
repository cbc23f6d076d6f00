#include "coordinator/job/json_text.h"

#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

constexpr size_t kExcerptBytesMax = 60;

// Walks the text without keeping values, to find what the DOM parser lets pass. Thread-compatible.
class StrictChecker final : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return Enter(); }
  bool start_array(std::size_t) override { return Enter(); }
  bool end_object() override { return Leave(); }
  bool end_array() override { return Leave(); }
  bool key(string_t& name) override {
    if (levels_.back().insert(name).second) return true;
    error_ = absl::StrCat("key '", name, "' occurs twice in one object; keep one of them");
    return false;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception& e) override {
    // The library begins its texts with "[json.exception.parse_error.101] ".
    const absl::string_view text = e.what();
    const size_t end = absl::StartsWith(text, "[") ? text.find("] ") : absl::string_view::npos;
    error_ = std::string(end == absl::string_view::npos ? text : text.substr(end + 2));
    return false;
  }

  const std::string& error() const { return error_; }

 private:
  bool Enter() {
    levels_.emplace_back();
    if (levels_.size() <= static_cast<size_t>(kJsonDepthMax)) return true;
    error_ = absl::StrCat("nested deeper than ", kJsonDepthMax, " levels");
    return false;
  }
  bool Leave() {
    levels_.pop_back();
    return true;
  }

  std::vector<std::set<std::string>> levels_;  // keys seen in each open object; empty for arrays
  std::string error_;
};

}  // namespace

absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text) {
  StrictChecker checker;
  if (!nlohmann::json::sax_parse(text.begin(), text.end(), &checker)) {
    return absl::InvalidArgumentError(checker.error());
  }
  nlohmann::json value =
      nlohmann::json::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) return absl::InvalidArgumentError("this is not JSON");
  return value;
}

std::string JsonExcerpt(const nlohmann::json& value) {
  std::string text =
      value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
  if (text.size() > kExcerptBytesMax) text = absl::StrCat(text.substr(0, kExcerptBytesMax), "...");
  return text;
}

}  // namespace cohort
