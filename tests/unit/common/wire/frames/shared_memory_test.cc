// Memory that is sent without a copy: it is read where it lies, not written again before, and never
// again when its reader was lost.

#include "common/wire/frames/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/rng.h"
#include "common/base/standard_output.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/wire/frames/local_socket.h"
#include "proto/local.pb.h"
#include "tests/support/network/local_transport.h"
#include "tests/unit/common/wire/transport_test_world.h"

namespace cohort {
namespace {

constexpr size_t kLarge = size_t{5} << 20;

ByteSlice SliceOf(const std::shared_ptr<Buffer>& buffer, ByteRange range) {
  return {buffer, buffer->data() + range.begin, range.count, nullptr, buffer->memory()};
}

// A server that keeps what it gets until it is told to answer.
class SharedMemoryTest : public testing::Test {
 protected:
  SharedMemoryTest() {
    Service service;
    service.descriptor = google::protobuf::DescriptorPool::generated_pool()->FindServiceByName(
        "cohort.proto.PsService");
    service.handlers["Pull"] = [](Message, Reply reply) { reply(Message()); };
    service.handlers["Push"] = [this](Message request, Reply reply) {
      MutexLock lock(mutex_);
      request_ = std::move(request);
      reply_ = std::move(reply);
      came_.NotifyAll();
    };
    auto server = transport_.Listen("cohort-test:0", {service});
    EXPECT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    channel_ = transport_.Connect(server_->address(), Lane::kData);
    Call(kPull);  // after it each end knows that the other takes blocks
  }

  void Call(const char* method) {
    Outcome outcome;
    channel_->Start(method, Message(), kLong, outcome.Completion());
    ASSERT_TRUE(outcome.WaitFor(kLong));
    EXPECT_TRUE(outcome.Take().ok());
  }

  // Sends, and returns what the server has now.
  const Payload& Send(Payload payload) {
    sent_ = std::make_unique<Outcome>();
    call_ = channel_->Start(kPush, Message{"", std::move(payload)}, kLong, sent_->Completion());
    MutexLock lock(mutex_);
    while (reply_ == nullptr) came_.Wait(mutex_);
    return request_.payload;
  }

  void Answer() {
    Reply reply;
    {
      MutexLock lock(mutex_);
      request_.payload.clear();
      reply = std::move(reply_);
    }
    reply(Message());
    ASSERT_TRUE(sent_->WaitFor(kLong));
    Call(kPull);  // what the server read came back with an answer
  }

