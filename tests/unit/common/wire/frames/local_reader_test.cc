// How many looks at a socket the receiving side of a local connection takes.

#include "common/wire/frames/local_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame_limits.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr size_t kBulk = size_t{100} << 10;

std::string WithLength(const proto::LocalFrame& frame) {
  return WithPrefix(frame, FrameSums::kNone);
}

// A call with a payload behind its frame.
std::string Bulky(uint64_t id) {
  proto::LocalFrame frame;
  frame.mutable_call()->set_id(id);
  frame.mutable_call()->set_method(kPush);
  frame.set_following(kBulk);
  return WithLength(frame) + Flatten({Bytes(kBulk, id)});
}

std::string Small(uint64_t id) {
  proto::LocalFrame frame;
  frame.mutable_call()->set_id(id);
  frame.mutable_call()->set_method(kPush);
  return WithLength(frame);
}

class LocalReaderTest : public testing::Test, public BlockReturn {
 protected:
  LocalReaderTest() {
    int ends[2] = {-1, -1};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
    sends_ = UniqueFd(ends[0]);
    receives_ = UniqueFd(ends[1]);
    const int size = 4 << 20;
    setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
  }
  void BlockRead(uint64_t, size_t) override {}

  void Send(const std::string& bytes) {
    ASSERT_EQ(send(sends_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT),
              static_cast<ssize_t>(bytes.size()));
  }
  void Look() {
    ASSERT_TRUE(
        reader_
            .ReadSome(receives_, {std::weak_ptr<BlockReturn>(),
                                  [](const proto::LocalFrame&) { return true; }, [](uint64_t) {},
                                  [this](proto::LocalFrame frame, Payload payload) {
                                    EXPECT_EQ(Flatten(payload),
                                              payload.empty()
                                                  ? ""
                                                  : Flatten({Bytes(kBulk, frame.call().id())}));
                                    taken_.push_back(frame.call().id());
                                    payloads_.push_back(std::move(payload));
                                    return true;
                                  },
                                  [this](const proto::LocalFrame&, size_t bytes) {
                                    EXPECT_EQ(bytes, kBulk);
                                    return std::exchange(place_, nullptr);
                                  }})
            .ok());
  }

  UniqueFd sends_, receives_;
  LocalReader reader_{{kMessageBytesMax, /*blocks=*/false}};
  std::shared_ptr<ReceivePlace> place_;  // of the next payload that asks
  std::vector<uint64_t> taken_;
  std::vector<Payload> payloads_;
};

// Otherwise most of such a payload would be read together with its frame, and copied.
TEST_F(LocalReaderTest, BehindALargePayloadAFrameIsReadAloneAndItsPayloadGoesToItsPlace) {
  Send(Bulky(1) + Bulky(2) + Bulky(3));
  while (taken_.empty()) Look();
  for (const uint64_t next : {2, 3}) {
    Look();
    ASSERT_EQ(taken_.size(), next);
    EXPECT_EQ(taken_.back(), next);
  }
}

TEST_F(LocalReaderTest, SmallFramesComeManyAtATime) {
  std::string frames = Bulky(1);
  for (uint64_t id = 2; id <= 500; ++id) frames += Small(id);
  Send(frames);
  while (taken_.empty()) Look();
  Look();
  EXPECT_LT(taken_.size(), 100u) << "so little is read where another payload might follow";
  Look();
  ASSERT_EQ(taken_.size(), 500u);
  for (uint64_t id = 1; id <= 500; ++id) EXPECT_EQ(taken_[id - 1], id);
}

TEST_F(LocalReaderTest, APayloadIsReceivedInThePlaceThatItIsGiven) {
  std::vector<std::byte> memory(kBulk);
  place_ = std::make_shared<ReceivePlace>(absl::MakeSpan(memory));
  Send(Bulky(1) + Bulky(2));
  while (taken_.size() < 2) Look();
  ASSERT_EQ(payloads_[0].size(), 1u);
  EXPECT_EQ(payloads_[0][0].data, memory.data());
  EXPECT_NE(payloads_[1][0].data, memory.data());
}

// Its bytes are on the socket all the same, before those of the next frame.
TEST_F(LocalReaderTest, APlaceThatIsRevokedIsNotWrittenAnyMore) {
  std::vector<std::byte> memory(kBulk);
  const auto place = std::make_shared<ReceivePlace>(absl::MakeSpan(memory));
  place_ = place;
  const std::string frame = Bulky(1);
  Send(frame.substr(0, frame.size() - kBulk / 2));
  Look();
  Look();
  EXPECT_NE(memory[0], std::byte{0}) << "half of it has come";
  place->Revoke();
  std::fill(memory.begin(), memory.end(), std::byte{0});
  Send(frame.substr(frame.size() - kBulk / 2) + Bulky(2));
  while (taken_.size() < 2) Look();
  EXPECT_TRUE(payloads_[0].empty());
  EXPECT_EQ(PayloadBytes(payloads_[1]), kBulk);
  EXPECT_EQ(memory, std::vector<std::byte>(kBulk));
}

// Three messages with sums: one alone, one with a payload behind it, one in two parts.
std::string SummedMessages() {
  const std::string bytes = Flatten({Bytes(3000, 1)});
  const auto with = [&](proto::LocalFrame frame, const std::string& behind) {
    frame.set_following(behind.size());
    if (!behind.empty()) frame.set_following_crc(Crc32c(behind));
    return WithPrefix(frame, FrameSums::kCrc32c) + behind;
  };
  proto::LocalFrame call;
  call.mutable_call()->set_id(7);
  call.mutable_call()->set_method(kPush);
  call.set_header("header");
  proto::LocalFrame parts = call;
  parts.set_whole_bytes(3000);
  return with(call, "") + with(call, bytes.substr(0, 200)) + with(parts, bytes.substr(0, 1000)) +
         with({}, bytes.substr(1000));
}

