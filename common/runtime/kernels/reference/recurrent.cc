// LSTM, GRU, RNN and their gradients, one example and one step after the other. States and sums are
// kept in double; what a step leaves for the gradient is rounded to the type of x.

#include <algorithm>
#include <vector>

#include "common/runtime/kernels/recurrent_shape.h"
#include "common/runtime/kernels/reference/reference_kernels.h"

namespace cohort {

namespace {

using Doubles = std::vector<double>;

// The inputs of one direction. An absent input is null and counts as zeros.
template <typename T>
struct DirectionInputs {
  const T* w;
  const T* r;
  const T* b;
  const T* peepholes;
  const Gate* gates;
};

template <typename T>
const T* DataOr(const Tensor& tensor, int64_t offset) {
  return tensor.has_value() ? tensor.data<T>() + offset : nullptr;
}

template <typename T>
double At(const T* values, int64_t i) {
  return values == nullptr ? 0 : static_cast<double>(values[i]);
}

// One layer of one type: the inputs, and what both ways through it share.
template <typename T>
struct Layer {
  const RecurrentInputs& inputs;
  const RecurrentParameters& parameters;
  const RecurrentShape& shape;
  const RecurrentMask& mask;

  bool lstm() const { return parameters.cell == RecurrentCell::kLstm; }
  bool gru() const { return parameters.cell == RecurrentCell::kGru; }
  // Returns whether the reset gate multiplies the term of the state instead of the state.
  bool linear() const { return parameters.linear_before_reset; }

  DirectionInputs<T> Direction(int64_t d) const {
    const int64_t h = shape.hidden;
    const int64_t rows = shape.gates * h;
    const size_t functions = parameters.gates.size() / static_cast<size_t>(shape.directions);
    return {inputs.w.data<T>() + d * rows * shape.inputs, inputs.r.data<T>() + d * rows * h,
            DataOr<T>(inputs.b, d * 2 * rows), DataOr<T>(inputs.peepholes, d * 3 * h),
            parameters.gates.data() + static_cast<size_t>(d) * functions};
  }
  // Returns the step that is computed as number `number`.
  int64_t Step(int64_t d, int64_t number) const {
    return parameters.Reverses(static_cast<int>(d)) ? shape.steps - 1 - number : number;
  }
  // Returns the step of y that has the output of step `t`.
  int64_t OutputStep(int64_t t) const { return parameters.go_backwards ? shape.steps - 1 - t : t; }
  Doubles Start(const Tensor& initial, int64_t n, int64_t d) const {
    Doubles state(static_cast<size_t>(shape.hidden), 0.0);
    for (size_t i = 0; initial.has_value() && i < state.size(); ++i) {
      state[i] =
          static_cast<double>(initial.data<T>()[shape.State(n, d) + static_cast<int64_t>(i)]);
    }
    return state;
  }
};

// Adds matrix * vector to the sums, for `rows` rows from row `first` on.
template <typename T>
void AddProduct(const T* matrix, const Doubles& vector, int64_t first, int64_t rows, double* sums) {
  const auto columns = static_cast<int64_t>(vector.size());
  for (int64_t row = 0; row < rows; ++row) {
    const T* const line = matrix + (first + row) * columns;
    for (int64_t i = 0; i < columns; ++i) {
      sums[row] += static_cast<double>(line[i]) * vector[static_cast<size_t>(i)];
    }
  }
}

// Adds the matrix' transpose * vector to the sums, for `rows` rows from row `first` on.
template <typename T>
void AddTransposedProduct(const T* matrix, const double* vector, int64_t first, int64_t rows,
                          Doubles& sums) {
  const auto columns = static_cast<int64_t>(sums.size());
  for (int64_t row = 0; row < rows; ++row) {
    const T* const line = matrix + (first + row) * columns;
    for (int64_t i = 0; i < columns; ++i) {
      sums[static_cast<size_t>(i)] += static_cast<double>(line[i]) * vector[row];
    }
  }
}

// Adds the outer product of two vectors to the sums, which are `rows` rows from row `first` on.
void AddOuter(const double* column, int64_t first, int64_t rows, const Doubles& line,
              double* sums) {
  const auto columns = static_cast<int64_t>(line.size());
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < columns; ++i) {
      sums[(first + row) * columns + i] += column[row] * line[static_cast<size_t>(i)];
    }
  }
}

