#include "common/wire/frame.h"

#include <gtest/gtest.h>

#include "common/wire/error_detail.h"
#include "proto/ps.pb.h"
#include "tests/support/sequence_rng.h"

namespace cohort {
namespace {

ByteSlice SliceOfString(std::string bytes) {
  auto owner = std::make_shared<const std::string>(std::move(bytes));
  return {owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()};
}

std::string Flatten(const Payload& payload) {
  std::string bytes;
  for (const ByteSlice& slice : payload) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

Payload Cut(const std::string& bytes, size_t size) {
  Payload payload;
  for (size_t i = 0; i < bytes.size(); i += size) {
    payload.push_back(SliceOfString(bytes.substr(i, size)));
    payload.push_back({});
  }
  return payload;
}

proto::PushRequest SampleHeader() {
  proto::PushRequest header;
  header.set_epoch(uint64_t{1} << 63);
  header.set_learning_rate(0.25);
  header.set_step(300);
  proto::PushSlice* slice = header.add_slices();
  slice->set_slice_id(7);
  slice->mutable_tensor()->set_dtype(1);
  slice->mutable_tensor()->add_dims(2);
  return header;
}

std::string SamplePayload(size_t size) {
  std::string bytes(size, '\0');
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(Mix64(i));
  return bytes;
}

TEST(Frame, TheGeneratedClassReadsOurBytes) {
  for (const size_t size : {1u, 127u, 128u, 100000u}) {
    const std::string bytes = SamplePayload(size);
    const auto frame = EncodeFrame(
        Message{
            SampleHeader().SerializeAsString(),
            {SliceOfString(bytes.substr(0, size / 2)), {}, SliceOfString(bytes.substr(size / 2))}},
        kMessageBytesMax);
    ASSERT_TRUE(frame.ok()) << frame.status();
    proto::PushRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(Flatten(*frame)));
    EXPECT_EQ(parsed.payload(), bytes);
    parsed.clear_payload();
    EXPECT_EQ(parsed.SerializeAsString(), SampleHeader().SerializeAsString());
  }
}

TEST(Frame, WeReadTheGeneratedClassesBytesHoweverTheyAreCut) {
  proto::PushRequest request = SampleHeader();
  request.set_payload(SamplePayload(300));
  const std::string wire = request.SerializeAsString();
  for (const size_t size : {1u, 2u, 3u, 7u, 64u, 100000u}) {
    const auto message = DecodeFrame(Cut(wire, size), kMessageBytesMax);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->header, SampleHeader().SerializeAsString());
    EXPECT_EQ(Flatten(message->payload), request.payload());
  }
}

TEST(Frame, TheGeneratedClassReadsACheckedMessageToo) {
  for (const size_t size : {0u, 1u, 100000u}) {
    const auto frame = EncodeCheckedFrame(
        Message{SampleHeader().SerializeAsString(), {SliceOfString(SamplePayload(size))}},
        kMessageBytesMax);
    ASSERT_TRUE(frame.ok()) << frame.status();
    proto::PushRequest parsed;
    ASSERT_TRUE(parsed.ParseFromString(Flatten(*frame)));
    EXPECT_EQ(parsed.payload(), SamplePayload(size));
    EXPECT_EQ(parsed.slices(0).slice_id(), 7u);
    const auto message = DecodeFrame(Cut(Flatten(*frame), 7), kMessageBytesMax);
    ASSERT_TRUE(message.ok()) << message.status();
    EXPECT_EQ(message->header, SampleHeader().SerializeAsString());
    EXPECT_EQ(Flatten(message->payload), SamplePayload(size));
  }
}

// One that changes the field of the sum into another leaves an unknown field, and the rest as it
// was.
TEST(Frame, NoBitThatChangesOnTheWayChangesWhatIsRead) {
  const auto frame = EncodeCheckedFrame(
      Message{SampleHeader().SerializeAsString(), {SliceOfString(SamplePayload(300))}},
      kMessageBytesMax);
  ASSERT_TRUE(frame.ok());
  const std::string sent = Flatten(*frame);
  size_t refused = 0;
  for (size_t bit = 0; bit < 8 * sent.size(); ++bit) {
    std::string came = sent;
    came[bit / 8] ^= static_cast<char>(1 << (bit % 8));
    const auto message = DecodeFrame(Cut(came, 64), kMessageBytesMax);
    if (!message.ok()) {
      EXPECT_TRUE(IsMalformed(message.status()) || absl::IsResourceExhausted(message.status()))
          << message.status();
      ++refused;
      continue;
    }
    proto::PushRequest header;
    ASSERT_TRUE(header.ParseFromString(message->header));
    header.DiscardUnknownFields();
    EXPECT_EQ(header.SerializeAsString(), SampleHeader().SerializeAsString()) << "bit " << bit;
    EXPECT_EQ(Flatten(message->payload), SamplePayload(300)) << "bit " << bit;
  }
  EXPECT_GT(refused, 8 * sent.size() - 16);
}

TEST(Frame, NoPayloadIsTheHeaderAlone) {
  const std::string header = SampleHeader().SerializeAsString();
  const auto frame = EncodeFrame(Message{header, {ByteSlice{}}}, kMessageBytesMax);
  ASSERT_TRUE(frame.ok());
  EXPECT_EQ(Flatten(*frame), header);
  const auto message = DecodeFrame(*frame, kMessageBytesMax);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->header, header);
  EXPECT_TRUE(message->payload.empty());
}

