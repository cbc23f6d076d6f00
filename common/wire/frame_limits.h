#pragma once

#include <cstddef>

namespace cohort {

// The largest message, header and payload together. Protobuf stops at 2 GiB, and one message may be
// allocated before anything of it is known to make sense.
inline constexpr size_t kMessageBytesMax = size_t{1} << 30;

// The header holds ids, names and graphs, never tensors.
inline constexpr size_t kHeaderBytesMax = size_t{256} << 20;

}  // namespace cohort
