#include "common/base/excerpt.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"

namespace cohort {

namespace {

constexpr char kCut[] = "...";
constexpr size_t kCutBytes = sizeof(kCut) - 1;

// Returns a byte as text: the byte itself if it is printable, and \xNN otherwise.
std::string Printable(unsigned char byte) {
  const std::string one(1, static_cast<char>(byte));
  return absl::ascii_isprint(byte) ? one : absl::CHexEscape(one);
}

}  // namespace

std::string Excerpt(absl::string_view text) {
  std::string excerpt;
  // The longest length to which `excerpt` can be cut back and still have room for kCut behind it.
  size_t room_for_cut = 0;
  for (const char byte : text) {
    const std::string piece = Printable(static_cast<unsigned char>(byte));
    if (excerpt.size() + piece.size() > kExcerptBytesMax) {
      // The excerpt is cut between the texts of two bytes, so an escape \xNN is never cut in the
      // middle.
      return excerpt.substr(0, room_for_cut).append(kCut);
    }
    excerpt += piece;
    if (excerpt.size() + kCutBytes <= kExcerptBytesMax) room_for_cut = excerpt.size();
  }
  return excerpt;
}

}  // namespace cohort
