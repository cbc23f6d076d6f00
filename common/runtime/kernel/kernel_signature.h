#pragma once

// The numbers and the element types of the inputs and outputs that a kernel takes. Signatures are
// declared where kernels are registered, so a program is refused before it runs, and the message
// names every node that does not fit. tests/device/kernel_types_test.cc checks the declarations
// against what the kernels do.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/program/value_types.h"
#include "common/tensor/dtype.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// A set of element types. A value; thread-compatible.
class DTypeSet {
 public:
  constexpr DTypeSet(std::initializer_list<DType> dtypes) {
    for (const DType dtype : dtypes) bits_ |= Bit(dtype);
  }
  static constexpr DTypeSet All() {
    return {DType::kFloat32, DType::kUint8,   DType::kInt8,    DType::kInt32,   DType::kInt64,
            DType::kBool,    DType::kFloat16, DType::kFloat64, DType::kBfloat16};
  }

  constexpr bool Contains(DType dtype) const { return (bits_ & Bit(dtype)) != 0; }
  // Returns the types' names, as in "float32, int64", in the order of the types' numbers.
  std::string ToString() const;

 private:
  static constexpr uint32_t Bit(DType dtype) { return 1u << static_cast<int32_t>(dtype); }

  uint32_t bits_ = 0;
};

struct Signature {
  int min_inputs = 1;  // inputs that must be present; later inputs are optional
  int max_inputs = 1;
  // One set of types per input; the last set counts for all further inputs.
  std::vector<DTypeSet> inputs = {};
  int max_outputs = 1;
  DTypeSet outputs = DTypeSet::All();
};

inline constexpr int kAnyNumber = 1 << 20;

// Checks the numbers of a node's inputs and outputs. Errors: INVALID_ARGUMENT if the node has too
// few or too many inputs or outputs.
absl::Status CheckArity(const onnx::NodeProto& node, const Signature& signature);

// Returns one sentence for each value of the node whose type the kernel lacks: "input 0 'x' is
// float16, but its kernel has float32, float64". A value of unknown type is not reported here; the
// kernel checks its type when it runs.
std::vector<std::string> LackingTypes(const onnx::NodeProto& node, const Signature& signature,
                                      const ValueTypes& types);

}  // namespace cohort