  LocalTransport transport_;
  const std::shared_ptr<OutputPool> pool_ = std::make_shared<OutputPool>(transport_.MemoryToSend());
  std::unique_ptr<Server> server_;
  std::shared_ptr<Channel> channel_;
  std::unique_ptr<Outcome> sent_;
  std::unique_ptr<cohort::Call> call_;
  Mutex mutex_;
  CondVar came_;
  Message request_ ABSL_GUARDED_BY(mutex_);
  Reply reply_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(SharedMemoryTest, IsReadWhereItLies) {
  const std::shared_ptr<Buffer> buffer = pool_->Take(kLarge);
  ASSERT_NE(buffer->memory(), nullptr);
  std::memset(buffer->data(), 1, kLarge);
  const Payload& came = Send({SliceOf(buffer, {0, kLarge})});
  ASSERT_EQ(PayloadBytes(came), kLarge);
  ASSERT_NE(came[0].data, buffer->data()) << "the other end maps it by itself";
  buffer->data()[kLarge - 1] = std::byte{9};
  EXPECT_EQ(came[0].data[kLarge - 1], std::byte{9});
  Answer();
}

TEST_F(SharedMemoryTest, StandsBetweenWhatIsCopied) {
  const std::shared_ptr<Buffer> one = pool_->Take(kLarge), other = pool_->Take(kLarge);
  for (size_t i = 0; i < kLarge; ++i) {
    one->data()[i] = static_cast<std::byte>(Mix64(i));
    other->data()[i] = static_cast<std::byte>(Mix64(i + kLarge));
  }
  for (const size_t copied : {size_t{100}, size_t{300000}, size_t{6} << 20}) {
    SCOPED_TRACE(copied);
    const ByteSlice heap = Bytes(copied, 7);
    const Payload payload = {SliceOf(one, {5, 100000}),
                             heap,
                             SliceOf(other, {0, kLarge}),
                             {},
                             SliceOf(one, {200000, 64}),  // too small to lend
                             SliceOf(one, {kLarge - 70000, 70000}),
                             heap};
    EXPECT_TRUE(Flatten(Send(payload)) == Flatten(payload));
    Answer();
  }
}

TEST_F(SharedMemoryTest, TooManyPiecesAreCopied) {
  const std::shared_ptr<Buffer> buffer = pool_->Take(kLarge);
  std::memset(buffer->data(), 1, kLarge);
  Payload payload(kRangesMax, SliceOf(buffer, {0, kLentBytesMin}));
  EXPECT_EQ(BytesToCopy(payload), 0u);
  EXPECT_TRUE(Flatten(Send(payload)) == Flatten(payload));
  Answer();
  payload.push_back(payload[0]);
  EXPECT_EQ(BytesToCopy(payload), PayloadBytes(payload)) << "the server is asked for room for them";
  EXPECT_TRUE(Flatten(Send(payload)) == Flatten(payload));
  Answer();
}

TEST_F(SharedMemoryTest, IsWrittenAgainOnceItWasRead) {
  std::shared_ptr<Buffer> buffer = pool_->Take(kLarge);
  const std::byte* const first = buffer->data();
  Send({SliceOf(buffer, {0, kLarge})});
  buffer.reset();
  EXPECT_NE(pool_->Take(kLarge)->data(), first) << "the server reads it";
  Answer();
  std::vector<std::shared_ptr<Buffer>> again = {pool_->Take(kLarge), pool_->Take(kLarge)};
  EXPECT_TRUE(again[0]->data() == first || again[1]->data() == first);
}

// Whoever sent it may have given up long ago, or sent the same once more.
TEST_F(SharedMemoryTest, IsNotWrittenWhileAReaderStandsStill) {
  std::shared_ptr<Buffer> buffer = pool_->Take(kLarge);
  std::memset(buffer->data(), 4, kLarge);
  const std::byte* const first = buffer->data();
  Send({SliceOf(buffer, {0, kLarge})});
  Message held;
  Reply late;
  {
    MutexLock lock(mutex_);
    held = std::move(request_);
    late = std::exchange(reply_, nullptr);
  }
  call_->Cancel();
  ASSERT_TRUE(sent_->WaitFor(kLong));
  EXPECT_FALSE(sent_->Take().ok());
  const Payload& again = Send({SliceOf(buffer, {0, kLarge})});
  EXPECT_EQ(again[0].data, held.payload[0].data) << "it was mapped for the first";
  buffer.reset();
  Answer();
  EXPECT_NE(pool_->Take(kLarge)->data(), first) << "the first is still read";
  EXPECT_EQ(held.payload[0].data[kLarge - 1], std::byte{4});
  held.payload.clear();
  late(Message());
  Call(kPull);
  const std::vector<std::shared_ptr<Buffer>> both = {pool_->Take(kLarge), pool_->Take(kLarge)};
  EXPECT_TRUE(both[0]->data() == first || both[1]->data() == first);
}

TEST_F(SharedMemoryTest, IsNeverWrittenAgainWhenItsReaderWasLost) {
  std::shared_ptr<Buffer> buffer = pool_->Take(kLarge);
  std::memset(buffer->data(), 3, kLarge);
  const std::byte* const first = buffer->data();
  const Payload& came = Send({SliceOf(buffer, {0, kLarge})});
  EXPECT_TRUE(buffer->memory()->writable());
  server_.reset();  // ends the connection, and still reads
  ASSERT_TRUE(sent_->WaitFor(kLong));
  EXPECT_FALSE(sent_->Take().ok());
  while (buffer->memory()->writable()) std::this_thread::yield();     // until the end is seen
  const std::shared_ptr<const BufferMemory> held = buffer->memory();  // or the address is free
  buffer.reset();
  EXPECT_NE(pool_->Take(kLarge)->data(), first);
  EXPECT_EQ(came[0].data[kLarge - 1], std::byte{3});
}

TEST_F(SharedMemoryTest, SmallAndHugeBuffersAndThoseAboveTheirNumberAreTheHeaps) {
  const AllocateBuffer allocate = transport_.MemoryToSend();
  EXPECT_EQ(allocate(kSharedBufferBytesMin - 1)->memory(), nullptr);
  EXPECT_EQ(allocate(kSharedBufferBytesMax + 1)->memory(), nullptr) << "no peer would map it";
  std::vector<std::shared_ptr<Buffer>> buffers;
  for (int i = 0; i < kSharedBuffersMax; ++i) {
    buffers.push_back(allocate(kSharedBufferBytesMin));
    ASSERT_NE(buffers.back()->memory(), nullptr);
  }
  EXPECT_EQ(allocate(kSharedBufferBytesMin)->memory(), nullptr);
  buffers.pop_back();
  EXPECT_NE(allocate(kSharedBufferBytesMin)->memory(), nullptr);
}

// Returns how many lines of the log have this event.
int LinesOf(const std::string& log, const std::string& event) {
  int lines = 0;
  for (size_t at = log.find(event); at != std::string::npos; at = log.find(event, at + 1)) ++lines;
  return lines;
}

// Files of this process may have one page while an object of this class lives, and so may memory
// that is shared.
class FilesOfOnePage {
 public:
  FilesOfOnePage() {
    IgnoreSignalsOfWrites();
    EXPECT_EQ(getrlimit(RLIMIT_FSIZE, &before_), 0);
    const rlimit limit = {4096, before_.rlim_max};
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FilesOfOnePage() { EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &before_), 0); }

