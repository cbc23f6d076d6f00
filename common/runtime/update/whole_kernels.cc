#include "common/runtime/update/whole_kernels.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/runtime/update/matrix_loops.h"
#include "common/runtime/update/rules/update_bodies.h"

namespace cohort {

namespace {

double SumOfSquares(absl::Span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * static_cast<double>(value);
  return sum;
}

// Returns the root of the mean of the squares; 0 if there are no values.
double RootMeanSquare(absl::Span<const float> values) {
  return values.empty() ? 0 : std::sqrt(SumOfSquares(values) / static_cast<double>(values.size()));
}

// The base class of kernels that need the whole variable. Immutable; thread-safe.
class WholeKernel : public OptimizerKernel {
 public:
  explicit WholeKernel(const KernelOptions& options) : OptimizerKernel(options) {}

 protected:
  // Writes the value after weight decay.
  void DecayValue(const UpdateStep& step) const {
    const float decay = DecayOf(step);
    for (size_t i = 0; i < step.value_in.size(); ++i) {
      step.value_out[i] = Decayed(step.value_in[i], decay);
    }
  }

 private:
  void CatchUp(const UpdateStep&, const MissedSteps&) const override {
    // DescribeUpdateRule refuses the sparse modes in which rows miss steps.
    COHORT_CHECK(false, "no missed steps under a rule of whole variables");
  }
};

class AdafactorKernel : public WholeKernel {
 public:
  explicit AdafactorKernel(const KernelOptions& options)
      : WholeKernel(options),
        beta_2_decay_(ParameterOf(options.rule, "beta_2_decay")),
        epsilon_1_(ParameterOf(options.rule, "epsilon_1")),
        epsilon_2_(ParameterOf(options.rule, "epsilon_2")),
        clip_threshold_(ParameterOf(options.rule, "clip_threshold")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const double t = static_cast<double>(step.step);
    const double kept = 1 - std::pow(t, beta_2_decay_);
    DecayValue(step);
    const double rho = std::min(step.learning_rate, 1 / std::sqrt(t));
    const double alpha = std::max(epsilon_2_, RootMeanSquare(step.value_out)) * rho;
    std::vector<float> update(step.gradient.size());
    if (step.matrix.is_factored) {
      DivideByFactors(step, kept, absl::MakeSpan(update));
    } else {
      DivideByRoots(step, kept, absl::MakeSpan(update));
    }
    const double clip = std::max(1.0, RootMeanSquare(update) / clip_threshold_);
    const float rate = static_cast<float>(alpha / clip);
    for (size_t i = 0; i < update.size(); ++i) step.value_out[i] -= rate * update[i];
  }

  double Regulated(float gradient) const {
    return static_cast<double>(gradient) * static_cast<double>(gradient) + epsilon_1_;
  }

  void DivideByRoots(const UpdateStep& step, double kept, absl::Span<float> update) const {
    const SlotSpans& average = step.slots[0];
    KeepSlot(step.slots[1]);
    for (size_t i = 0; i < update.size(); ++i) {
      const float g = step.gradient[i];
      const double next = kept * static_cast<double>(average.in[i]) + (1 - kept) * Regulated(g);
      average.out[i] = static_cast<float>(next);
      update[i] = static_cast<float>(static_cast<double>(g) / std::sqrt(next));
    }
  }

  // Divides the gradient by roots that the averages of rows and columns give, for each matrix of
  // the last two dimensions.
  void DivideByFactors(const UpdateStep& step, double kept, absl::Span<float> update) const {
    const size_t rows = step.matrix.rows;
    const size_t columns = step.matrix.columns;
    const SlotSpans& of_rows = step.slots[0];
    const SlotSpans& of_columns = step.slots[1];
    COHORT_CHECK(of_rows.in.size() * columns == update.size() &&
                     of_columns.in.size() * rows == update.size(),
                 "averages of the rows and columns of the whole variable");
    const double share = 1 - kept;
    std::vector<double> row_sums(rows);
    std::vector<double> column_sums(columns);
    for (size_t begin = 0; begin < update.size(); begin += rows * columns) {
      std::fill(row_sums.begin(), row_sums.end(), 0.0);
      std::fill(column_sums.begin(), column_sums.end(), 0.0);
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < columns; ++j) {
          const double square = Regulated(step.gradient[begin + i * columns + j]);
          row_sums[i] += square;
          column_sums[j] += square;
        }
      }
      double mean = 0;
      const auto move = [&](const SlotSpans& slot, size_t at, double sum, size_t count) {
        const double next =
            kept * static_cast<double>(slot.in[at]) + share * sum / static_cast<double>(count);
        slot.out[at] = static_cast<float>(next);
        return next;
      };
      for (size_t i = 0; i < rows; ++i) {
        row_sums[i] = move(of_rows, begin / columns + i, row_sums[i], columns);
        mean += row_sums[i] / static_cast<double>(rows);
      }
      for (size_t j = 0; j < columns; ++j) {
        column_sums[j] = move(of_columns, begin / rows + j, column_sums[j], rows);
      }
      for (size_t i = 0; i < rows; ++i) {
        for (size_t j = 0; j < columns; ++j) {
          const size_t at = begin + i * columns + j;
          const double root = std::sqrt(row_sums[i] / mean * column_sums[j]);
          update[at] = static_cast<float>(static_cast<double>(step.gradient[at]) / root);
        }
      }
    }
  }

  const double beta_2_decay_;
  const double epsilon_1_;
  const double epsilon_2_;
  const double clip_threshold_;
};

