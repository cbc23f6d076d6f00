#pragma once

// Kernels by (domain, operator, backend). Registration is an explicit call list: RegisterCpuKernels
// and RegisterReferenceKernels fill a registry; nothing registers itself.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/kernel/kernel_signature.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

struct RunContext;
class CudaStream;

// The view that a kernel has of one execution of its node. `Output` returns the buffer to write,
// from the memory plan or fresh. The runner adds the node's name to a kernel's error.
// Thread-compatible.
class KernelContext {
 public:
  virtual ~KernelContext() = default;
  virtual int num_inputs() const = 0;
  // Returns a tensor without value for an optional input that is absent.
  virtual const Tensor& input(int i) const = 0;
  virtual bool output_wanted(int i) const = 0;
  // Allocates output i; call once per wanted output, after the last check of the inputs.
  virtual Tensor& Output(int i, DType dtype, const Shape& shape) = 0;
  // Allocates like Output, but over the bytes of `input` if nothing needs them afterwards and the
  // size fits. For kernels whose element i depends on element i of that input alone.
  virtual Tensor& OutputOver(int i, int input, DType dtype, const Shape& shape) = 0;
  // Makes output i share input's bytes (Reshape, Identity).
  virtual void Forward(int i, const Tensor& value) = 0;
  virtual const RunContext& run() const = 0;
  // Returns the stream to which a device's kernel posts its work; only a device's kernel may call
  // this.
  virtual CudaStream& stream() const = 0;
};

class WaitingKernel;

// A node bound to its attributes. Immutable after construction; thread-safe.
class Kernel {
 public:
  virtual ~Kernel() = default;
  virtual absl::Status Run(KernelContext& context) const = 0;
  // Returns this kernel as a WaitingKernel, or null if it computes in Run().
  virtual const WaitingKernel* AsWaiting() const { return nullptr; }
};

// A kernel whose node waits, without a thread, for an event elsewhere. The runner calls Start
// instead of Run. Thread-safe.
class WaitingKernel : public Kernel {
 public:
  // The value of output 0, the only one.
  using Done = absl::AnyInvocable<void(absl::StatusOr<Tensor>)>;

  // Reads the inputs before it returns, and keeps no reference to `context`. `done` runs once, in
  // this call or on another thread.
  virtual void Start(KernelContext& context, Done done) const = 0;

  absl::Status Run(KernelContext& context) const final;
  const WaitingKernel* AsWaiting() const final { return this; }
};

// Binds a node that the signature fits.
using KernelFactory =
    std::function<absl::StatusOr<std::unique_ptr<Kernel>>(const onnx::NodeProto& node)>;

// The place where a device's kernel wants an input: on the device, in host memory, or either, if it
// reads no more than the input's type and shape.
enum class InputPlace { kDevice, kHost, kEither };

struct KernelDefinition {
  Signature signature;
  KernelFactory make;

  // The places of a device's kernel, indexed like signature.inputs; none: all on the device.
  std::vector<InputPlace> places = {};
  bool follows = false;          // runs on the device only if its first input is there
  bool outputs_on_host = false;  // else they are on the device
  int rank = kAnyRank;           // the rank that its first input must have

  static constexpr int kAnyRank = -1;

  InputPlace place(size_t input) const {
    if (places.empty()) return InputPlace::kDevice;
    return input < places.size() ? places[input] : places.back();
  }
};

// Thread-compatible; constant once filled.
class KernelRegistry {
 public:
  void Add(const std::string& domain, const std::string& op, KernelDefinition definition);
  // Replaces the definition of an operator that has one.
  void Replace(const std::string& domain, const std::string& op, KernelDefinition definition);
  // Returns nullptr if there is none.
  const KernelDefinition* Find(const std::string& domain, const std::string& op) const;
  const KernelDefinition* FindFor(const onnx::NodeProto& node) const;
  // Returns why no kernel fits the node, one sentence each: "has no kernel", or a type that the
  // kernel lacks.
  std::vector<std::string> Problems(const onnx::NodeProto& node, const ValueTypes& types) const;
  // Returns (domain, operator) of all kernels, sorted.
  std::vector<std::pair<std::string, std::string>> Names() const;

 private:
  std::map<std::pair<std::string, std::string>, KernelDefinition> definitions_;
};

}  // namespace cohort
