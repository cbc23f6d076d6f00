#pragma once

// The part of YAML that deploy/ is written in, read with what a bare Debian has: block mappings and
// sequences, scalars plain, quoted or in JSON's flow form, comments, documents between "---". What
// is outside it fails the test, so the files stay simple.

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"

namespace cohort {

using Yaml = nlohmann::json;

// Thread-compatible.
class YamlReader {
 public:
  explicit YamlReader(absl::string_view text) {
    for (absl::string_view line : absl::StrSplit(text, '\n')) {
      const absl::string_view stripped = absl::StripLeadingAsciiWhitespace(line);
      if (stripped.empty() || stripped[0] == '#') continue;
      lines_.push_back({line.size() - stripped.size(), std::string(stripped)});
    }
  }

  Yaml Read() {
    if (lines_.empty()) return Yaml();
    Yaml node = Node(lines_[0].indent);
    EXPECT_EQ(at_, lines_.size()) << "unexpected: "
                                  << (at_ < lines_.size() ? lines_[at_].text : "");
    return node;
  }

 private:
  struct Line {
    size_t indent;
    std::string text;
  };

  static bool IsItem(const Line& line) { return absl::StartsWith(line.text, "- "); }

  // Where the ':' of "key: value" or "key:" is; npos for a scalar.
  static size_t KeyEnd(const std::string& text) {
    if (text[0] == '"' || text[0] == '\'' || text[0] == '[' || text[0] == '{') {
      return std::string::npos;
    }
    const size_t colon = text.find(": ");
    if (colon != std::string::npos) return colon;
    return text.back() == ':' ? text.size() - 1 : std::string::npos;
  }

  Yaml Node(size_t indent) {
    if (IsItem(lines_[at_])) return Sequence(indent);
    if (KeyEnd(lines_[at_].text) == std::string::npos) return Scalar(lines_[at_++].text);
    return Mapping(indent);
  }

  Yaml Sequence(size_t indent) {
    Yaml items = Yaml::array();
    while (at_ < lines_.size() && lines_[at_].indent == indent && IsItem(lines_[at_])) {
      // The item is a node that begins two columns further in.
      lines_[at_] = {indent + 2, lines_[at_].text.substr(2)};
      items.push_back(Node(indent + 2));
    }
    return items;
  }

  Yaml Mapping(size_t indent) {
    Yaml mapping = Yaml::object();
    while (at_ < lines_.size() && lines_[at_].indent == indent && !IsItem(lines_[at_])) {
      const std::string text = lines_[at_++].text;
      const size_t end = KeyEnd(text);
      if (end == std::string::npos) {
        ADD_FAILURE() << "not a key: " << text;
        return mapping;
      }
      const std::string key = text.substr(0, end);
      EXPECT_FALSE(mapping.contains(key)) << "twice: " << key;
      const std::string value(absl::StripAsciiWhitespace(text.substr(end + 1)));
      const bool nested = at_ < lines_.size() && lines_[at_].indent > indent;
      if (value.empty()) {
        mapping[key] = nested ? Node(lines_[at_].indent) : Yaml();
      } else {
        EXPECT_FALSE(nested) << "value and block: " << text;
        mapping[key] = Scalar(value);
      }
    }
    return mapping;
  }

  static Yaml Scalar(const std::string& text) {
    if (text[0] == '[' || text[0] == '{' || text[0] == '"') {
      Yaml value = Yaml::parse(text, nullptr, false);
      EXPECT_FALSE(value.is_discarded()) << "not JSON: " << text;
      return value;
    }
    if (text[0] == '\'') {
      EXPECT_TRUE(text.size() >= 2 && text.back() == '\'') << text;
      return absl::StrReplaceAll(text.substr(1, text.size() - 2), {{"''", "'"}});
    }
    EXPECT_EQ(std::string("&*|>!%@`").find(text[0]), std::string::npos) << "not read: " << text;
    if (text == "true" || text == "false") return text == "true";
    int64_t number = 0;
    if (absl::SimpleAtoi(text, &number)) return number;
    return text;
  }

  std::vector<Line> lines_;
  size_t at_ = 0;
};

inline std::vector<Yaml> ReadYamlDocuments(absl::string_view text) {
  std::vector<Yaml> documents;
  for (absl::string_view part : absl::StrSplit(text, "\n---\n")) {
    documents.push_back(YamlReader(part).Read());
  }
  return documents;
}

}  // namespace cohort
