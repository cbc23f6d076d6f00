#include "common/runtime/kernels/cpu/recurrent_walk.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/runtime/kernels/cpu/image_loops.h"
#include "common/runtime/kernels/cpu/recurrent_loops.h"

namespace cohort {

namespace {

// The number of rows whose sums are kept in float32 before they are added to sums in double.
constexpr int64_t kRowsPerSum = 64;

void CopyRow(const float* from, int64_t count, float* to) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// Base of both ways through a direction: where the rows of a step are. Thread-compatible.
class Walk {
 public:
  explicit Walk(const DirectionLayer& layer)
      : layer_(layer),
        shape_(layer.shape),
        size_(layer.shape.hidden),
        gates_(layer.shape.gates * layer.shape.hidden),
        zeros_(static_cast<size_t>(layer.shape.hidden), 0.0f) {}

 protected:
  bool lstm() const { return layer_.cell == RecurrentCell::kLstm; }
  bool gru() const { return layer_.cell == RecurrentCell::kGru; }
  bool linear() const { return layer_.linear_before_reset; }
  // Returns the number of rows of r whose product with the state enters gates as it is.
  int64_t PlainRows() const { return gru() ? 2 * size_ : gates_; }
  // Returns the rows of r of a GRU's gate h.
  const float* ResetWeights() const { return layer_.r + 2 * size_ * size_; }

  // Returns the part of the saved rows of a step, or of a state before the first step.
  template <typename T>
  auto SavedRows(T* saved, int64_t t, int64_t part) const {
    return saved + t * shape_.batch * layer_.pitch() + part;
  }
  // Returns the rows of a state before step number `number`.
  RowsOf Before(const float* saved, int64_t number, int64_t part, const RowsOf& initial) const {
    if (number == 0) return initial;
    return {SavedRows(saved, layer_.Step(number - 1), part), layer_.pitch()};
  }
  RowsOf CellsBefore(const float* saved, int64_t number) const {
    if (!lstm()) return {nullptr, 0};
    return Before(saved, number, shape_.CPart(), layer_.initial_c);
  }
  const float* RowOr(const RowsOf& rows, int64_t n) const {
    return rows.data == nullptr ? zeros_.data() : rows.Row(n);
  }

  const DirectionLayer& layer_;
  const RecurrentShape& shape_;
  const int64_t size_;   // numbers of a state
  const int64_t gates_;  // numbers of all gates of an example
  const std::vector<float> zeros_;
};

// The way forward. Thread-compatible.
class ForwardWalk : public Walk {
 public:
  ForwardWalk(const DirectionLayer& layer, const DirectionOutputs& out)
      : Walk(layer),
        out_(out),
        bias_(layer.b == nullptr ? 0 : static_cast<size_t>(gates_)),
        reset_(layer.scratch, gru() ? shape_.batch * size_ : 0),
        turned_(layer.scratch, gates_ * size_),
        seen_(static_cast<size_t>(shape_.batch), false) {
    // The recurrent bias of a reset gate's term is not one of the gate.
    for (size_t i = 0; i < bias_.size(); ++i) {
      const bool of_term = linear() && static_cast<int64_t>(i) >= 2 * size_;
      bias_[i] = layer.b[i] + (of_term ? 0 : layer.b[bias_.size() + i]);
    }
  }

  void Run() {
    // One r as oneDNN wants it for all steps.
    TurnLoop({layer_.r, size_, turned_.data(), gates_, size_, gates_});
    // The input's part of the gates of all steps.
    Gemm({layer_.rows(), gates_, shape_.inputs}, {layer_.x.data, layer_.x.stride},
         {layer_.w, shape_.inputs, true}, {out_.saved, layer_.pitch()}, {}, layer_.products);
    for (int64_t number = 0; number < shape_.steps; ++number) RunStep(number);
    const int64_t last = layer_.Step(shape_.steps - 1);
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const int64_t to = shape_.State(n, layer_.direction);
      const auto put = [&](float* out, int64_t part) {
        if (out == nullptr) return;
        CopyRow(SavedRows(out_.saved, last, part) + n * layer_.pitch(), size_, out + to);
      };
      put(out_.h, shape_.HPart());
      if (lstm()) put(out_.c, shape_.CPart());
    }
  }

