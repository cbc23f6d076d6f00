#pragma once

// The form in which the gradients of one push travel: in full, in 16 bits, or only the largest
// elements of each slice, with the rest kept for the next push (gradient_residuals.h). The receiver
// learns the form from the tensor metas in the message.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"
#include "worker/ps_client/gradient_residuals.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

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
