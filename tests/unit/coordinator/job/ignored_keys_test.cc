// docs/JOB_FILE.md lists every key that is accepted and ignored, and every key that is accepted
// with one value only. The sources are compared with these two tables: each call of Ignore,
// OnlyNeutral and OnlyNull belongs to a row, and each key of a row to a call.

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

std::string TextOf(const std::string& path) {
  std::ifstream file(path);
  std::stringstream stream;
  stream << file.rdbuf();
  return stream.str();
}

// The words of which a row's column "Where" has at least one, if the row is about calls in a file.
struct FileWords {
  std::string file;
  std::vector<std::string> words;
};

const std::vector<FileWords>& Files() {
  static const auto* const kFiles = new std::vector<FileWords>({
      {"json/json_reader.cc", {"beside `class_name`"}},
      {"job/schedule_section.cc", {"schedule"}},
      {"job/optimizer_section.cc", {"of an optimizer", "LossScaleOptimizer"}},
      {"job/data_section.cc", {"transform"}},
      {"job/map_section.cc", {"function of columns"}},
      {"job/compile_section.cc", {"of `compile`"}},
      {"network/inbound_node.cc", {"`__keras_tensor__`"}},
      {"network/model_config.cc", {"model"}},
      {"losses/read_loss.cc", {"loss"}},
      {"metrics/read_metrics.cc", {"metric"}},
      {"layers/initializer.cc", {"of an initializer"}},
      {"layers/layer_reader.cc", {"Cropping1D"}},
      {"layers/classes/attention.cc", {"ttention"}},
      {"layers/classes/convolution.cc", {"Conv"}},
      {"layers/classes/core.cc", {"of a Dense", "InputLayer"}},
      {"layers/classes/einsum_dense.cc", {"EinsumDense"}},
      {"layers/classes/embedding.cc", {"mbedding"}},
      {"layers/classes/normalization.cc", {"BatchNormalization"}},
      {"layers/classes/recurrent.cc", {"recurrent"}},
      {"layers/classes/recurrent_cell.cc", {"recurrent"}},
      {"layers/classes/regularization.cc", {"Dropout"}},
      {"layers/classes/resizing.cc", {"Resizing"}},
  });
  return *kFiles;
}

// A key that a source file accepts and does not use. `value` is what the file accepts, as JSON, and
// empty if it accepts anything.
struct Accepted {
  std::string file;
  std::string key;
  std::string value;
};

// Returns the string literals in `text`.
std::vector<std::string> Literals(const std::string& text) {
  static const std::regex literal("\"([^\"]*)\"");
  std::vector<std::string> found;
  for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at) {
    found.push_back((*at)[1]);
  }
  return found;
}

// Returns the JSON of a C++ literal, such as nullptr or int64_t{1}.
std::string JsonOf(const std::string& literal) {
  if (literal == "nullptr") return "null";
  if (literal == "int64_t{1}") return "1";
  return literal;
}

// Returns the keys that the first argument of a call names: a literal, or the variable of the loop
// over literals that stands before the call.
std::vector<std::string> KeysOf(const std::string& argument, const std::string& before) {
  if (argument[0] == '"') return Literals(argument);
  const size_t loop = before.rfind(absl::StrCat("for (const char* ", argument));
  if (loop == std::string::npos) return {};
  return Literals(before.substr(loop, before.find(')', loop) - loop));
}

// Appends what the text of `file` accepts.
void AddAccepted(const std::string& file, const std::string& text, std::vector<Accepted>& all) {
  static const std::regex call(
      R"re((?:\.|->)(Ignore|OnlyNeutral|OnlyNull)\(\s*(\{[^}]*\}|[^,()]+)(?:,\s*([^();]+))?\))re");
  for (std::sregex_iterator at(text.begin(), text.end(), call), end; at != end; ++at) {
    const std::string argument = (*at)[2];
    const std::string before = text.substr(0, at->position());
    const std::vector<std::string> found =
        argument[0] == '{' ? Literals(argument) : KeysOf(argument, before);
    // LayerReader::OnlyNull itself passes on keys that its callers name.
    if (found.empty() && file == "layers/layer_reader.cc") continue;
    EXPECT_FALSE(found.empty()) << file << ": which keys does " << at->str() << " accept?";
    const std::string value = (*at)[1] == "OnlyNull" ? "null" : JsonOf((*at)[3]);
    for (const std::string& key : found) all.push_back({file, key, value});
  }
}

