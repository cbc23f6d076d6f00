#pragma once

// Conversions of values and gradients that travel in 16 bits or as single elements, to and from
// float32. A home keeps values, and does all arithmetic on them, in float32.

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/wire/message.h"
#include "ps_server/slice/payload_cursor.h"

namespace cohort {

// Returns the floats of a payload converted to float16 or bfloat16, in one piece of memory.
ByteSlice NarrowPayload(const Payload& floats, DType dtype);

// Returns the next `count` elements of the cursor, float16 or bfloat16, converted to float32.
Payload WidenNext(PayloadCursor& cursor, size_t count, DType dtype);

// Returns `size` floats that are zero except at `positions`. Takes one element for each position
// from the cursor; the elements are float32, float16 or bfloat16. The caller has checked that the
// positions lie below `size`.
Payload ScatterNext(PayloadCursor& cursor, absl::Span<const int32_t> positions, DType dtype,
                    size_t size);

}  // namespace cohort
