#pragma once

// Values and gradients that travel in 16 bits, or as some elements alone: to and from the float32
// in which a ps keeps values and does all arithmetic.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "ps_server/slice/payload_cursor.h"

namespace cohort {

// Returns the floats of a payload as float16 or bfloat16, in one piece.
ByteSlice NarrowPayload(const Payload& floats, DType dtype);

// Returns the next `count` elements of float16 or bfloat16 as floats.
Payload WidenNext(PayloadCursor& cursor, size_t count, DType dtype);

// Returns `size` floats: the cursor's next ones, of float32 or one of these types, at their
// positions, and zeros elsewhere. The positions were checked.
Payload ScatterNext(PayloadCursor& cursor, absl::Span<const int32_t> positions, DType dtype,
                    size_t size);

}  // namespace cohort