struct Read {
  std::vector<std::string> messages;  // method, header and payload
  absl::Status status;
};

// The callbacks that collect what is read; no handler has a place for a payload.
template <typename Reads>
absl::Status Collect(Read& read, const Reads& reads) {
  return reads({std::weak_ptr<BlockReturn>(), [](const proto::LocalFrame&) { return true; },
                [](uint64_t) {},
                [&read](proto::LocalFrame frame, Payload payload) {
                  read.messages.push_back(absl::StrCat(frame.call().id(), frame.call().method(),
                                                       frame.header(), Flatten(payload)));
                  return true;
                },
                [](const proto::LocalFrame&, size_t) { return nullptr; }});
}

// Returns what a reader takes from bytes that come in pieces of this size, not from a socket.
Read TakeAll(const std::string& sent, size_t piece_bytes) {
  const auto owner = std::make_shared<const std::string>(sent);
  Payload pieces;
  for (size_t begin = 0; begin < sent.size(); begin += piece_bytes) {
    pieces.push_back({owner, reinterpret_cast<const std::byte*>(owner->data()) + begin,
                      std::min(piece_bytes, sent.size() - begin)});
  }
  LocalReader reader({kMessageBytesMax, /*blocks=*/false, FrameSums::kCrc32c});
  Read read;
  read.status =
      Collect(read, [&](const LocalReader::Sinks& sinks) { return reader.Take(pieces, sinks); });
  return read;
}

// What a reader makes of all that was sent.
Read ReadAll(const std::string& sent) {
  int ends[2] = {-1, -1};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends), 0);
  const UniqueFd receives(ends[1]);
  {
    const UniqueFd sends(ends[0]);
    EXPECT_EQ(send(sends.get(), sent.data(), sent.size(), 0), static_cast<ssize_t>(sent.size()));
  }
  LocalReader reader({kMessageBytesMax, /*blocks=*/false, FrameSums::kCrc32c});
  Read read;
  while (read.status.ok()) {
    read.status = Collect(
        read, [&](const LocalReader::Sinks& sinks) { return reader.ReadSome(receives, sinks); });
  }
  return read;
}

TEST(SummedFrames, NoBitThatChangesOnTheWayChangesWhatIsReadOrKeepsTheReaderWaiting) {
  const std::string sent = SummedMessages();
  const Read whole = ReadAll(sent);
  ASSERT_EQ(whole.messages.size(), 3u) << whole.status;
  EXPECT_TRUE(absl::IsUnavailable(whole.status)) << "the other end has closed: " << whole.status;
  for (size_t byte = 0; byte < sent.size(); ++byte) {
    std::string came = sent;
    came[byte] ^= static_cast<char>(1 << (byte % 8));
    const Read read = ReadAll(came);
    // Who waits for bytes that never come finds out only when the other end closes.
    EXPECT_TRUE(IsMalformed(read.status)) << "byte " << byte << ": " << read.status;
    ASSERT_LT(read.messages.size(), 3u) << "byte " << byte;
    for (size_t i = 0; i < read.messages.size(); ++i) {
      ASSERT_EQ(read.messages[i], whole.messages[i]) << "byte " << byte;
    }
  }
}

TEST(SummedFrames, BytesMayBeCutAnywhere) {
  const std::string sent = SummedMessages() + SummedMessages();
  const Read whole = ReadAll(sent);
  ASSERT_EQ(whole.messages.size(), 6u);
  for (const size_t piece_bytes : {1, 2, 3, 5, 11, 12, 13, 100, 999, 1000, 5000, 10000}) {
    const Read read = TakeAll(sent, piece_bytes);
    EXPECT_TRUE(read.status.ok()) << piece_bytes << ": " << read.status;
    EXPECT_EQ(read.messages, whole.messages) << piece_bytes;
  }
}

TEST(SummedFrames, NoBitThatChangesInBytesThatAreCutChangesWhatIsRead) {
  const std::string sent = SummedMessages();
  const Read whole = TakeAll(sent, sent.size());
  ASSERT_EQ(whole.messages.size(), 3u) << whole.status;
  for (size_t byte = 0; byte < sent.size(); ++byte) {
    std::string came = sent;
    came[byte] ^= static_cast<char>(1 << (byte % 8));
    const Read read = TakeAll(came, 1 + byte % 97);
    EXPECT_TRUE(IsMalformed(read.status)) << "byte " << byte << ": " << read.status;
    ASSERT_LT(read.messages.size(), 3u) << "byte " << byte;
    for (size_t i = 0; i < read.messages.size(); ++i) {
      ASSERT_EQ(read.messages[i], whole.messages[i]) << "byte " << byte;
    }
  }
}

TEST(SummedFrames, WhatTheOtherEndCouldNotReadIsSaidHere) {
  proto::LocalFrame last;
  last.set_ended_because("the sum of 12 bytes");
  const Read read = ReadAll(WithPrefix(last, FrameSums::kCrc32c));
  EXPECT_TRUE(IsMalformed(read.status));
  EXPECT_THAT(std::string(read.status.message()), testing::HasSubstr("the sum of 12 bytes"));
}

}  // namespace
}  // namespace cohort