class LambKernel : public WholeKernel {
 public:
  explicit LambKernel(const KernelOptions& options)
      : WholeKernel(options),
        beta_1_(ParameterOf(options.rule, "beta_1")),
        beta_2_(ParameterOf(options.rule, "beta_2")),
        epsilon_(FloatOf(options.rule, "epsilon")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const float mean_scale = static_cast<float>(1 / BiasCorrection(beta_1_, step.step));
    const float square_scale = static_cast<float>(1 / BiasCorrection(beta_2_, step.step));
    const SlotSpan mean = Slot(step, 0);
    const SlotSpan square = Slot(step, 1);
    DecayValue(step);
    std::vector<float> update(step.gradient.size());
    for (size_t i = 0; i < update.size(); ++i) {
      const float g = step.gradient[i];
      const auto at = static_cast<int64_t>(i);
      const float m = MovedTo(g, mean, at, static_cast<float>(1 - beta_1_));
      const float u = MovedTo(g * g, square, at, static_cast<float>(1 - beta_2_));
      update[i] = m * mean_scale / (std::sqrt(u * square_scale) + epsilon_);
    }
    const double value_norm = std::sqrt(SumOfSquares(step.value_out));
    const double update_norm = std::sqrt(SumOfSquares(update));
    const bool is_scaled = value_norm > 0 && update_norm > 0;
    const float rate =
        static_cast<float>(step.learning_rate * (is_scaled ? value_norm / update_norm : 1));
    for (size_t i = 0; i < update.size(); ++i) step.value_out[i] -= rate * update[i];
  }

  const double beta_1_;
  const double beta_2_;
  const float epsilon_;
};

class MuonKernel : public WholeKernel {
 public:
  explicit MuonKernel(const KernelOptions& options)
      : WholeKernel(options),
        momentum_(FloatOf(options.rule, "momentum")),
        nesterov_(ParameterOf(options.rule, "nesterov") != 0),
        steps_(static_cast<size_t>(ParameterOf(options.rule, "ns_steps"))),
        a_(FloatOf(options.rule, "muon_a")),
        b_(FloatOf(options.rule, "muon_b")),
        c_(FloatOf(options.rule, "muon_c")),
        rms_rate_(ParameterOf(options.rule, "rms_rate")) {}

 private:
  void ApplyRule(const UpdateStep& step) const override {
    const MatrixSize size = {step.matrix.rows, step.matrix.columns};
    COHORT_CHECK(size.rows * size.columns == step.gradient.size(),
                 "the matrix has the size of the gradient");
    const SlotSpan momentum = Slot(step, 0);
    std::vector<float> x(step.gradient.size());
    for (size_t i = 0; i < x.size(); ++i) {
      const float g = step.gradient[i];
      const float next = momentum_ * momentum.in[i] + g;
      momentum.out[i] = next;
      x[i] = nesterov_ ? g + momentum_ * next : next;
    }
    const bool is_tall = size.rows > size.columns;
    if (is_tall) {
      x = Orthogonalized(Transposed(x, size), {size.columns, size.rows});
      x = Transposed(x, {size.columns, size.rows});
    } else {
      x = Orthogonalized(std::move(x), size);
    }
    const double larger = static_cast<double>(std::max(size.rows, size.columns));
    const double scale = rms_rate_ == 0 ? 1 : rms_rate_ * std::sqrt(larger);
    const float rate = static_cast<float>(step.learning_rate * scale);
    DecayValue(step);
    for (size_t i = 0; i < x.size(); ++i) step.value_out[i] -= rate * x[i];
  }

  static std::vector<float> Transposed(const std::vector<float>& x, MatrixSize size) {
    std::vector<float> out(x.size());
    for (size_t i = 0; i < size.rows; ++i) {
      for (size_t j = 0; j < size.columns; ++j) out[j * size.rows + i] = x[i * size.columns + j];
    }
    return out;
  }

  // Brings the singular values of x near 1 by the Newton-Schulz iteration. x has at most as many
  // rows as columns, so y is the smaller one of the two possible products.
  std::vector<float> Orthogonalized(std::vector<float> x, MatrixSize size) const {
    constexpr double kNormEpsilon = 1e-7;
    const float share = static_cast<float>(1 / (std::sqrt(SumOfSquares(x)) + kNormEpsilon));
    for (float& value : x) value *= share;
    std::vector<float> y(size.rows * size.rows);
    std::vector<float> square(y.size());
    std::vector<float> next(x.size());
    for (size_t step = 0; step < steps_; ++step) {
      TimesTransposed(x.data(), size, y.data());
      // y is symmetric, so its square is y times its transpose.
      TimesTransposed(y.data(), {size.rows, size.rows}, square.data());
      for (size_t i = 0; i < y.size(); ++i) y[i] = b_ * y[i] + c_ * square[i];
      for (size_t i = 0; i < x.size(); ++i) next[i] = a_ * x[i];
      AddProduct(y.data(), x.data(), size, next.data());
      x.swap(next);
    }
    return x;
  }

  const float momentum_;
  const bool nesterov_;
  const size_t steps_;
  const float a_;
  const float b_;
  const float c_;
  const double rms_rate_;
};

}  // namespace

std::unique_ptr<UpdateKernel> MakeWholeKernel(const KernelOptions& options) {
  const std::string& op = options.rule.op();
  if (op == "adafactor") return std::make_unique<AdafactorKernel>(options);
  if (op == "lamb") return std::make_unique<LambKernel>(options);
  if (op == "muon") return std::make_unique<MuonKernel>(options);
  return nullptr;
}

}  // namespace cohort