// One sequence in one direction, from the first computed step on. Thread-compatible.
template <typename T>
class SequenceForward {
 public:
  SequenceForward(const Layer<T>& layer, int64_t n, int64_t d)
      : layer_(layer),
        in_(layer.Direction(d)),
        n_(n),
        d_(d),
        h_(layer.Start(layer.inputs.initial_h, n, d)),
        c_(layer.Start(layer.inputs.initial_c, n, d)),
        output_(h_.size(), 0.0),
        gates_(static_cast<size_t>(layer.shape.gates) * h_.size()),
        term_(h_.size()) {}

  // Computes all steps. Writes the outputs and what the gradient needs, unless the pointer is null.
  void Run(T* y, T* saved) {
    for (int64_t number = 0; number < layer_.shape.steps; ++number) {
      const int64_t t = layer_.Step(d_, number);
      const bool counts = layer_.mask.Counts(t, n_);
      if (counts) {
        RunStep(layer_.inputs.x.template data<T>() + layer_.shape.X(t, n_));
        output_ = h_;
      } else {
        std::fill(gates_.begin(), gates_.end(), 0.0);
        std::fill(term_.begin(), term_.end(), 0.0);
        if (layer_.mask.gives_zeros()) std::fill(output_.begin(), output_.end(), 0.0);
      }
      if (y != nullptr) Put(output_, y + layer_.shape.Y(layer_.OutputStep(t), n_, d_));
      if (saved != nullptr) Save(saved + layer_.shape.Saved(t, n_, d_));
    }
  }

  const Doubles& h() const { return h_; }
  const Doubles& c() const { return c_; }

 private:
  static void Put(const Doubles& values, T* out) {
    for (const double value : values) *out++ = static_cast<T>(value);
  }

  void Save(T* row) const {
    const RecurrentShape& shape = layer_.shape;
    if (layer_.parameters.cell != RecurrentCell::kRnn) Put(gates_, row);
    if (layer_.linear()) Put(term_, row + shape.TermPart());
    if (layer_.lstm()) Put(c_, row + shape.CPart());
    Put(h_, row + shape.HPart());
  }

  void RunStep(const T* x) {
    const int64_t h = layer_.shape.hidden;
    const int64_t rows = layer_.shape.gates * h;
    const Doubles input(x, x + layer_.shape.inputs);
    for (int64_t row = 0; row < rows; ++row) {
      gates_[static_cast<size_t>(row)] = At(in_.b, row) + At(in_.b, rows + row);
    }
    AddProduct(in_.w, input, 0, rows, gates_.data());
    if (layer_.gru()) return RunGru();
    AddProduct(in_.r, h_, 0, rows, gates_.data());
    if (layer_.lstm()) return RunLstm();
    for (size_t i = 0; i < h_.size(); ++i) h_[i] = in_.gates[0].Value(gates_[i]);
  }

  void RunLstm() {
    const size_t size = h_.size();
    const auto gate = [&](size_t number, size_t i) -> double& { return gates_[number * size + i]; };
    const auto peephole = [&](size_t number, size_t i) {
      return At(in_.peepholes, static_cast<int64_t>(number * size + i));
    };
    for (size_t i = 0; i < size; ++i) {
      // The gates in their order: input, output, forget, cell. Peepholes have the first three.
      gate(0, i) = in_.gates[0].Value(gate(0, i) + peephole(0, i) * c_[i]);
      gate(2, i) = in_.gates[0].Value(gate(2, i) + peephole(2, i) * c_[i]);
      gate(3, i) = in_.gates[1].Value(gate(3, i));
      c_[i] = gate(2, i) * c_[i] + gate(0, i) * gate(3, i);
      gate(1, i) = in_.gates[0].Value(gate(1, i) + peephole(1, i) * c_[i]);
      h_[i] = gate(1, i) * in_.gates[2].Value(c_[i]);
    }
  }

