#include "tests/lint/measures.h"

#include <algorithm>
#include <functional>
#include <map>
#include <regex>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tests/lint/rules.h"

namespace cohort::lint {

namespace {

constexpr size_t kStemsMax = 30;

using Graph = std::map<std::string, std::set<std::string>>;

bool IsProduct(const SourceFile& file) {
  if (!IsCpp(file)) return false;
  for (const char* const top : {"common/", "coordinator/", "ps_server/", "worker/"}) {
    if (absl::StartsWith(file.path, top)) return true;
  }
  return false;
}

std::string StemOf(const std::string& path) { return path.substr(0, path.rfind('.')); }
std::string FolderOf(const std::string& path) { return path.substr(0, path.rfind('/')); }

// Finds the sets of nodes that reach one another (Tarjan's strongly connected components).
// Thread-compatible.
class CircleFinder {
 public:
  explicit CircleFinder(const Graph& graph) : graph_(graph) {}

  std::vector<std::string> Find() {
    for (const auto& [node, next] : graph_) {
      if (index_.count(node) == 0) Visit(node);
    }
    std::sort(circles_.begin(), circles_.end());
    return circles_;
  }

 private:
  void Visit(const std::string& node) {
    index_[node] = lowest_[node] = index_.size();
    open_.push_back(node);
    is_open_.insert(node);
    const auto found = graph_.find(node);
    const std::set<std::string> none;
    for (const std::string& next : found == graph_.end() ? none : found->second) {
      if (index_.count(next) == 0) {
        Visit(next);
        lowest_[node] = std::min(lowest_[node], lowest_[next]);
      } else if (is_open_.count(next) > 0) {
        lowest_[node] = std::min(lowest_[node], index_[next]);
      }
    }
    if (lowest_[node] != index_[node]) return;
    std::vector<std::string> circle;
    do {
      circle.push_back(open_.back());
      is_open_.erase(open_.back());
      open_.pop_back();
    } while (circle.back() != node);
    if (circle.size() == 1) return;
    std::sort(circle.begin(), circle.end());
    circles_.push_back(absl::StrJoin(circle, " "));
  }

  const Graph& graph_;
  std::map<std::string, size_t> index_;
  std::map<std::string, size_t> lowest_;
  std::vector<std::string> open_;
  std::set<std::string> is_open_;
  std::vector<std::string> circles_;
};

// Returns who includes whom, by `name` of a path.
Graph IncludesBetween(const std::vector<SourceFile>& files,
                      const std::function<std::string(const std::string&)>& name) {
  static const std::regex include("(^|\n)#include \"([^\"]+)\"");
  std::set<std::string> known;
  for (const SourceFile& file : files) {
    if (IsProduct(file)) known.insert(file.path);
  }
  Graph graph;
  for (const SourceFile& file : files) {
    if (!IsProduct(file)) continue;
    for (auto match = std::sregex_iterator(file.text.begin(), file.text.end(), include);
         match != std::sregex_iterator(); ++match) {
      const std::string other = (*match)[2].str();
      if (known.count(other) > 0 && name(other) != name(file.path)) {
        graph[name(file.path)].insert(name(other));
      }
    }
  }
  return graph;
}

size_t MedianOf(std::vector<size_t> sizes) {
  if (sizes.empty()) return 0;
  std::sort(sizes.begin(), sizes.end());
  return sizes[sizes.size() / 2];
}

// Returns "median / 90th percentile / largest".
std::string Spread(std::vector<size_t> sizes) {
  if (sizes.empty()) return "none";
  std::sort(sizes.begin(), sizes.end());
  return absl::StrCat(sizes[sizes.size() / 2], " / ", sizes[sizes.size() * 9 / 10], " / ",
                      sizes.back());
}

// Returns whether a comment that begins with "of" stands behind code.
bool IsTrailingOf(const std::string& line) {
  static const std::regex trailing(".*\\S.* // [oO]f\\b.*");
  return std::regex_match(line, trailing) &&
         !absl::StartsWith(absl::StripLeadingAsciiWhitespace(line), "//");
}

// Counts comment lines and how blocks of them open. Thread-compatible.
class CommentCounter {
 public:
  void Add(const SourceFile& file, Measures& measures) {
    const std::vector<std::string> lines = absl::StrSplit(file.text, '\n');
    bool within = false;
    for (const std::string& line : lines) {
      const absl::string_view text = absl::StripLeadingAsciiWhitespace(line);
      const bool comment = absl::StartsWith(text, "//");
      if (!text.empty()) ++lines_[IsHeader(file)];
      if (comment) ++comments_[IsHeader(file)];
      if (comment && !within) CountOpening(text, measures);
      within = comment;
      if (IsTrailingOf(line)) ++measures.trailing_of;
    }
  }