 private:
  rlimit before_ = {};
};

TEST_F(SharedMemoryTest, WhereThereIsNonePayloadsTakeTheSocketAndOneLineSaysWhy) {
  testing::internal::CaptureStderr();
  {
    const FilesOfOnePage limit;
    for (const size_t bytes : {size_t{300000}, size_t{300000}, kLarge, kLarge}) {
      const Payload payload = {Bytes(bytes, 7)};
      EXPECT_TRUE(Flatten(Send(payload)) == Flatten(payload)) << bytes;
      Answer();
    }
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_NE(log.find("ftruncate: File too large: a file of this process may have 4096 bytes"),
            std::string::npos)
      << log;
  // Small and large payloads may have a connection each.
  EXPECT_LE(LinesOf(log, "event=no_shared_block"), 2) << log;
}

TEST(SharedMemoryMaker, SaysOnceThatMemoryIsNotShared) {
  const AllocateBuffer allocate = SharedMemoryMaker();
  testing::internal::CaptureStderr();
  {
    const FilesOfOnePage limit;
    for (int i = 0; i < 3; ++i) EXPECT_EQ(allocate(kLarge)->memory(), nullptr);
  }
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(LinesOf(log, "event=no_shared_block"), 1) << log;
  EXPECT_NE(allocate(kLarge)->memory(), nullptr);
}

TEST(LentMemory, KeepsItsOwnersAndForgetsWhatIsGone) {
  uint64_t last = 0;
  const auto new_id = [&] { return ++last; };
  const AllocateBuffer allocate = SharedMemoryMaker();
  std::shared_ptr<Buffer> buffer = allocate(kLarge);
  const auto memory = [&] {
    return std::static_pointer_cast<const SharedMemory>(buffer->memory());
  };
  LentMemory lent;
  EXPECT_TRUE(lent.Lend(memory(), buffer, new_id).is_new);
  EXPECT_FALSE(lent.Lend(memory(), buffer, new_id).is_new);
  EXPECT_EQ(buffer.use_count(), 3);
  EXPECT_EQ(lent.GiveBack(2), nullptr);
  EXPECT_NE(lent.GiveBack(1), nullptr);
  EXPECT_NE(lent.GiveBack(1), nullptr);
  EXPECT_EQ(lent.GiveBack(1), nullptr) << "it was lent twice";
  EXPECT_TRUE(lent.TakeGone().empty());
  buffer.reset();
  EXPECT_EQ(lent.TakeGone(), std::vector<uint64_t>{1});
  EXPECT_TRUE(lent.TakeGone().empty());
  buffer = allocate(kLarge);
  EXPECT_TRUE(lent.Lend(memory(), buffer, new_id).is_new);
  EXPECT_EQ(lent.Lose().size(), 1u);
  EXPECT_FALSE(buffer->memory()->writable());
}

// What a peer says of where its payload lies.
class RangesTest : public SharedMemoryTest {
 protected:
  static proto::LocalFrame Frame(uint64_t block, uint64_t begin, uint64_t bytes) {
    proto::LocalFrame frame;
    frame.mutable_call()->set_id(1);
    frame.mutable_call()->set_method(kPull);
    frame.set_payload("0123456789");
    proto::LocalRange* const range = frame.add_ranges();
    range->set_block(block);
    range->set_begin(begin);
    range->set_bytes(bytes);
    return frame;
  }

  // True when the server ends the connection.
  bool EndsAfter(const proto::LocalFrame& frame, int passed_fd = -1) {
    absl::StatusOr<UniqueFd> socket = ConnectLocal(server_->address());
    EXPECT_TRUE(socket.ok()) << socket.status();
    std::string bytes = frame.SerializeAsString();
    const size_t size = bytes.size();
    bytes.insert(0, 4, '\0');
    for (size_t i = 0; i < 4; ++i) bytes[i] = static_cast<char>(size >> (8 * i));
    EXPECT_TRUE(SendSome(*socket, bytes, passed_fd).ok());
    std::vector<char> buffer(1000);
    std::vector<UniqueFd> passed;
    while (true) {
      const auto count = ReceiveSome(*socket, absl::MakeSpan(buffer), passed);
      if (!count.ok()) return true;
      if (*count > 0) return false;
    }
  }
};

TEST_F(RangesTest, OutsideTheirBlockEndTheConnection) {
  EXPECT_FALSE(EndsAfter(Frame(0, 3, 7)));
  EXPECT_TRUE(EndsAfter(Frame(0, 3, 8)));
  EXPECT_TRUE(EndsAfter(Frame(0, 11, 0)));
  EXPECT_TRUE(EndsAfter(Frame(0, ~uint64_t{0}, 8)));
  EXPECT_TRUE(EndsAfter(Frame(7, 0, 1))) << "unknown";
  const auto block = MakeSharedBlock(4096);
  ASSERT_TRUE(block.ok());
  proto::LocalFrame shown = Frame(5, 4000, 96);
  shown.set_shown(5);
  EXPECT_TRUE(EndsAfter(shown)) << "without a descriptor";
  EXPECT_FALSE(EndsAfter(shown, block->fd.get()));
  shown.mutable_ranges(0)->set_bytes(97);
  EXPECT_TRUE(EndsAfter(shown, block->fd.get()));
}

TEST_F(RangesTest, OfNoMessageOrTooManyEndTheConnection) {
  proto::LocalFrame no_message = Frame(0, 0, 5);
  no_message.clear_kind();
  EXPECT_TRUE(EndsAfter(no_message));
  proto::LocalFrame in_parts = Frame(0, 0, 5);
  in_parts.set_whole_bytes(10);
  EXPECT_TRUE(EndsAfter(in_parts));
  proto::LocalFrame behind = Frame(0, 0, 5);
  behind.set_following(10);
  EXPECT_TRUE(EndsAfter(behind));
  proto::LocalFrame many = Frame(0, 0, 5);
  for (size_t i = 1; i < kRangesMax; ++i) *many.add_ranges() = many.ranges(0);
  EXPECT_FALSE(EndsAfter(many));
  *many.add_ranges() = many.ranges(0);
  EXPECT_TRUE(EndsAfter(many));
}

}  // namespace
}  // namespace cohort
