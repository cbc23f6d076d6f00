#include "ps_server/service/half_payload.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "common/runtime/kernel/half_floats.h"

namespace cohort {

namespace {

ByteSlice Whole(const std::shared_ptr<Buffer>& buffer) {
  return {buffer, buffer->data(), buffer->size()};
}

// Takes `count` elements of type `dtype` from the cursor and writes them to `out` as float32.
void ReadFloats(PayloadCursor& cursor, DType dtype, size_t count, float* out) {
  const size_t element = ElementSize(dtype);
  // PayloadCursor::Next returns at most kBlockBytes at a time.
  const size_t block_max = kBlockBytes / element;
  while (count > 0) {
    const size_t block = std::min(count, block_max);
    const std::byte* const bytes = cursor.Next(block * element);
    if (dtype == DType::kFloat32) {
      std::memcpy(out, bytes, block * element);
    } else {
      WidenFloats(reinterpret_cast<const uint16_t*>(bytes), block, dtype, out);
    }
    out += block;
    count -= block;
  }
}

}  // namespace

ByteSlice NarrowPayload(const Payload& floats, DType dtype) {
  size_t count = PayloadBytes(floats) / sizeof(float);
  const auto buffer = Buffer::Allocate(count * ElementSize(dtype));
  auto* out = reinterpret_cast<uint16_t*>(buffer->data());
  PayloadCursor cursor(floats);
  while (count > 0) {
    const size_t block = std::min(count, kBlockBytes / sizeof(float));
    NarrowFloats(reinterpret_cast<const float*>(cursor.Next(block * sizeof(float))), block, dtype,
                 out);
    out += block;
    count -= block;
  }
  return Whole(buffer);
}

Payload WidenNext(PayloadCursor& cursor, size_t count, DType dtype) {
  const auto buffer = Buffer::Allocate(count * sizeof(float));
  ReadFloats(cursor, dtype, count, reinterpret_cast<float*>(buffer->data()));
  return {Whole(buffer)};
}

Payload ScatterNext(PayloadCursor& cursor, absl::Span<const int32_t> positions, DType dtype,
                    size_t size) {
  std::vector<float> values(positions.size());
  ReadFloats(cursor, dtype, values.size(), values.data());
  const auto buffer = Buffer::Allocate(size * sizeof(float));
  // An element of the gradient that was not sent is zero.
  std::memset(buffer->data(), 0, buffer->size());
  auto* const out = reinterpret_cast<float*>(buffer->data());
  for (size_t i = 0; i < values.size(); ++i) out[positions[i]] = values[i];
  return {Whole(buffer)};
}

}  // namespace cohort
