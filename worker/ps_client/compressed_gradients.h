#pragma once

// The form in which the gradients of one push travel: in full, in 16 bits, or only the largest
// elements of each slice ("top-k"), with the rest kept for the next push (GradientResiduals). The
// TensorMetas in the message tell the receiver the form.
//
// Elements that a top-k push leaves out are not lost: the worker adds them to the next gradient of
// the same slice (error feedback). Over many pushes, the sum of what was sent is the sum of the
// gradients minus the present residual. Every gradient element is in one place at a time: in the
// message of a push, with a push under way, or in the residuals. So no element is applied twice,
// however pushes end and overlap. A new epoch begins without residuals, because steps may then run
// again from an earlier cut, with their whole gradients.

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

// Returns the positions of the `count` elements with the largest absolute values, in ascending
// order. Of equal absolute values, earlier elements are taken first. NaN counts as larger than
// every number, so that it is sent and not hidden. `count` is at most the number of elements.
std::vector<int32_t> LargestElements(absl::Span<const float> elements, size_t count);

// A slice's gradient plus residual, split into what a top-k push sends and what stays for the next
// push.
struct TopK {
  Tensor positions;  // int32[count]: positions in the slice of the elements that are sent
  Tensor values;     // [count]: the elements that are sent, in the type in which they travel
  // The new residual if the home of the slice applied the push: gradient plus residual, minus what
  // was sent. The rounding errors of 16-bit values stay in this residual.
  std::vector<float> left_if_taken;
  // The new residual if it is unknown whether the push was applied: the old residual without the
  // elements that were sent. The gradient itself is not kept, because the closure runs again and
  // computes it again. Empty: there is no residual.
  std::vector<float> left_otherwise;
};

// Splits gradient + residual into its `count` largest elements, converted to `dtype` (float32,
// float16 or bfloat16), and the rest. An empty residual counts as zeros.
TopK KeepLargest(absl::Span<const float> gradient, std::vector<float> residual, size_t count,
                 DType dtype);

// The residuals: for each slice, the sum of the gradient elements that top-k pushes have not sent.
// A residual is as large as its slice, exists in this worker only, and is lost with the worker.
// Thread-safe.
class GradientResiduals {
 public:
  // Removes and returns the residual of a slice with `elements` elements. Returns an empty vector
  // if there is none, or if `epoch` is over. The caller has the residual until it gives the new one
  // to Add().
  std::vector<float> Take(uint64_t epoch, uint32_t slice_id, size_t elements);

  // Adds `left` to the residual of the slice. Drops `left` if `epoch` is not the newest epoch.
  void Add(uint64_t epoch, uint32_t slice_id, std::vector<float> left);

 private:
  Mutex mutex_;
  uint64_t epoch_ ABSL_GUARDED_BY(mutex_) = 0;
  // The residual of each slice, by slice id.
  std::map<uint32_t, std::vector<float>> left_ ABSL_GUARDED_BY(mutex_);
};

// The gradients in one push call to one home, and their residuals. The caller calls Add() for each
// slice, then Settle() once. Thread-compatible.
class CompressedGradients {
 public:
  CompressedGradients(const Compression& compression, std::shared_ptr<GradientResiduals> residuals,
                      uint64_t epoch)
      : compression_(compression), residuals_(std::move(residuals)), epoch_(epoch) {}

  // Appends the elements `elements` of `value` to the payload in the form in which they travel. On
  // entry, `pushed.tensor` describes these elements as they are in `value`; Add() changes it to the
  // form that travels. Rows of a table (kRows) are always sent in full number, perhaps in 16 bits.
  enum class Kind { kSlice, kRows };
  struct Elements {
    size_t first = 0;
    size_t count = 0;
  };
  void Add(Kind kind, const Tensor& value, Elements elements, proto::PushSlice& pushed,
           Payload& payload);

  // Adds what was not sent to the residuals when the call has ended. `taken` lists the slices for
  // which the home has answered that it applied the push.
  void Settle(absl::Span<const uint32_t> taken);

 private:
  // The two possible residuals of one slice, kept here until the call has ended.
  struct Left {
    uint32_t slice_id = 0;
    // The residual if the home applied the push (TopK::left_if_taken), and the residual otherwise.
    std::vector<float> if_taken;
    std::vector<float> otherwise;
  };

  // Returns how many of a slice's `count` elements are sent: all of them if leaving some out would
  // save no bytes.
  size_t KeptOf(size_t count) const;

  const Compression compression_;
  // The residuals of this worker; shared with the PsClient.
  const std::shared_ptr<GradientResiduals> residuals_;
  const uint64_t epoch_;
  std::vector<Left> left_;
};

}  // namespace cohort
