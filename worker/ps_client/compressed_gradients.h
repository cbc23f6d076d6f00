#pragma once

// The form in which the gradients of one push travel: in full, in 16 bits, or the largest elements
// of each slice alone, with the rest kept for the next push (gradient_residuals.h). The receiver
// sees the form in the message's own metas.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/types/span.h"
#include "common/wire/message.h"
#include "proto/ps.pb.h"
#include "worker/ps_client/gradient_residuals.h"
#include "worker/ps_client/transfer_plan.h"

namespace cohort {

// The gradients of the push to one server. Thread-compatible: first it is built, then settled.
class CompressedGradients {
 public:
  CompressedGradients(const Compression& compression, std::shared_ptr<GradientResiduals> residuals,
                      uint64_t epoch)
      : compression_(compression), residuals_(std::move(residuals)), epoch_(epoch) {}

  // The elements of `value` that are appended to the payload; `pushed`, whose tensor has their type
  // and shape, tells how they travel. All elements of rows do.
  enum class Kind { kSlice, kRows };
  struct Elements {
    size_t first = 0;
    size_t count = 0;
  };
  void Add(Kind kind, const Tensor& value, Elements elements, proto::PushSlice& pushed,
           Payload& payload);

  // Settles when the push has ended: `taken` are the slices that said that they took it.
  void Settle(absl::Span<const uint32_t> taken);

 private:
  // The rest of one slice, until the push has ended.
  struct Left {
    uint32_t slice_id = 0;
    std::vector<float> if_taken;
    std::vector<float> otherwise;
  };

  // Returns how many elements of so many travel; all, if leaving some out saves nothing.
  size_t KeptOf(size_t count) const;

  const Compression compression_;
  const std::shared_ptr<GradientResiduals> residuals_;  // shared with the client
  const uint64_t epoch_;
  std::vector<Left> left_;
};

}  // namespace cohort
