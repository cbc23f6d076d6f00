#pragma once

// Conversions to and from float32 of values and gradients that are sent in 16 bits, or as single
// elements with their positions. A home keeps all values in float32 and computes in float32.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "ps_server/slice/payload_cursor.h"

namespace cohort {

// Converts a payload of float32 numbers to float16 or bfloat16. Returns them in one contiguous
// buffer.
ByteSlice NarrowPayload(const Payload& floats, DType dtype);

// Reads the next `count` elements (float16 or bfloat16) from the cursor and returns them converted
// to float32.
Payload WidenNext(PayloadCursor& cursor, size_t count, DType dtype);

// Returns `size` float32 numbers: those at `positions` are read from the cursor (as float32,
// float16 or bfloat16), and all others are zero. The caller has checked that the positions are
// below `size`.
Payload ScatterNext(PayloadCursor& cursor, absl::Span<const int32_t> positions, DType dtype,
                    size_t size);

}  // namespace cohort