  std::string Share(bool header) const {
    const size_t lines = lines_[header];
    return lines == 0 ? "none" : absl::StrFormat("%.1f %%", 100.0 * comments_[header] / lines);
  }

 private:
  static void CountOpening(absl::string_view comment, Measures& measures) {
    static const std::regex fragment("//\\s*(Of|What|Who|Where|How|Whether|Which)\\b.*");
    static const std::regex verb("//\\s*[A-Z][a-z]+(s|es)\\b.*");
    // Plurals, and words that only look like verbs.
    static const std::regex noun(
        "//\\s*(Errors|Rows|Keras|Elements|Values|Its|Bytes|Steps|Operators|Variables|This|Slots|"
        "Gradients|Workers|Slices|Sizes|Shapes|Parts|Lines|Gangs|Types|Tensors|Tasks|Servers|Pairs|"
        "Numbers|Messages|Kernels|Intervals|Frames|Files|Always|Windows|Sources|Shards|Replicas|"
        "References|Readers|Progress|Positions|Parameters|Outputs|Loops|Links|Lanes|Inputs|Indices|"
        "Has|Is|Was|Does|As|Handlers|Generations|Convolutions|Codes|Buffers|Batches|Zeros|Weights|"
        "Warnings|Unless|Less|Synchronous|Others|Turns|Tags|Scores|Ranks|Ranges|Programs|"
        "Processors|Prefixes|Plans|Spurious|Replies|Requests|Windows|Options|Names|Checks)\\b.*");
    const std::string text(comment);
    ++measures.comment_blocks;
    if (std::regex_match(text, fragment)) ++measures.open_with_fragment;
    if (std::regex_match(text, verb) && !std::regex_match(text, noun)) ++measures.open_with_verb;
  }

  size_t lines_[2] = {0, 0};     // by whether of headers
  size_t comments_[2] = {0, 0};  // the same
};

}  // namespace

Measures MeasureHouse(const std::vector<SourceFile>& files) {
  Measures measures;
  measures.folder_circles = CircleFinder(IncludesBetween(files, FolderOf)).Find();
  measures.pair_circles = CircleFinder(IncludesBetween(files, StemOf)).Find();
  std::map<std::string, std::set<std::string>> stems;
  std::map<std::string, size_t> pairs;
  std::vector<size_t> headers, sources, functions, pair_sizes;
  CommentCounter comments;
  for (const SourceFile& file : files) {
    if (!IsProduct(file)) continue;
    const size_t lines = LineOf(file.text, file.text.size()) - 1;
    (IsHeader(file) ? headers : sources).push_back(lines);
    pairs[StemOf(file.path)] += lines;
    stems[FolderOf(file.path)].insert(StemOf(file.path));
    for (const LinesOfFunction& function : FindFunctions(file)) {
      functions.push_back(function.last_line - function.first_line + 1);
    }
    comments.Add(file, measures);
  }
  for (const auto& [stem, lines] : pairs) pair_sizes.push_back(lines);
  measures.median_pair_lines = MedianOf(pair_sizes);
  std::string crowd;
  for (const auto& [folder, names] : stems) {
    absl::StrAppend(&crowd, " ", folder, " ", names.size());
    if (names.size() <= kStemsMax || absl::StrContains(folder, "/kernels/")) continue;
    measures.crowded_folders.push_back(
        absl::StrCat(folder, ": ", names.size(), " stems, over ", kStemsMax));
  }
  const auto share = [&](size_t count) {
    return absl::StrFormat(
        "%.1f %%", measures.comment_blocks == 0 ? 0.0 : 100.0 * count / measures.comment_blocks);
  };
  measures.report = absl::StrCat(
      "product files: ", headers.size() + sources.size(), "\n",
      "lines of headers, median / p90 / max: ", Spread(headers), "\n",
      "lines of sources: ", Spread(sources), "\n", "lines of pairs: ", Spread(pair_sizes), "\n",
      "lines of functions: ", Spread(functions), "\n",
      "comments in headers: ", comments.Share(true), ", in sources: ", comments.Share(false), "\n",
      "comment blocks: ", measures.comment_blocks,
      ", opening with a verb: ", share(measures.open_with_verb),
      ", with a fragment: ", share(measures.open_with_fragment),
      ", trailing \"of\": ", measures.trailing_of, "\n",
      "circles of folders: ", measures.folder_circles.size(),
      ", of pairs: ", measures.pair_circles.size(), "\n  ",
      absl::StrJoin(measures.pair_circles, "\n  "), "\n", "stems per folder:", crowd, "\n");
  return measures;
}

}  // namespace cohort::lint