 private:
  GemmFactor TurnedResetWeights() const { return {turned_.data() + 2 * size_, gates_}; }
  const float* Bias(int64_t first) const { return bias_.empty() ? nullptr : bias_.data() + first; }

  void RunStep(int64_t number) {
    const int64_t t = layer_.Step(number);
    const RowsOf h = Before(out_.saved, number, shape_.HPart(), layer_.initial_h);
    const RowsOf c = CellsBefore(out_.saved, number);
    const MutableRows gates = {SavedRows(out_.saved, t, 0), layer_.pitch()};
    if (h.data != nullptr) {
      Gemm({shape_.batch, PlainRows(), size_}, {h.data, h.stride}, {turned_.data(), gates_},
           {gates.data, gates.stride}, {1, 1}, layer_.products);
    }
    if (gru()) {
      RunGru(t, h, gates);
    } else {
      for (int64_t n = 0; n < shape_.batch; ++n) {
        float* const row = gates.Row(n);
        lstm() ? RunLstm(row, RowOr(c, n)) : ApplyGate(layer_.gates[0], Bias(0), {row, size_});
      }
    }
    for (int64_t n = 0; n < shape_.batch; ++n) Finish(t, n, RowOr(h, n), RowOr(c, n));
  }

  void RunLstm(float* row, const float* before) {
    ApplyGate(layer_.gates[0], Bias(0), {row, 3 * size_});
    ApplyGate(layer_.gates[1], Bias(3 * size_), {row + 3 * size_, size_});
    LstmStep(layer_.gates[2], {row, before, row + shape_.CPart(), row + shape_.HPart()}, size_);
  }

  void RunGru(int64_t t, const RowsOf& h, const MutableRows& gates) {
    const MutableRows reset = {reset_.data(), size_};
    for (int64_t n = 0; n < shape_.batch; ++n) {
      ApplyGate(layer_.gates[0], Bias(0), {gates.Row(n), 2 * size_});
    }
    if (linear()) {
      AddTerm(t, h, gates);
    } else if (h.data != nullptr) {
      for (int64_t n = 0; n < shape_.batch; ++n) {
        MultiplyRow(gates.Row(n) + size_, h.Row(n), {reset.Row(n), size_});
      }
      Gemm({shape_.batch, size_, size_}, {reset.data, reset.stride}, TurnedResetWeights(),
           {gates.data + 2 * size_, gates.stride}, {1, 1}, layer_.products);
    }
    for (int64_t n = 0; n < shape_.batch; ++n) {
      float* const row = gates.Row(n);
      ApplyGate(layer_.gates[1], Bias(2 * size_), {row + 2 * size_, size_});
      GruStep({row, RowOr(h, n), row + shape_.HPart()}, size_);
    }
  }

  // Computes the term that the reset gate multiplies, and adds the product to the gate.
  void AddTerm(int64_t t, const RowsOf& h, const MutableRows& gates) {
    const MutableRows term = {SavedRows(out_.saved, t, shape_.TermPart()), layer_.pitch()};
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const float* const bias = layer_.b == nullptr ? zeros_.data() : layer_.b + 5 * size_;
      CopyRow(bias, size_, term.Row(n));
    }
    if (h.data != nullptr) {
      Gemm({shape_.batch, size_, size_}, {h.data, h.stride}, TurnedResetWeights(),
           {term.data, term.stride}, {1, 1}, layer_.products);
    }
    for (int64_t n = 0; n < shape_.batch; ++n) {
      float* const row = gates.Row(n);
      AddProductRow(row + size_, term.Row(n), {row + 2 * size_, size_});
    }
  }

