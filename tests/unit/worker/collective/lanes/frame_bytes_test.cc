#include "worker/collective/lanes/frame_bytes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cohort {
namespace {

Payload InPieces(const std::vector<std::string>& pieces) {
  Payload payload;
  for (const std::string& piece : pieces) {
    payload.push_back({nullptr, reinterpret_cast<const std::byte*>(piece.data()), piece.size()});
  }
  return payload;
}

TEST(FrameBytes, BytesInPieceEndAtTheBorder) {
  const std::vector<std::string> pieces = {"abc", "", "defgh"};
  const Payload payload = InPieces(pieces);
  EXPECT_EQ(BytesInPiece(payload, 0), 3u);
  EXPECT_EQ(BytesInPiece(payload, 2), 1u);
  EXPECT_EQ(BytesInPiece(payload, 3), 5u);
  EXPECT_EQ(BytesInPiece(payload, 7), 1u);
  EXPECT_EQ(BytesInPiece(payload, 8), 0u);
  EXPECT_EQ(BytesInPiece({}, 0), 0u);
}

TEST(FrameBytes, BytesOfOnePieceStayWhereTheyAreAndOthersAreCopied) {
  const std::vector<std::string> pieces = {"abc", "defgh"};
  const Payload payload = InPieces(pieces);
  std::vector<std::byte> spare;
  EXPECT_EQ(BytesAt(payload, 4, 3, spare), payload[1].data + 1);
  EXPECT_TRUE(spare.empty());
  const std::byte* const copied = BytesAt(payload, 1, 4, spare);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(copied), 4), "bcde");
  EXPECT_EQ(copied, spare.data());
}

}  // namespace
}  // namespace cohort