  void RunGru() {
    const auto size = static_cast<int64_t>(h_.size());
    AddProduct(in_.r, h_, 0, 2 * size, gates_.data());
    for (int64_t i = 0; i < 2 * size; ++i) {
      double& gate = gates_[static_cast<size_t>(i)];
      gate = in_.gates[0].Value(gate);
    }
    double* const z = gates_.data();
    double* const r = z + size;
    double* const g = r + size;
    if (layer_.linear()) {
      // The term has the recurrent bias, which must not count a second time in the gate.
      for (int64_t i = 0; i < size; ++i) {
        const double bias = At(in_.b, 5 * size + i);
        term_[static_cast<size_t>(i)] = bias;
        g[i] -= bias;
      }
      AddProduct(in_.r, h_, 2 * size, size, term_.data());
      for (int64_t i = 0; i < size; ++i) g[i] += r[i] * term_[static_cast<size_t>(i)];
    } else {
      for (int64_t i = 0; i < size; ++i) {
        term_[static_cast<size_t>(i)] = r[i] * h_[static_cast<size_t>(i)];
      }
      AddProduct(in_.r, term_, 2 * size, size, g);
    }
    for (int64_t i = 0; i < size; ++i) {
      double& state = h_[static_cast<size_t>(i)];
      g[i] = in_.gates[1].Value(g[i]);
      state = (1 - z[i]) * g[i] + z[i] * state;
    }
  }

  const Layer<T>& layer_;
  const DirectionInputs<T> in_;
  const int64_t n_;
  const int64_t d_;
  Doubles h_;
  Doubles c_;
  Doubles output_;
  Doubles gates_;
  Doubles term_;  // what a GRU's reset gate multiplies, or its product with h
};

// The sums of the gradients of one direction over all its sequences.
struct DirectionSums {
  Doubles w;
  Doubles r;
  Doubles b;
  Doubles peepholes;
};

// Gradients of the outputs of a layer. An absent one is null.
template <typename T>
struct OutputGradients {
  const T* y;
  const T* h;
  const T* c;
};

// The way back through one sequence in one direction. Thread-compatible.
template <typename T>
class SequenceBackward {
 public:
  SequenceBackward(const Layer<T>& layer, int64_t n, int64_t d, const T* saved)
      : layer_(layer),
        in_(layer.Direction(d)),
        n_(n),
        d_(d),
        saved_(saved),
        dh_(static_cast<size_t>(layer.shape.hidden), 0.0),
        dc_(dh_),
        dz_(static_cast<size_t>(layer.shape.gates) * dh_.size()),
        dz_recurrent_(dz_) {}

  // Goes back through all steps. Adds to the sums, and to the rows of dx.
  void Run(const OutputGradients<T>& dy, DirectionSums& sums, Doubles& dx) {
    const RecurrentShape& shape = layer_.shape;
    for (size_t i = 0; i < dh_.size(); ++i) {
      dh_[i] = At(dy.h, shape.State(n_, d_) + static_cast<int64_t>(i));
      dc_[i] = At(dy.c, shape.State(n_, d_) + static_cast<int64_t>(i));
    }
    const int64_t first = FirstNumber();
    for (int64_t number = shape.steps - 1; number >= first; --number) {
      const int64_t t = layer_.Step(d_, number);
      const bool counts = layer_.mask.Counts(t, n_);
      // The output of a step that does not count is the state, or zeros.
      if (counts || !layer_.mask.gives_zeros()) {
        const int64_t row = shape.Y(layer_.OutputStep(t), n_, d_);
        for (size_t i = 0; i < dh_.size(); ++i) dh_[i] += At(dy.y, row + static_cast<int64_t>(i));
      }
      if (!counts) continue;
      previous_ = number == 0 ? -1 : layer_.Step(d_, number - 1);
      RunStep(t, sums, dx);
    }
  }

  const Doubles& dh() const { return dh_; }
  const Doubles& dc() const { return dc_; }

 private:
  // Returns the number of the first step that counts. The outputs before it are zeros.
  int64_t FirstNumber() const {
    int64_t number = 0;
    while (number < layer_.shape.steps && !layer_.mask.Counts(layer_.Step(d_, number), n_)) {
      ++number;
    }
    return number;
  }

  const T* Row(int64_t t) const { return saved_ + layer_.shape.Saved(t, n_, d_); }

  // Returns a state of the step before, which is the initial one for the first step.
  Doubles Previous(const Tensor& initial, int64_t part) const {
    if (previous_ < 0) return layer_.Start(initial, n_, d_);
    const T* const values = Row(previous_) + part;
    return Doubles(values, values + dh_.size());
  }