  // Puts the states back where the step does not count, and writes the output.
  void Finish(int64_t t, int64_t n, const float* h, const float* c) {
    float* const row = SavedRows(out_.saved, t, 0) + n * layer_.pitch();
    const bool counts = layer_.mask.Counts(t, n);
    const auto at = static_cast<size_t>(n);
    seen_[at] = seen_[at] || counts;
    if (!counts) {
      std::fill_n(row, shape_.HPart(), 0.0f);
      if (lstm()) CopyRow(c, size_, row + shape_.CPart());
      CopyRow(h, size_, row + shape_.HPart());
    }
    if (out_.y == nullptr) return;
    const bool shows = counts || (seen_[at] && !layer_.mask.gives_zeros());
    CopyRow(shows ? row + shape_.HPart() : zeros_.data(), size_,
            out_.y + shape_.Y(layer_.OutputStep(t), n, layer_.direction));
  }

  const DirectionOutputs& out_;
  std::vector<float> bias_;
  const ScratchFloats reset_;   // a GRU's r * h of each example
  const ScratchFloats turned_;  // r with its rows as columns
  std::vector<bool> seen_;      // whether a step of the example has counted
};

// The way back. Thread-compatible.
class BackwardWalk : public Walk {
 public:
  BackwardWalk(const DirectionLayer& layer, const float* saved, const OutputGradients& dy,
               const InputGradients& out)
      : Walk(layer),
        saved_(saved),
        dy_(dy),
        out_(out),
        dz_(layer.scratch, layer.rows() * gates_),
        dterm_(layer.scratch, gru() ? layer.rows() * size_ : 0),
        reset_(layer.scratch, gru() && !linear() ? layer.rows() * size_ : 0),
        dh_(Numbers(shape_.batch * size_)),
        dc_(Numbers(lstm() ? shape_.batch * size_ : 0)),
        scratch_(Numbers(2 * size_)),
        first_(static_cast<size_t>(shape_.batch), shape_.steps) {}

