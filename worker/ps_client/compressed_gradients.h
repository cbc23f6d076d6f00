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

// The elements that a push carries, and the rest of the slice.
struct TopK {
  Tensor positions;  // int32[count] positions in the slice
  Tensor values;     // [count] values, in the type in which they travel
  // The rest if the push is applied: the sum minus what the push carries. The rest includes what a
  // 16-bit value cannot hold.
  std::vector<float> left_if_taken;
  // The rest if it is unknown whether the push was applied: the part of the residual that the push
  // does not carry. The gradient itself is not kept, because it is computed again with the closure.
  // Empty: there is no rest.
  std::vector<float> left_otherwise;
};

// Returns the `count` largest elements of gradient + residual as `dtype`, which is float32, float16
// or bfloat16. An empty residual counts as zeros.
TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype);

// The gradient elements that top-k pushes have left out, for each slice. They exist in this worker
// only, are as large as the slices that are pushed so, and are lost with the worker. Thread-safe.
class GradientResiduals {
 public:
  // Removes and returns the residual of a slice that has `elements` elements, or returns an empty
  // vector if there is none. The caller owns the residual until it adds the new one with Add().
  std::vector<float> Take(uint64_t epoch, uint32_t slice_id, size_t elements);

  // Adds `left` to the residual of the slice, or drops it if `epoch` is over.
  void Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left);

 private:
  Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // Residuals, keyed by slice.
  std::map<uint32_t, std::vector<float>> left_ ABSL_GUARDED_BY(mutex_);
};

// The gradients of the push to one server. Add() is called for each slice, then Settle() once.
// Thread-compatible.
class CompressedGradients {
 public:
  CompressedGradients(const Compression& compression, std::shared_ptr<GradientResiduals> residuals,
                      uint64_t epoch)
      : compression_(compression), residuals_(std::move(residuals)), epoch_(epoch) {}

  // Appends elements of `value` to the payload in the compressed form. On entry, the tensor of
  // `pushed` describes the elements as they are in `value`; Add() changes it to the form in which
  // they travel. Rows are never reduced to their largest elements.
  enum class Kind { kSlice, kRows };
  struct Elements {
    size_t first = 0;
    size_t count = 0;
  };
  void Add(Kind kind, const Tensor& value, Elements elements, proto::PushSlice& pushed,
           Payload& payload);

  // Settles the rests when the push has ended. `taken` lists the slices whose server reports that
  // it applied the push.
  void Settle(absl::Span<const uint32_t> taken);

 private:
  // The rest of one slice, kept until the push has ended.
  struct Left {
    uint32_t slice_id = 0;
    // The rest to keep if the server has applied the push, and the rest to keep if it has not.
    std::vector<float> if_taken;
    std::vector<float> otherwise;
  };

  // Returns how many of `count` elements travel: all of them if leaving some out saves no bytes.
  size_t KeptOf(size_t count) const;

  const Compression compression_;
  // Rests of earlier pushes, shared with the client.
  const std::shared_ptr<GradientResiduals> residuals_;
  const uint64_t epoch_;
  std::vector<Left> left_;
};

}  // namespace cohort