  void RunStep(int64_t t, DirectionSums& sums, Doubles& dx) {
    const RecurrentShape& shape = layer_.shape;
    const int64_t rows = shape.gates * shape.hidden;
    const Doubles h = Previous(layer_.inputs.initial_h, shape.HPart());
    if (layer_.gru()) {
      RunGru(t, h, sums);
    } else {
      layer_.lstm() ? RunLstm(t, sums) : RunRnn(t);
      dz_recurrent_ = dz_;
      std::fill(dh_.begin(), dh_.end(), 0.0);
      AddTransposedProduct(in_.r, dz_.data(), 0, rows, dh_);
      AddOuter(dz_.data(), 0, rows, h, sums.r.data());
    }
    const T* const x = layer_.inputs.x.template data<T>() + shape.X(t, n_);
    AddOuter(dz_.data(), 0, rows, Doubles(x, x + shape.inputs), sums.w.data());
    for (int64_t row = 0; row < rows; ++row) {
      sums.b[static_cast<size_t>(row)] += dz_[static_cast<size_t>(row)];
      sums.b[static_cast<size_t>(rows + row)] += dz_recurrent_[static_cast<size_t>(row)];
    }
    Doubles input(static_cast<size_t>(shape.inputs), 0.0);
    AddTransposedProduct(in_.w, dz_.data(), 0, rows, input);
    for (size_t i = 0; i < input.size(); ++i) {
      dx[static_cast<size_t>(shape.X(t, n_)) + i] += input[i];
    }
  }

  void RunRnn(int64_t t) {
    const T* const value = Row(t) + layer_.shape.HPart();
    for (size_t i = 0; i < dh_.size(); ++i) {
      dz_[i] = dh_[i] * in_.gates[0].Slope(static_cast<double>(value[i]));
    }
  }

  void RunLstm(int64_t t, DirectionSums& sums) {
    const size_t size = dh_.size();
    const T* const row = Row(t);
    const Doubles before = Previous(layer_.inputs.initial_c, layer_.shape.CPart());
    const auto gate = [&](size_t number, size_t i) {
      return static_cast<double>(row[number * size + i]);
    };
    const auto peephole = [&](size_t number, size_t i) {
      return At(in_.peepholes, static_cast<int64_t>(number * size + i));
    };
    for (size_t i = 0; i < size; ++i) {
      const auto c = static_cast<double>(row[static_cast<size_t>(layer_.shape.CPart()) + i]);
      const double value = in_.gates[2].Value(c);
      double& di = dz_[i];
      double& dout = dz_[size + i];
      double& df = dz_[2 * size + i];
      dout = dh_[i] * value * in_.gates[0].Slope(gate(1, i));
      const double dc =
          dc_[i] + dh_[i] * gate(1, i) * in_.gates[2].Slope(value) + peephole(1, i) * dout;
      di = dc * gate(3, i) * in_.gates[0].Slope(gate(0, i));
      df = dc * before[i] * in_.gates[0].Slope(gate(2, i));
      dz_[3 * size + i] = dc * gate(0, i) * in_.gates[1].Slope(gate(3, i));
      dc_[i] = dc * gate(2, i) + peephole(0, i) * di + peephole(2, i) * df;
      sums.peepholes[i] += di * before[i];
      sums.peepholes[size + i] += dout * c;
      sums.peepholes[2 * size + i] += df * before[i];
    }
  }

