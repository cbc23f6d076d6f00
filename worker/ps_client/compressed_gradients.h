#pragma once

// The form in which the gradients of one push travel: in full, in 16 bits, or only the largest
// elements of each slice, with the rest kept for the next push (GradientResiduals). The receiver
// learns the form from the tensor metas in the message.
//
// Elements that a top-k push leaves out are not lost: the worker adds them to the next gradient of
// the same slice (error feedback). Over many pushes, the sum of what was sent is the sum of the
// gradients minus the present rest. Every gradient element is in one place at a time: in a push's
// message, with a push under way, or in the residuals. So no element is applied twice, however
// pushes end and overlap. A new epoch begins without residuals, because steps may then run again
// from an earlier cut, with their whole gradients.

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/base/mutex.h"
#include "common/tensor/tensor.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

// Returns the positions, ascending, of the `count` elements with the largest absolute values. Among
// equal values, earlier elements come first. NaN counts as larger than every number, so that NaN is
// sent and not hidden. `count` is at most the number of elements.
std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count);

// The elements of a slice that a top-k push sends, and the rest of the slice, which is kept for the
// next push.
struct TopK {
  Tensor positions;  // int32[count] positions of the sent elements in the slice
  Tensor values;     // [count] sent values, in the type in which they are sent
  // The rest if the server applied the push: gradient plus residual, minus what was sent. The rest
  // includes the rounding errors of 16-bit values.
  std::vector<float> left_if_taken;
  // The rest if it is unknown whether the server applied the push: the old residual without the
  // elements that were sent. The gradient itself is not kept, because it is computed again with the
  // closure. Empty: there is no rest.
  std::vector<float> left_otherwise;
};

// Returns the `count` largest elements of gradient + residual as `dtype` (float32, float16 or
// bfloat16), and the rest. An empty residual counts as zeros.
TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype);

// The residuals: for each slice, the gradient elements that top-k pushes have not sent. Residuals
// exist in this worker only, are as large as their slices, and are lost with the worker.
// Thread-safe.
class GradientResiduals {
 public:
  // Removes and returns the residual of a slice that has `elements` elements, or returns an empty
  // vector if there is none. The caller owns the residual until it adds the new one with Add().
  std::vector<float> Take(uint64_t epoch, uint32_t slice_id, size_t elements);

  // Adds `left` to the residual of the slice. `left` is dropped if `epoch` is no longer the present
  // epoch.
  void Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left);

 private:
  Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The residuals by slice id.
  std::map<uint32_t, std::vector<float>> left_ ABSL_GUARDED_BY(mutex_);
};

// The gradients that one call pushes to one server. Add() is called for each slice, then Settle()
// once. Thread-compatible.
class CompressedGradients {
 public:
  CompressedGradients(const Compression& compression, std::shared_ptr<GradientResiduals> residuals,
                      uint64_t epoch)
      : compression_(compression), residuals_(std::move(residuals)), epoch_(epoch) {}

  // Appends elements of `value` to the payload in the form in which they are sent. On entry,
  // `pushed.tensor` describes the elements as they are in `value`; Add() changes it to the sent
  // form. Top-k does not apply to kRows.
  enum class Kind { kSlice, kRows };
  struct Elements {
    size_t first = 0;
    size_t count = 0;
  };
  void Add(Kind kind, const Tensor& value, Elements elements, proto::PushSlice& pushed,
           Payload& payload);

  // Keeps the unsent rests for the next push, when this push has ended. `taken` lists the slices
  // for which the server reports that it applied the push.
  void Settle(absl::Span<const uint32_t> taken);

 private:
  // The unsent rest of one slice's gradient, kept here until the push has ended.
  struct Left {
    uint32_t slice_id = 0;
    // The rest that is kept if the server has applied the push, and the rest that is kept
    // otherwise.
    std::vector<float> if_taken;
    std::vector<float> otherwise;
  };

  // Returns how many of a slice's `count` elements are sent: all of them if leaving some out saves
  // no bytes.
  size_t KeptOf(size_t count) const;

  const Compression compression_;
  // The unsent rests of gradients from earlier pushes, shared with the client.
  const std::shared_ptr<GradientResiduals> residuals_;
  const uint64_t epoch_;
  std::vector<Left> left_;
};

}  // namespace cohort
