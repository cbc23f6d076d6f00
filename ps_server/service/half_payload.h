#pragma once

// Conversions to and from float32, for values and gradients that travel in 16 bits and for
// gradients of which only some elements are sent, with their positions. A home keeps and computes
// all such values in float32.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "ps_server/slice/payload_cursor.h"

namespace cohort {

// Converts a payload of float32 numbers to `dtype` (float16 or bfloat16). Returns the converted
// numbers in one contiguous buffer.
ByteSlice NarrowPayload(const Payload& floats, DType dtype);

// Reads the next `count` elements of type `dtype` (float16 or bfloat16) from the cursor and returns
// them as float32.
Payload WidenNext(PayloadCursor& cursor, size_t count, DType dtype);

// Reads one element of type `dtype` (float32, float16 or bfloat16) from the cursor for each of
// `positions`. Returns `size` float32 numbers that have these elements at their positions and zeros
// elsewhere. The caller has checked that the positions are below `size`.
Payload ScatterNext(PayloadCursor& cursor, absl::Span<const int32_t> positions, DType dtype,
                    size_t size);

}  // namespace cohort