  void RunGru(int64_t t, const Doubles& h, DirectionSums& sums) {
    const auto size = static_cast<int64_t>(dh_.size());
    const T* const row = Row(t);
    double* const dz = dz_.data();
    double* const dr = dz + size;
    double* const dg = dr + size;
    Doubles next(dh_.size(), 0.0);
    Doubles reset(dh_.size());  // r * h
    for (int64_t i = 0; i < size; ++i) {
      const size_t at = static_cast<size_t>(i);
      const double z = At(row, i);
      const double g = At(row, 2 * size + i);
      reset[at] = At(row, size + i) * h[at];
      dz[i] = dh_[at] * (h[at] - g) * in_.gates[0].Slope(z);
      dg[i] = dh_[at] * (1 - z) * in_.gates[1].Slope(g);
      next[at] = dh_[at] * z;
    }
    Doubles dreset(dh_.size(), 0.0);
    if (!layer_.linear()) AddTransposedProduct(in_.r, dg, 2 * size, size, dreset);
    for (int64_t i = 0; i < size; ++i) {
      const size_t at = static_cast<size_t>(i);
      const double r = At(row, size + i);
      const double factor =
          layer_.linear() ? dg[i] * At(row, layer_.shape.TermPart() + i) : dreset[at] * h[at];
      dr[i] = factor * in_.gates[0].Slope(r);
      if (!layer_.linear()) next[at] += dreset[at] * r;
    }
    dz_recurrent_ = dz_;
    for (int64_t i = 0; layer_.linear() && i < size; ++i) {
      dz_recurrent_[static_cast<size_t>(2 * size + i)] *= At(row, size + i);
    }
    const int64_t rows = layer_.linear() ? 3 * size : 2 * size;
    AddTransposedProduct(in_.r, dz_recurrent_.data(), 0, rows, next);
    AddOuter(dz_recurrent_.data(), 0, rows, h, sums.r.data());
    if (!layer_.linear()) AddOuter(dg, 2 * size, size, reset, sums.r.data());
    dh_ = std::move(next);
  }

  const Layer<T>& layer_;
  const DirectionInputs<T> in_;
  const int64_t n_;
  const int64_t d_;
  const T* const saved_;
  int64_t previous_ = -1;  // the step computed before, or -1
  Doubles dh_;
  Doubles dc_;
  Doubles dz_;            // gradients of what enters the gates' functions
  Doubles dz_recurrent_;  // gradients of the part of it that comes from the state
};

// Allocates an output of a layer, and returns nullptr if it is not wanted.
template <typename T>
T* WantedOutput(KernelContext& context, int output, DType dtype, const Shape& shape) {
  if (!context.output_wanted(output)) return nullptr;
  return context.Output(output, dtype, shape).template mutable_data<T>();
}

absl::Status RunRecurrent(KernelContext& context, const RecurrentParameters& parameters) {
  const RecurrentInputs inputs = InputsOf(context, parameters);
  ASSIGN_OR_RETURN(const RecurrentShape shape, ResolveRecurrent(inputs, parameters));
  const RecurrentMask mask(inputs, parameters, shape);
  const DType dtype = inputs.x.dtype();
  return DispatchFloats(inputs.x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Layer<T> layer = {inputs, parameters, shape, mask};
    T* const y = WantedOutput<T>(context, 0, dtype, shape.y);
    T* const h = WantedOutput<T>(context, 1, dtype, shape.state);
    T* const c = WantedOutput<T>(context, 2, dtype, shape.state);
    T* const saved = WantedOutput<T>(context, 3, dtype, shape.saved);
    for (int64_t d = 0; d < shape.directions; ++d) {
      for (int64_t n = 0; n < shape.batch; ++n) {
        SequenceForward<T> sequence(layer, n, d);
        sequence.Run(y, saved);
        for (int64_t i = 0; i < shape.hidden; ++i) {
          const int64_t at = shape.State(n, d) + i;
          if (h != nullptr) h[at] = static_cast<T>(sequence.h()[static_cast<size_t>(i)]);
          if (c != nullptr) c[at] = static_cast<T>(sequence.c()[static_cast<size_t>(i)]);
        }
      }
    }
    return absl::OkStatus();
  });
}

// Writes `values` to an output from element `offset` on.
template <typename T>
void PutAt(T* out, int64_t offset, const Doubles& values) {
  if (out == nullptr) return;
  for (const double value : values) out[offset++] = static_cast<T>(value);
}