TEST(Frame, AnEmptyMessageIsNoBytes) {
  const auto message = DecodeFrame({}, kMessageBytesMax);
  ASSERT_TRUE(message.ok());
  EXPECT_EQ(message->header, "");
}

TEST(Frame, PayloadsAreNotCopied) {
  const ByteSlice slice = SliceOfString(SamplePayload(5000));
  const auto frame = EncodeFrame(Message{"", {slice}}, kMessageBytesMax);
  ASSERT_TRUE(frame.ok());
  const auto message = DecodeFrame(*frame, kMessageBytesMax);
  ASSERT_TRUE(message.ok());
  ASSERT_EQ(message->payload.size(), 1u);
  EXPECT_EQ(message->payload[0].data, slice.data);
}

TEST(Frame, RefusesWhatIsNoMessage) {
  proto::PullResponse with_payload;
  with_payload.set_payload("abc");
  const std::string good = with_payload.SerializeAsString();
  const std::vector<std::string> cases = {
      good + good,                                                  // the payload twice
      good + std::string("\x08\x01"),                               // not last
      good.substr(0, good.size() - 1),                              // cut
      std::string("\x00", 1),                                       // field 0
      std::string("\x0b"),                                          // a group
      std::string("\xc0\x3e\x01"),                                  // field 1000 as a number
      std::string("\x0a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),  // a length of 2^64 - 1
      std::string(11, '\xff'),                                      // an endless varint
  };
  for (const std::string& bytes : cases) {
    for (const size_t size : {1u, 100u}) {
      EXPECT_EQ(DecodeFrame(Cut(bytes, size), kMessageBytesMax).status().code(),
                absl::StatusCode::kInvalidArgument)
          << testing::PrintToString(bytes);
    }
  }
}

TEST(Frame, LimitsHoldOnBothEnds) {
  const Message message{"", {SliceOfString(SamplePayload(100))}};
  EXPECT_EQ(EncodeFrame(message, 99).status().code(), absl::StatusCode::kResourceExhausted);
  const auto frame = EncodeFrame(message, 100);
  ASSERT_TRUE(frame.ok());
  EXPECT_TRUE(DecodeFrame(*frame, 100).ok());
  EXPECT_EQ(DecodeFrame(*frame, 99).status().code(), absl::StatusCode::kResourceExhausted);
}

// A failure prints its seed; all seeds run in a few milliseconds.
TEST(Frame, SurvivesDamage) {
  proto::PushRequest request = SampleHeader();
  request.set_payload(SamplePayload(60));
  const std::string good = request.SerializeAsString();
  constexpr uint64_t kSeeds = 4000;
  int accepted = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    SequenceRng rng(seed);
    std::string bytes = good;
    for (uint64_t i = 0, n = 1 + rng.Below(4); i < n && !bytes.empty(); ++i) {
      const size_t at = rng.Below(bytes.size());
      switch (rng.Below(4)) {
        case 0:
          bytes[at] = static_cast<char>(rng.Next());
          break;
        case 1:
          bytes.resize(at);
          break;
        case 2:
          bytes.insert(at, 1 + rng.Below(12), static_cast<char>(rng.Next()));
          break;
        default:
          bytes.erase(at, 1 + rng.Below(12));
      }
    }
    const auto message = DecodeFrame(Cut(bytes, 1 + rng.Below(40)), kMessageBytesMax);
    if (!message.ok()) {
      EXPECT_EQ(message.status().code(), absl::StatusCode::kInvalidArgument);
      continue;
    }
    ++accepted;
    // What is accepted means the same to protobuf.
    proto::PushRequest whole, header;
    const bool parses = whole.ParseFromString(bytes);
    EXPECT_EQ(parses, header.ParseFromString(message->header));
    if (parses) {
      EXPECT_EQ(whole.payload(), Flatten(message->payload));
    }
  }
  EXPECT_GT(accepted, 0);
  EXPECT_LT(accepted, static_cast<int>(kSeeds));
}

}  // namespace
}  // namespace cohort