  void Run() {
    Begin();
    for (int64_t number = shape_.steps - 1; number >= 0; --number) RunStep(number);
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const int64_t to = shape_.State(n, layer_.direction);
      if (out_.h != nullptr) CopyRow(dh_.data() + n * size_, size_, out_.h + to);
      if (out_.c != nullptr) CopyRow(dc_.data() + n * size_, size_, out_.c + to);
    }
    const GemmFactor dz = {dz_.data(), gates_};
    if (out_.x != nullptr) {
      Gemm({layer_.rows(), shape_.inputs, gates_}, dz, {layer_.w, shape_.inputs},
           {out_.x, shape_.inputs}, {1, out_.first ? 0.0f : 1.0f}, layer_.products);
    }
    if (out_.w != nullptr) {
      Gemm({gates_, shape_.inputs, layer_.rows()}, {dz.data, dz.stride, true},
           {layer_.x.data, layer_.x.stride}, {out_.w, shape_.inputs}, {}, layer_.products);
    }
    if (out_.r != nullptr) SetRecurrentWeights();
    if (out_.b != nullptr) SetBias();
  }

 private:
  static std::vector<float> Numbers(int64_t count) {
    return std::vector<float>(static_cast<size_t>(count), 0.0f);
  }

  // Reads the gradients of the last states, and finds the first step of each example that counts.
  void Begin() {
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const int64_t from = shape_.State(n, layer_.direction);
      if (dy_.h != nullptr) CopyRow(dy_.h + from, size_, dh_.data() + n * size_);
      if (dy_.c != nullptr && lstm()) CopyRow(dy_.c + from, size_, dc_.data() + n * size_);
      int64_t& first = first_[static_cast<size_t>(n)];
      first = 0;
      while (first < shape_.steps && !layer_.mask.Counts(layer_.Step(first), n)) ++first;
    }
  }

  void RunStep(int64_t number) {
    const int64_t t = layer_.Step(number);
    const RowsOf h = Before(saved_, number, shape_.HPart(), layer_.initial_h);
    const RowsOf c = CellsBefore(saved_, number);
    for (int64_t n = 0; n < shape_.batch; ++n) {
      const bool counts = layer_.mask.Counts(t, n);
      const bool shows =
          counts || (number > first_[static_cast<size_t>(n)] && !layer_.mask.gives_zeros());
      if (dy_.y != nullptr && shows) {
        AddRow(dy_.y + shape_.Y(layer_.OutputStep(t), n, layer_.direction),
               {dh_.data() + n * size_, size_});
      }
      counts ? RunCell(t, n, RowOr(h, n), RowOr(c, n)) : LeaveOut(t, n);
    }
    if (gru() && !linear()) GoThroughReset(t, h);
    // The gradients of the initial states are those of the state before the first step.
    if (number == 0 && out_.h == nullptr) return;
    const float* const dz = dz_.data() + t * shape_.batch * gates_;
    Gemm({shape_.batch, size_, PlainRows()}, {dz, gates_}, {layer_.r, size_}, {dh_.data(), size_},
         {1, 1}, layer_.products);
    if (gru() && linear()) {
      Gemm({shape_.batch, size_, size_}, {dterm_.data() + t * shape_.batch * size_, size_},
           {ResetWeights(), size_}, {dh_.data(), size_}, {1, 1}, layer_.products);
    }
  }

  // Gives the gates of a step that does not count no gradients.
  void LeaveOut(int64_t t, int64_t n) {
    const int64_t row = t * shape_.batch + n;
    std::fill_n(dz_.data() + row * gates_, gates_, 0.0f);
    if (!gru()) return;
    std::fill_n(dterm_.data() + row * size_, size_, 0.0f);
    if (!linear()) std::fill_n(reset_.data() + row * size_, size_, 0.0f);
  }

  // Computes the gradients of the gates of one example. Of its states there stays what does not
  // come through gates.
  void RunCell(int64_t t, int64_t n, const float* h, const float* c) {
    const float* const row = SavedRows(saved_, t, 0) + n * layer_.pitch();
    float* const gates = const_cast<float*>(row);  // the loops only read a row here
    float* const dz = dz_.data() + (t * shape_.batch + n) * gates_;
    float* const dh = dh_.data() + n * size_;
    if (lstm()) {
      LstmStepGradient(layer_.gates[2], {gates, c, gates + shape_.CPart(), nullptr},
                       {dh, dc_.data() + n * size_, dz, scratch_.data()}, size_);
      MultiplyBySlope(layer_.gates[0], row, {dz, 3 * size_});
      MultiplyBySlope(layer_.gates[1], row + 3 * size_, {dz + 3 * size_, size_});
    } else if (gru()) {
      GruStepGradient({gates, h, nullptr}, dh, dz, size_);
      MultiplyBySlope(layer_.gates[0], row, {dz, size_});
      MultiplyBySlope(layer_.gates[1], row + 2 * size_, {dz + 2 * size_, size_});
      if (linear()) {
        MultiplyRow(dz + 2 * size_, row + shape_.TermPart(), {dz + size_, size_});
        MultiplyBySlope(layer_.gates[0], row + size_, {dz + size_, size_});
        MultiplyRow(dz + 2 * size_, row + size_,
                    {dterm_.data() + (t * shape_.batch + n) * size_, size_});
      }
    } else {
      CopyRow(dh, size_, dz);
      MultiplyBySlope(layer_.gates[0], row, {dz, size_});
      std::fill_n(dh, size_, 0.0f);
    }
  }

  // Goes from the gate h of a GRU, which has the product of r and the state, back to both.
  void GoThroughReset(int64_t t, const RowsOf& h) {
    const int64_t first = t * shape_.batch;
    float* const dreset = dterm_.data() + first * size_;
    Gemm({shape_.batch, size_, size_}, {dz_.data() + first * gates_ + 2 * size_, gates_},
         {ResetWeights(), size_}, {dreset, size_}, {}, layer_.products);
    for (int64_t n = 0; n < shape_.batch; ++n) {
      if (!layer_.mask.Counts(t, n)) continue;
      const float* const r = SavedRows(saved_, t, size_) + n * layer_.pitch();
      float* const dr = dz_.data() + (first + n) * gates_ + size_;
      MultiplyRow(dreset + n * size_, RowOr(h, n), {dr, size_});
      MultiplyBySlope(layer_.gates[0], r, {dr, size_});
      AddProductRow(dreset + n * size_, r, {dh_.data() + n * size_, size_});
      MultiplyRow(r, RowOr(h, n), {reset_.data() + (first + n) * size_, size_});
    }
  }

  // Writes the transpose of `dz` times the states before each step. The states before all steps but
  // the first computed one are those of the saved rows, one step further.
  void SetStateProduct(const GemmFactor& dz, int64_t count, float* out) {
    const int64_t batch = shape_.batch;
    const int64_t rest = layer_.rows() - batch;
    const int64_t first = layer_.Step(0) * batch;
    // One step alone has no step before it.
    const int64_t from = layer_.reverses && shape_.steps > 1 ? 1 : 0;
    const float* const states = SavedRows(saved_, from, shape_.HPart());
    const GemmFactor later = {dz.data + (layer_.reverses ? 0 : batch) * dz.stride, dz.stride, true};
    Gemm({count, size_, rest}, later, {states, layer_.pitch()}, {out, size_}, {}, layer_.products);
    if (layer_.initial_h.data == nullptr) return;
    Gemm({count, size_, batch}, {dz.data + first * dz.stride, dz.stride, true},
         {layer_.initial_h.data, layer_.initial_h.stride}, {out, size_}, {1, 1}, layer_.products);
  }

  void SetRecurrentWeights() {
    SetStateProduct({dz_.data(), gates_}, PlainRows(), out_.r);
    if (!gru()) return;
    float* const out = out_.r + 2 * size_ * size_;
    if (linear()) return SetStateProduct({dterm_.data(), size_}, size_, out);
    Gemm({size_, size_, layer_.rows()}, {dz_.data() + 2 * size_, gates_, true},
         {reset_.data(), size_}, {out, size_}, {}, layer_.products);
  }

  // Writes the sum of the rows of a matrix with `columns` columns.
  void SumRows(const RowsOf& matrix, int64_t columns, float* out) const {
    std::vector<double> sums(static_cast<size_t>(columns), 0.0);
    std::vector<float> part(sums.size(), 0.0f);
    for (int64_t row = 0; row < layer_.rows(); ++row) {
      AddRow(matrix.Row(row), {part.data(), columns});
      if ((row + 1) % kRowsPerSum != 0 && row + 1 < layer_.rows()) continue;
      for (size_t i = 0; i < sums.size(); ++i) sums[i] += static_cast<double>(part[i]);
      std::fill(part.begin(), part.end(), 0.0f);
    }
    for (const double sum : sums) *out++ = static_cast<float>(sum);
  }

  void SetBias() {
    SumRows({dz_.data(), gates_}, gates_, out_.b);
    CopyRow(out_.b, gates_, out_.b + gates_);
    if (gru() && linear()) SumRows({dterm_.data(), size_}, size_, out_.b + gates_ + 2 * size_);
  }

  const float* const saved_;
  const OutputGradients& dy_;
  const InputGradients& out_;
  const ScratchFloats dz_;     // gradients of what enters the gates of all steps
  const ScratchFloats dterm_;  // gradients of a GRU's term or r * h of all steps
  const ScratchFloats reset_;  // a GRU's r * h of all steps
  std::vector<float> dh_;
  std::vector<float> dc_;
  std::vector<float> scratch_;
  std::vector<int64_t> first_;  // the number of the first step that counts, of each example
};

}  // namespace

void WalkForward(const DirectionLayer& layer, const DirectionOutputs& out) {
  ForwardWalk(layer, out).Run();
}

void WalkBackward(const DirectionLayer& layer, const float* saved, const OutputGradients& dy,
                  const InputGradients& out) {
  BackwardWalk(layer, saved, dy, out).Run();
}

}  // namespace cohort