// Computes the gradients of a layer from `saved`, which is computed again if it is null.
template <typename T>
void RunBackward(KernelContext& context, const Layer<T>& layer, const T* saved) {
  const RecurrentShape& shape = layer.shape;
  const RecurrentInputs& inputs = layer.inputs;
  const DType dtype = inputs.x.dtype();
  const OutputGradients<T> dy = {DataOr<T>(InputOr(context, kGradOfY), 0),
                                 DataOr<T>(InputOr(context, kGradOfH), 0),
                                 DataOr<T>(InputOr(context, kGradOfC), 0)};
  const int64_t rows = shape.gates * shape.hidden;
  Doubles dx(static_cast<size_t>(inputs.x.num_elements()), 0.0);
  T* const dw = WantedOutput<T>(context, 1, dtype, inputs.w.shape());
  T* const dr = WantedOutput<T>(context, 2, dtype, inputs.r.shape());
  T* const db = WantedOutput<T>(context, 3, dtype, Shape{shape.directions, 2 * rows});
  T* const dh = WantedOutput<T>(context, 4, dtype, shape.state);
  T* const dc = WantedOutput<T>(context, 5, dtype, shape.state);
  T* const dp = WantedOutput<T>(context, 6, dtype, Shape{shape.directions, 3 * shape.hidden});
  for (int64_t d = 0; d < shape.directions; ++d) {
    const auto size = [](int64_t a, int64_t b) { return static_cast<size_t>(a * b); };
    DirectionSums sums = {Doubles(size(rows, shape.inputs), 0.0),
                          Doubles(size(rows, shape.hidden), 0.0), Doubles(size(2, rows), 0.0),
                          Doubles(size(3, shape.hidden), 0.0)};
    for (int64_t n = 0; n < shape.batch; ++n) {
      SequenceBackward<T> sequence(layer, n, d, saved);
      sequence.Run(dy, sums, dx);
      PutAt(dh, shape.State(n, d), sequence.dh());
      PutAt(dc, shape.State(n, d), sequence.dc());
    }
    PutAt(dw, d * rows * shape.inputs, sums.w);
    PutAt(dr, d * rows * shape.hidden, sums.r);
    PutAt(db, d * 2 * rows, sums.b);
    PutAt(dp, d * 3 * shape.hidden, sums.peepholes);
  }
  PutAt(WantedOutput<T>(context, 0, dtype, inputs.x.shape()), 0, dx);
}

absl::Status RunRecurrentGrad(KernelContext& context, const RecurrentParameters& parameters) {
  const RecurrentInputs inputs = InputsOf(context, parameters);
  ASSIGN_OR_RETURN(const RecurrentShape shape, ResolveRecurrent(inputs, parameters));
  RETURN_IF_ERROR(CheckRecurrentGrad(context, inputs.x, shape));
  const RecurrentMask mask(inputs, parameters, shape);
  return DispatchFloats(inputs.x, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const Layer<T> layer = {inputs, parameters, shape, mask};
    Tensor saved = InputOr(context, kSavedRows);
    if (!saved.has_value()) {
      saved = Tensor(inputs.x.dtype(), shape.saved);
      for (int64_t d = 0; d < shape.directions; ++d) {
        for (int64_t n = 0; n < shape.batch; ++n) {
          SequenceForward<T>(layer, n, d).Run(nullptr, saved.template mutable_data<T>());
        }
      }
    }
    RunBackward<T>(context, layer, saved.template data<T>());
    return absl::OkStatus();
  });
}

}  // namespace

void RegisterReferenceRecurrent(KernelRegistry& registry) {
  const DTypeSet lengths = {DType::kInt32};
  const std::vector<DTypeSet> onnx = {kFloats, kFloats, kFloats, kFloats, lengths, kFloats};
  const std::vector<DTypeSet> masked = {kFloats, kFloats, kFloats, kFloats, kBools, kFloats};
  std::vector<DTypeSet> gradient(kLengths, kFloats);
  gradient[4] = kBools;
  gradient.push_back(lengths);
  registry.Add("", "LSTM",
               BoundKernel<RecurrentParameters>({3, 8, onnx, 3}, ParseLstm, RunRecurrent));
  registry.Add("", "GRU",
               BoundKernel<RecurrentParameters>({3, 6, onnx, 2}, ParseGru, RunRecurrent));
  registry.Add("", "RNN",
               BoundKernel<RecurrentParameters>({3, 6, onnx, 2}, ParseRnn, RunRecurrent));
  registry.Add("cohort", "Recurrent",
               BoundKernel<RecurrentParameters>({3, 8, masked, 4}, ParseRecurrent, RunRecurrent));
  registry.Add("cohort", "RecurrentGrad",
               BoundKernel<RecurrentParameters>({3, kLengths + 1, gradient, 7}, ParseRecurrent,
                                                RunRecurrentGrad));
}

}  // namespace cohort
