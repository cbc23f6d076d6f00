#pragma once

// Shapes, attributes and masks of LSTM, GRU, RNN and their gradients, for all backends. A layer
// walks over the steps of sequences, once in each direction. At each step it computes gates from
// the input and the state h of the step before, and the new state from the gates. Gates have ONNX's
// order: i, o, f, c of an LSTM, z, r, h of a GRU. What the gradient needs of a step is kept in
// `saved`, a row for each step and example with parts of `hidden` numbers: the activated gates, of
// a GRU with linear_before_reset also the term that the reset gate multiplies, then the state c of
// an LSTM, and the state h.

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

enum class RecurrentCell { kLstm, kGru, kRnn };

// The functions that ONNX names for gates. The slope of each follows from its value.
enum class GateFunction {
  kSigmoid,
  kTanh,
  kRelu,
  kAffine,
  kLeakyRelu,
  kThresholdedRelu,
  kScaledTanh,
  kHardSigmoid,
  kElu,
  kSoftsign,
  kSoftplus,
};
struct Gate {
  GateFunction function = GateFunction::kSigmoid;
  double alpha = 0;
  double beta = 0;

  double Value(double z) const;
  // Returns the slope where the function has the value y.
  double Slope(double y) const;
};

enum class RecurrentDirection { kForward, kReverse, kBoth };

struct RecurrentParameters {
  RecurrentCell cell = RecurrentCell::kLstm;
  RecurrentDirection direction = RecurrentDirection::kForward;
  int64_t hidden = 0;       // 0: as the weights say
  std::vector<Gate> gates;  // in ONNX's order, those of each direction
  bool linear_before_reset = false;
  bool batch_first = false;   // layout 1
  bool go_backwards = false;  // from the last step, with outputs in the order of computation
  bool masked_zeros = false;  // a masked step gives zeros instead of the last output
  bool onnx = true;           // whether the operator is ONNX's, which takes lengths, not a mask

  int Directions() const { return direction == RecurrentDirection::kBoth ? 2 : 1; }
  // Returns whether direction number `direction` begins at the last step.
  bool Reverses(int number) const {
    return direction == RecurrentDirection::kReverse || number == 1 || go_backwards;
  }
};
RecurrentParameters ParseLstm(AttributeReader& reader);
RecurrentParameters ParseGru(AttributeReader& reader);
RecurrentParameters ParseRnn(AttributeReader& reader);
// Reads the attributes of cohort.Recurrent and of cohort.RecurrentGrad.
RecurrentParameters ParseRecurrent(AttributeReader& reader);

// The inputs of a layer, which its gradient has, too.
struct RecurrentInputs {
  Tensor x;
  Tensor w;
  Tensor r;
  Tensor b;
  Tensor mask;     // bool: whether a step counts
  Tensor lengths;  // int32: the number of steps of each sequence
  Tensor initial_h;
  Tensor initial_c;
  Tensor peepholes;
};
// The inputs of cohort.RecurrentGrad after the first eight, which are those of the layer.
enum RecurrentGradInput { kGradOfY = 8, kGradOfH, kGradOfC, kSavedRows, kLengths };
// Returns the inputs of a layer or of its gradient.
RecurrentInputs InputsOf(const KernelContext& context, const RecurrentParameters& parameters);

struct RecurrentShape {
  int64_t steps = 0;
  int64_t batch = 0;
  int64_t inputs = 0;
  int64_t hidden = 0;
  int64_t directions = 1;
  int64_t gates = 0;  // the number of gates of a cell
  int64_t parts = 0;  // the number of parts of a saved row
  bool batch_first = false;
  Shape y;
  Shape state;
  Shape saved;

  // The places of rows in x, y, states and saved, of step t, example n and direction d.
  int64_t X(int64_t t, int64_t n) const {
    return (batch_first ? n * steps + t : t * batch + n) * inputs;
  }
  int64_t Y(int64_t t, int64_t n, int64_t d) const {
    return (batch_first ? (n * steps + t) * directions + d : (t * directions + d) * batch + n) *
           hidden;
  }
  int64_t State(int64_t n, int64_t d) const {
    return (batch_first ? n * directions + d : d * batch + n) * hidden;
  }
  int64_t Saved(int64_t t, int64_t n, int64_t d) const {
    return ((d * steps + t) * batch + n) * parts * hidden;
  }
  // The places in a saved row of a GRU's term that the reset gate multiplies, and of the states.
  int64_t TermPart() const { return gates * hidden; }
  int64_t CPart() const { return (parts - 2) * hidden; }
  int64_t HPart() const { return (parts - 1) * hidden; }
};
// Checks the inputs of a layer and returns its shape. Errors: INVALID_ARGUMENT naming the input or
// the attribute that does not fit.
absl::StatusOr<RecurrentShape> ResolveRecurrent(const RecurrentInputs& inputs,
                                                const RecurrentParameters& parameters);
// Checks the gradients of outputs and the saved rows that cohort.RecurrentGrad takes. Errors:
// INVALID_ARGUMENT naming the input.
absl::Status CheckRecurrentGrad(const KernelContext& context, const Tensor& x,
                                const RecurrentShape& shape);

// Which steps of a batch count. A step that does not count keeps the states. Its output is that of
// the last step that counted, or zeros if there was none yet or if masked steps give zeros.
// Immutable; thread-safe.
class RecurrentMask {
 public:
  // Reads the mask of inputs that ResolveRecurrent has checked.
  RecurrentMask(const RecurrentInputs& inputs, const RecurrentParameters& parameters,
                const RecurrentShape& shape);

  // Returns whether all steps count.
  bool IsWhole() const { return counts_.empty(); }
  bool Counts(int64_t t, int64_t n) const {
    return IsWhole() || counts_[static_cast<size_t>(t * batch_ + n)] != 0;
  }
  bool gives_zeros() const { return gives_zeros_; }

 private:
  int64_t batch_ = 0;
  bool gives_zeros_ = false;
  std::vector<uint8_t> counts_;  // [steps,batch]
};

}  // namespace cohort
