#pragma once

// Kernels and their registry. A registry belongs to one backend and has at most one kernel for each
// (domain, operator). RegisterCpuKernels, RegisterReferenceKernels and the like fill a registry by
// explicit calls; no kernel registers itself.
//
// A kernel is registered with its signature, so a program is refused before it runs, and the
// message names every node that does not fit. tests/device/kernel_types_test.cc checks the
// signatures against what the kernels do.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/program/value_types.h"
#include "common/tensor/dtype.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

struct RunContext;
class CudaStream;

// The view that a kernel has of one execution of its node: inputs, outputs and the context of the
// run. `Output` returns the tensor that the kernel fills; its memory comes from the memory plan or
// is newly allocated. The runner adds the node's name to any error that a kernel returns.
// Thread-compatible.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual int num_inputs() const = 0;
  // Returns input i, or a tensor without value if input i is optional and absent.
  virtual const Tensor& input(int i) const = 0;
  virtual bool output_wanted(int i) const = 0;
  // Allocates output i and returns the tensor, which the kernel then fills. A kernel must check all
  // inputs first, and then call Output (or OutputOver or Forward) once for each wanted output.
  virtual Tensor& Output(int i, DType dtype, const Shape& shape) = 0;
  // Allocates output i like Output, but in the memory of input `input` if no later node reads this
  // input and the size fits. Only kernels may call this whose output element k depends on no
  // element of the input other than element k.
  virtual Tensor& OutputOver(int i, int input, DType dtype, const Shape& shape) = 0;
  // Makes output i share the bytes of `value`, an input of the node (Reshape, Identity).
  virtual void Forward(int i, const Tensor& value) = 0;
  virtual const RunContext& run() const = 0;
  // Returns the stream to which a device's kernel posts its work. Kernels of the processor must not
  // call stream().
  virtual CudaStream& stream() const = 0;
};

class WaitingKernel;

// The computation of one node, bound to the node's attributes. Immutable after construction;
// thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual absl::Status Run(KernelContext& context) const = 0;
  // Returns this kernel as a WaitingKernel, or null if it computes in Run().
  virtual const WaitingKernel* AsWaiting() const { return nullptr; }
};

// A kernel whose node waits, without blocking a thread, for something outside the run, such as
// other replicas. The runner calls Start instead of Run. Thread-safe.
class WaitingKernel : public Kernel {
 public:
  // A callback for the end of the wait. It gets the value of the node's only output, or an error.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  // Begins to wait. Start reads all inputs before it returns and keeps no reference to `context`.
  // `done` runs once, either inside this call or later on another thread.
  virtual void Start(KernelContext& context, Done done) const = 0;

  absl::Status Run(KernelContext& context) const final;
  const WaitingKernel* AsWaiting() const final { return this; }
};

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

// The numbers of inputs and outputs that a kernel takes, and their element types.
struct Signature {
  int min_inputs = 1;  // number of inputs that must be present; later inputs are optional
  int max_inputs = 1;
  // The element types that each input may have; the last set counts for all further inputs.
  std::vector<DTypeSet> inputs = {};
  int max_outputs = 1;
  DTypeSet outputs = DTypeSet::All();
};

inline constexpr int kAnyNumber = 1 << 20;

// Checks the numbers of a node's inputs and outputs. Errors: INVALID_ARGUMENT if the node has too
// few or too many inputs or outputs.
absl::Status CheckArity(const onnx::NodeProto& node, const Signature& signature);

// Returns one sentence for each value of the node whose type the kernel lacks: "input 0 'x' is
// float16, but its kernel has float32, float64". Several inputs of one wrong type give only one
// sentence, and outputs are checked only if no input is wrong. A value of unknown type is not
// reported, because the kernel checks the type when it runs.
std::vector<std::string> LackingTypes(const onnx::NodeProto& node, const Signature& signature,
                                      const ValueTypes& types);

// Makes a kernel for a node whose number of inputs and outputs fits the signature. Errors: an
// attribute that the kernel does not support.
using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const onnx::NodeProto& node)>;

// The memory in which a device's kernel wants an input: the device's or the host's. kEither is for
// a kernel that reads only the type and the shape of the input.
enum class InputPlace { kDevice, kHost, kEither };

struct KernelDefinition {
  Signature signature;
  KernelFactory make;

  // The memory in which a device's kernel wants each input, indexed like signature.inputs; the last
  // entry counts for all further inputs. An empty list means that all inputs are on the device.
  std::vector<InputPlace> places = {};
  // Whether the node runs on the device only if its first input is on the device.
  bool follows = false;
  bool outputs_on_host = false;  // whether the outputs are in host memory
  int rank = kAnyRank;           // the rank that the node's first input must have on the device

  static constexpr int kAnyRank = -1;

  InputPlace place(size_t input) const {
    if (places.empty()) return InputPlace::kDevice;
    return input < places.size() ? places[input] : places.back();
  }
};

// The kernels of one backend, found by domain and operator. Thread-compatible; constant once
// filled.
class KernelRegistry {
 public:
  void Add(const std::string& domain, const std::string& op, KernelDefinition definition);
  // Replaces the kernel of an operator that is registered already.
  void Replace(const std::string& domain, const std::string& op, KernelDefinition definition);
  // Returns the kernel's definition, or nullptr if the operator has no kernel.
  const KernelDefinition* Find(const std::string& domain, const std::string& op) const;
  const KernelDefinition* FindFor(const onnx::NodeProto& node) const;
  // Returns the reasons why no kernel fits the node, one sentence each: that the operator has no
  // kernel, or that the kernel lacks the type of one of the node's values.
  std::vector<std::string> Problems(const onnx::NodeProto& node, const ValueTypes& types) const;
  // Returns the (domain, operator) pairs of all kernels in sorted order.
  std::vector<std::pair<std::string, std::string>> Names() const;

 private:
  std::map<std::pair<std::string, std::string>, KernelDefinition> definitions_;
};

}  // namespace cohort
