#pragma once

// Data that a test packs with zlib itself. A test that includes this header links ZLIB::ZLIB.

#include <zlib.h>

#include <string>

#include "gtest/gtest.h"

namespace cohort {

// Values of `window_bits` for Packed(), as zlib's deflateInit2() takes them.
inline constexpr int kGzipBits = 31;
inline constexpr int kZlibBits = 15;

// Returns `data` as one gzip member or one zlib stream.
inline std::string Packed(const std::string& data, int window_bits, int level = 6) {
  z_stream stream{};
  EXPECT_EQ(deflateInit2(&stream, level, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string packed(deflateBound(&stream, data.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(data.data()));
  stream.avail_in = static_cast<uInt>(data.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

}  // namespace cohort
