#include "coordinator/inspect/model_plot.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "coordinator/inspect/model_summary.h"
#include "coordinator/inspect/text.h"

namespace cohort {

namespace {

// Measures in pixels.
constexpr int kCharacterWidth = 8;
constexpr int kBoxHeight = 44;
constexpr int kRowHeight = 84;
constexpr int kBendWidth = 12;
constexpr int kGap = 24;
constexpr int kMargin = 20;
constexpr size_t kTextMax = 60;  // characters of a line in a box
constexpr int kSweeps = 4;       // how often the rows are put in order

// A box or a bend of an arrow. Bends have no text.
struct Spot {
  size_t row = 0;
  std::string title, subtitle;
  std::vector<size_t> above;  // spots from which a line leads here
  int width = kBendWidth;
  int x = 0;  // left end
  bool is_box = true;

  int center() const { return x + width / 2; }
  int top() const { return kMargin + static_cast<int>(row) * kRowHeight; }
  int bottom() const { return top() + kBoxHeight; }
};

std::string XmlText(absl::string_view text) {
  return absl::StrReplaceAll(Printable(text, kTextMax),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// The picture while it is laid out. Lives for one ModelPlot. Thread-compatible.
class Plot {
 public:
  Plot(const ModelSpec& model, const ModelShapes& shapes) {
    // Box 0 is the input that no InputLayer stands for. It is drawn only if something reads it.
    AddBox("(input)", "?");
    for (size_t i = 0; i < model.calls.size(); ++i) {
      const LayerSpec& layer = model.layers[model.calls[i].layer];
      AddBox(absl::StrCat(layer.name, " (", layer.type->name, ")"), OutputText(shapes, i));
      Connect(model.calls[i]);
    }
    AddBends();
    MakeRows();
    for (int sweep = 0; sweep < kSweeps; ++sweep) SortRows();
    PlaceRows();
  }

  std::string ToSvg() const {
    int height = kMargin;
    for (const Spot& spot : spots_) height = std::max(height, spot.bottom() + kMargin);
    std::string svg = absl::StrCat(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"", width_, "\" height=\"", height,
        "\" viewBox=\"0 0 ", width_, " ", height, "\">\n",
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" "
        "markerHeight=\"8\" orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n",
        "<g font-family=\"monospace\" font-size=\"13\" text-anchor=\"middle\">\n");
    for (const Spot& spot : spots_) AppendSpot(spot, svg);
    return absl::StrCat(svg, "</g>\n</svg>\n");
  }

 private:
  void AddBox(const std::string& title, const std::string& subtitle) {
    Spot spot;
    spot.title = XmlText(title);
    spot.subtitle = XmlText(subtitle);
    const size_t characters =
        std::max(Printable(title, kTextMax).size(), Printable(subtitle, kTextMax).size());
    spot.width = static_cast<int>(characters) * kCharacterWidth + 2 * kBendWidth;
    spots_.push_back(std::move(spot));
  }

  // Connects the last box with those that give its inputs, and puts it below them.
  void Connect(const LayerCall& call) {
    Spot& box = spots_.back();
    std::set<size_t> above;
    for (const CallInput& input : call.inputs) {
      const bool is_model_input = input.tensor.call == TensorRef::kModelInput;
      above.insert(is_model_input ? 0 : input.tensor.call + 1);
    }
    reads_model_input_ = reads_model_input_ || above.contains(0);
    for (const size_t one : above) box.row = std::max(box.row, spots_[one].row + 1);
    box.above.assign(above.begin(), above.end());
  }

  // Adds bends to arrows that pass rows.
  void AddBends() {
    const size_t boxes = spots_.size();
    // Arrows from one box share their bends.
    std::map<std::pair<size_t, size_t>, size_t> bends;  // by box and row
    for (size_t i = 0; i < boxes; ++i) {
      for (size_t k = 0; k < spots_[i].above.size(); ++k) {
        const size_t from = spots_[i].above[k];
        size_t last = from;
        for (size_t row = spots_[from].row + 1; row < spots_[i].row; ++row) {
          const auto [bend, is_new] = bends.try_emplace({from, row}, spots_.size());
          if (is_new && bends.size() > kBendsMax) {
            bends.erase(bend);
            break;
          }
          if (is_new) AddBend(row, last);
          last = bend->second;
        }
        spots_[i].above[k] = last;
      }
    }
  }

  void AddBend(size_t row, size_t above) {
    Spot spot;
    spot.row = row;
    spot.above = {above};
    spot.is_box = false;
    spots_.push_back(std::move(spot));
  }

  void MakeRows() {
    for (size_t i = reads_model_input_ ? 0 : 1; i < spots_.size(); ++i) {
      if (rows_.size() <= spots_[i].row) rows_.resize(spots_[i].row + 1);
      rows_[spots_[i].row].push_back(i);
    }
  }

  // Puts each row in the order of the places from which its lines come.
  void SortRows() {
    std::vector<double> place(spots_.size(), 0);
    for (std::vector<size_t>& row : rows_) {
      for (size_t i = 0; i < row.size(); ++i) {
        const std::vector<size_t>& above = spots_[row[i]].above;
        double sum = 0;
        for (const size_t one : above) sum += place[one];
        place[row[i]] = above.empty() ? static_cast<double>(i) / static_cast<double>(row.size())
                                      : sum / static_cast<double>(above.size());
      }
      std::stable_sort(row.begin(), row.end(),
                       [&](size_t a, size_t b) { return place[a] < place[b]; });
      for (size_t i = 0; i < row.size(); ++i) {
        place[row[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(row.size());
      }
    }
  }

  // Gives each spot its place: the rows are centered.
  void PlaceRows() {
    std::vector<int> widths;
    for (const std::vector<size_t>& row : rows_) {
      int width = 2 * kMargin - kGap;
      for (const size_t spot : row) width += spots_[spot].width + kGap;
      widths.push_back(width);
      width_ = std::max(width_, width);
    }
    for (size_t i = 0; i < rows_.size(); ++i) {
      int x = (width_ - widths[i]) / 2 + kMargin;
      for (const size_t spot : rows_[i]) {
        spots_[spot].x = x;
        x += spots_[spot].width + kGap;
      }
    }
  }

  void AppendSpot(const Spot& spot, std::string& svg) const {
    if (&spot == &spots_[0] && !reads_model_input_) return;
    for (const size_t one : spot.above) {
      const Spot& from = spots_[one];
      absl::StrAppend(&svg, "<path d=\"M", from.center(), ",", from.bottom(), " L", spot.center(),
                      ",", spot.top());
      // A line goes straight down beside the boxes of its row.
      if (!spot.is_box) absl::StrAppend(&svg, " V", spot.top() + kBoxHeight);
      absl::StrAppend(&svg, "\" fill=\"none\" stroke=\"black\"",
                      spot.is_box ? " marker-end=\"url(#arrow)\"" : "", "/>\n");
    }
    if (!spot.is_box) return;
    absl::StrAppend(&svg, "<rect x=\"", spot.x, "\" y=\"", spot.top(), "\" width=\"", spot.width,
                    "\" height=\"", kBoxHeight, "\" fill=\"white\" stroke=\"black\"/>\n");
    AppendText(spot.center(), spot.top() + 18, spot.title, svg);
    AppendText(spot.center(), spot.top() + 36, spot.subtitle, svg);
  }

  static void AppendText(int x, int y, const std::string& text, std::string& svg) {
    absl::StrAppend(&svg, "<text x=\"", x, "\" y=\"", y, "\">", text, "</text>\n");
  }

  std::vector<Spot> spots_;  // first the boxes, box i + 1 for call i, then the bends
  std::vector<std::vector<size_t>> rows_;
  bool reads_model_input_ = false;
  int width_ = 0;
};

}  // namespace

absl::StatusOr<std::string> ModelPlot(const ModelSpec& model, const ModelShapes& shapes) {
  if (model.calls.size() <= kBoxesMax) return Plot(model, shapes).ToSvg();
  return absl::ResourceExhaustedError(absl::StrCat("the model has ", model.calls.size(),
                                                   " calls of layers; a picture may have at most ",
                                                   kBoxesMax));
}

}  // namespace cohort
