#include "common/base/utf8.h"

namespace cohort {

size_t Utf8CharacterBytes(absl::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const size_t size = first >= 0xf0 && first <= 0xf4   ? 4
                      : first >= 0xe0 && first <= 0xef ? 3
                      : first >= 0xc2 && first <= 0xdf ? 2
                                                       : 0;
  if (size == 0 || text.size() < size) return 0;
  for (size_t i = 1; i < size; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 0;
  }
  // Codes of more bytes than they need, halves of pairs, and numbers above U+10FFFF are none.
  const auto second = static_cast<unsigned char>(text[1]);
  const bool is_valid = !(first == 0xe0 && second < 0xa0) && !(first == 0xed && second > 0x9f) &&
                        !(first == 0xf0 && second < 0x90) && !(first == 0xf4 && second > 0x8f);
  return is_valid ? size : 0;
}

bool IsUtf8(absl::string_view text) {
  while (!text.empty()) {
    const size_t size = Utf8CharacterBytes(text);
    if (size == 0) return false;
    text.remove_prefix(size);
  }
  return true;
}

}  // namespace cohort