std::vector<Accepted> AllAccepted() {
  const std::string room = COHORT_SOURCE_DIR "/coordinator/";
  std::vector<Accepted> all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(room)) {
    const std::string path = entry.path().string();
    if (!absl::EndsWith(path, ".cc")) continue;
    AddAccepted(path.substr(room.size()), TextOf(path), all);
  }
  return all;
}

// A row of one of the two tables.
struct Row {
  std::set<std::string> keys;
  std::string where;
  std::string value;  // the third column
};

// Returns the rows of the table with this first line.
std::vector<Row> RowsOf(const std::string& header) {
  const std::string text = TextOf(COHORT_SOURCE_DIR "/docs/JOB_FILE.md");
  const size_t begin = text.find(header);
  EXPECT_NE(begin, std::string::npos) << header;
  static const std::regex quoted("`([^`]*)`");
  std::vector<Row> rows;
  const std::vector<std::string> lines = absl::StrSplit(text.substr(begin), "\n");
  for (const std::string& line : lines) {
    if (line.empty()) break;
    const std::vector<std::string> cells = absl::StrSplit(line, '|');
    if (cells.size() < 5) continue;
    Row row{{}, cells[2], cells[3]};
    for (std::sregex_iterator at(cells[1].begin(), cells[1].end(), quoted), end; at != end; ++at) {
      row.keys.insert((*at)[1]);
    }
    if (!row.keys.empty()) rows.push_back(row);
  }
  return rows;
}

// Returns whether the row is about calls in `file`.
bool IsAbout(const Row& row, const std::string& file) {
  const auto found = std::find_if(Files().begin(), Files().end(),
                                  [&](const FileWords& one) { return one.file == file; });
  if (found == Files().end()) return false;
  return std::any_of(found->words.begin(), found->words.end(),
                     [&](const std::string& word) { return absl::StrContains(row.where, word); });
}

// Compares the calls that `is_of_table` takes with the rows, both ways. `read_otherwise` are keys
// of rows that the code checks without such a call.
void Compare(const std::vector<Row>& rows, const std::vector<Accepted>& accepted,
             const std::set<std::string>& read_otherwise) {
  for (const Accepted& one : accepted) {
    const bool is_listed = std::any_of(rows.begin(), rows.end(), [&](const Row& row) {
      return row.keys.contains(one.key) && IsAbout(row, one.file) &&
             absl::StrContains(row.value, one.value);
    });
    EXPECT_TRUE(is_listed) << "no row of docs/JOB_FILE.md says that `" << one.key
                           << "` is accepted "
                           << (one.value.empty() ? "and ignored" : "only as " + one.value)
                           << ", which coordinator/" << one.file << " does";
  }
  for (const Row& row : rows) {
    for (const std::string& key : row.keys) {
      const bool is_done = std::any_of(accepted.begin(), accepted.end(), [&](const Accepted& one) {
        return one.key == key && IsAbout(row, one.file);
      });
      EXPECT_TRUE(is_done || read_otherwise.contains(key))
          << "docs/JOB_FILE.md lists `" << key << "`" << row.where << "that no call accepts so";
    }
  }
}

std::vector<Accepted> Those(bool with_value) {
  std::vector<Accepted> those;
  for (const Accepted& one : AllAccepted()) {
    if (one.value.empty() != with_value) those.push_back(one);
  }
  return those;
}

TEST(IgnoredKeys, TheTableOfIgnoredKeysIsThatOfTheCode) {
  // `training` is an argument of a call, and of an optimizer a loss_scale_factor is compared with
  // 0.
  Compare(RowsOf("| Ignored key | Where |"), Those(false), {"training", "loss_scale_factor"});
}

TEST(IgnoredKeys, TheTableOfKeysWithOneValueIsThatOfTheCode) {
  // The function's name depends on the class.
  Compare(RowsOf("| Key with one value | Where |"), Those(true), {"fn"});
}

}  // namespace
}  // namespace cohort
