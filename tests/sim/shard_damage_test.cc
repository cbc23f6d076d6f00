// Chunks of shards that come damaged, short, or not at all, between a parameter server that the
// test plays and the coordinator.

#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "coordinator/homes/shard_stream.h"
#include "tests/support/network/sim_transport.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

constexpr size_t kChunk = 5;

Payload PayloadOf(const std::string& bytes) {
  const auto owner = std::make_shared<const std::string>(bytes);
  return {{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()}};
}

std::string BytesOf(const Payload& payload) {
  std::string bytes;
  for (const ByteSlice& slice : payload) {
    bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  return bytes;
}

// Answers by a function, later.
class PlayedChannel final : public Channel {
 public:
  using Answer = std::function<absl::StatusOr<Message>(absl::string_view method, Message request)>;
  PlayedChannel(SimWorld& world, Answer answer) : world_(world), answer_(std::move(answer)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    world_.Run([this, method = std::string(method), request = std::move(request),
                done = std::move(done)]() mutable { done(answer_(method, std::move(request))); });
    return nullptr;
  }

 private:
  SimWorld& world_;
  const Answer answer_;
};

class ShardDamage : public testing::Test {
 protected:
  TaskLink Link(PlayedChannel::Answer answer) {
    TaskLink link;
    link.task.set_role("ps");
    link.task.set_index(3);
    link.data = std::make_shared<PlayedChannel>(world_, std::move(answer));
    return link;
  }

  // Downloads kFile; `spoil` is asked before each answer to ReadShard, by its number from 1.
  using Spoil = std::function<absl::Status(int read, Envelope<proto::ReadShardResponse>& answer)>;
  absl::StatusOr<std::vector<proto::SavedSlice>> Download(Spoil spoil) {
    proto::SavedSlice slice;
    slice.set_tensor("w");
    slice.set_size(static_cast<int64_t>(kFile.size()));
    absl::StatusOr<std::vector<proto::SavedSlice>> result = absl::UnknownError("it never ended");
    const auto answer = [&](absl::string_view method, Message request) -> absl::StatusOr<Message> {
      if (absl::EndsWith(method, "/ReleaseShard")) return Message();
      const auto header = Unpack<proto::ReadShardRequest>(std::move(request))->header;
      offsets_.push_back(header.offset());
      const std::string bytes = kFile.substr(header.offset(), header.max_bytes());
      Envelope<proto::ReadShardResponse> response{{}, PayloadOf(bytes)};
      response.header.set_crc32c(Crc32c(bytes));
      RETURN_IF_ERROR(spoil(static_cast<int>(offsets_.size()), response));
      return Pack(std::move(response));
    };
    StartShardDownload(World{world_, world_, disk_, *transport_},
                       {Link(answer), {}, {"/c", 0, 1}, {slice}, absl::Seconds(1), kChunk},
                       [&](auto ended) { result = std::move(ended); });
    world_.RunFor(absl::Minutes(1));
    return result;
  }
  std::string Written() { return ReadFile(disk_, "/c.data-00000-of-00001").value_or("no file"); }

  const std::string kFile = "twelve bytes";
  SimWorld world_{1};
  SimNetwork network_{world_};
  const std::unique_ptr<Transport> transport_ = network_.TransportOf("chief:0");
  MemoryFileSystem disk_;
  std::vector<uint64_t> offsets_;  // that were asked for
};

using Offsets = std::vector<uint64_t>;

TEST_F(ShardDamage, AChunkWithAWrongChecksumIsReadAgain) {
  const auto saved = Download([](int read, Envelope<proto::ReadShardResponse>& answer) {
    if (read == 2 || read == 3) answer.payload = PayloadOf("XXXXX");
    return absl::OkStatus();
  });
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(Written(), kFile);
  EXPECT_EQ((*saved)[0].crc32c(), Crc32c(kFile));
  EXPECT_EQ(offsets_, (Offsets{0, 5, 5, 5, 10}));
}

TEST_F(ShardDamage, AChunkThatStaysDamagedNamesItsServerAndLeavesNoFile) {
  const auto saved = Download([](int read, Envelope<proto::ReadShardResponse>& answer) {
    if (read > 1) answer.header.set_crc32c(answer.header.crc32c() ^ 1);
    return absl::OkStatus();
  });
  EXPECT_TRUE(absl::IsDataLoss(saved.status())) << saved.status();
  EXPECT_EQ(ClassOf(saved.status()), proto::TRANSIENT);
  EXPECT_EQ(DetailOf(saved.status()).origin().index(), 3);
  EXPECT_EQ(Written(), "no file");
  EXPECT_EQ(offsets_, (Offsets{0, 5, 5, 5}));
}

TEST_F(ShardDamage, AChunkThatIsLostIsAskedForAgainAndAShortOneContinued) {
  const auto saved = Download([](int read, Envelope<proto::ReadShardResponse>& answer) {
    if (read == 1 || read == 3) return absl::UnavailableError("the connection broke");
    if (read != 4) return absl::OkStatus();
    answer.payload = PayloadOf("e ");
    answer.header.set_crc32c(Crc32c("e "));
    return absl::OkStatus();
  });
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_EQ(Written(), kFile);
  EXPECT_EQ(offsets_, (Offsets{0, 0, 5, 5, 7}));
}

TEST_F(ShardDamage, ADamagedChunkOfARestoreIsSentAgain) {
  const Tensor value = Tensor::FromVector<float>({1, 2, 3, 4, 5}, Shape{5});
  const auto writer = *DataShardWriter::Create(disk_, "/r", 0, 1);
  ASSERT_TRUE(writer->Add("w", Shape{5}, {0, 5}, value).ok());
  ASSERT_TRUE(WriteIndex(disk_, "/r", 1, *writer->Finish()).ok());
  std::string staged;
  int writes = 0;
  bool restored = false;
  const auto answer = [&](absl::string_view method, Message request) -> absl::StatusOr<Message> {
    if (absl::EndsWith(method, "/StageRestore")) {
      Envelope<proto::StageRestoreResponse> response;
      proto::StagedRows& rows = *response.header.add_rows();
      rows.set_tensor("w");
      rows.set_row_begin(1);
      rows.set_row_count(3);
      rows.set_size(12);
      return Pack(std::move(response));
    }
    if (absl::EndsWith(method, "/RestoreShard")) {
      restored = true;
      return Message();
    }
    const auto chunk = *Unpack<proto::WriteStagedRequest>(std::move(request));
    const std::string bytes = BytesOf(chunk.payload);
    EXPECT_LE(bytes.size(), kChunk);
    EXPECT_EQ(chunk.header.offset(), staged.size());
    EXPECT_EQ(chunk.header.crc32c(), Crc32c(bytes));
    if (++writes == 2) {
      return MakeError(absl::StatusCode::kDataLoss, "it came damaged", proto::TRANSIENT);
    }
    staged += bytes;
    return Message();
  };
  absl::Status result = absl::UnknownError("it never ended");
  StartShardUpload(World{world_, world_, disk_, *transport_},
                   {Link(answer), *BundleReader::Open(disk_, "/r"), {}, absl::Seconds(1), kChunk},
                   [&](absl::Status status) { result = status; });
  world_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_TRUE(restored);
  EXPECT_EQ(writes, 4);
  EXPECT_EQ(staged, std::string(reinterpret_cast<const char*>(value.raw()) + 4, 12));
}

proto::SavedSlice Saved(const std::string& tensor, ShardPiece piece, int64_t row_begin,
                        int64_t row_count) {
  proto::SavedSlice slice;
  slice.set_tensor(tensor);
  slice.set_offset(static_cast<int64_t>(piece.offset));
  slice.set_size(static_cast<int64_t>(piece.size));
  slice.set_row_begin(row_begin);
  slice.set_row_count(row_count);
  return slice;
}

proto::StagedRows Rows(const std::string& tensor, int64_t begin, int64_t count, uint64_t size) {
  proto::StagedRows rows;
  rows.set_tensor(tensor);
  rows.set_row_begin(begin);
  rows.set_row_count(count);
  rows.set_size(size);
  return rows;
}

TEST(ShardCopy, PiecesAreWhereTheRowsLie) {
  const std::vector<proto::SavedSlice> layout = {
      Saved("a", {0, 12}, 0, 3), Saved("b", {12, 8}, 4, 2), Saved("b", {20, 16}, 0, 4),
      Saved("c", {36, 0}, 0, 0)};
  const auto pieces = [&](std::vector<proto::StagedRows> rows) { return PiecesOf(rows, layout); };
  EXPECT_EQ(*pieces({Rows("a", 0, 3, 12)}), (std::vector<ShardPiece>{{0, 12}}));
  EXPECT_EQ(*pieces({Rows("a", 1, 1, 4), Rows("c", 0, 0, 0)}), (std::vector<ShardPiece>{{4, 4}}));
  EXPECT_EQ(*pieces({Rows("a", 0, 3, 12), Rows("b", 4, 2, 8)}), (std::vector<ShardPiece>{{0, 20}}))
      << "next to each other";
  EXPECT_EQ(*pieces({Rows("b", 1, 4, 16)}), (std::vector<ShardPiece>{{24, 12}, {12, 4}}));
  for (const proto::StagedRows& rows :
       {Rows("a", 2, 2, 8), Rows("b", 0, 2, 4), Rows("d", 0, 1, 4)}) {
    EXPECT_EQ(pieces({rows}).status().code(), absl::StatusCode::kInternal) << rows.tensor();
  }
}

// The homes are played. A chunk that came damaged is fetched again, one that came short is gone on
// with, and the source is released.
TEST_F(ShardDamage, ACopyFetchesChunkByChunk) {
  std::vector<std::pair<uint64_t, uint64_t>> fetched;  // where, and of how many bytes
  bool restored = false;
  bool released = false;
  const auto target = [&](absl::string_view method, Message request) -> absl::StatusOr<Message> {
    if (absl::EndsWith(method, "/StageRestore")) {
      const auto header = Unpack<proto::StageRestoreRequest>(std::move(request))->header;
      EXPECT_EQ(header.tensors_size(), 1);
      Envelope<proto::StageRestoreResponse> response;
      *response.header.add_rows() = Rows("w", 0, 12, 12);
      return Pack(std::move(response));
    }
    if (absl::EndsWith(method, "/RestoreShard")) {
      restored = true;
      return Message();
    }
    EXPECT_TRUE(absl::EndsWith(method, "/FetchStaged")) << method;
    const auto header = Unpack<proto::FetchStagedRequest>(std::move(request))->header;
    EXPECT_EQ(header.shard_offset(), 100 + header.offset());
    EXPECT_EQ(header.save(), 9u);
    EXPECT_EQ(header.from().address(), "source:1");
    fetched.emplace_back(header.offset(), header.max_bytes());
    if (fetched.size() == 2) {
      return MakeError(absl::StatusCode::kDataLoss, "it came damaged", proto::TRANSIENT);
    }
    Envelope<proto::FetchStagedResponse> response;
    response.header.set_bytes(fetched.size() == 3 ? 2 : header.max_bytes());
    return Pack(std::move(response));
  };
  const auto source = [&](absl::string_view method, Message) -> absl::StatusOr<Message> {
    released = absl::EndsWith(method, "/ReleaseShard");
    return Message();
  };
  ShardCopy options{Link(source), Link(target),     9,     {Saved("w", {100, 12}, 0, 12)},
                    {},           absl::Seconds(1), kChunk};
  options.source.address = "source:1";
  absl::Status result = absl::UnknownError("it never ended");
  StartShardCopy(World{world_, world_, disk_, *transport_}, std::move(options),
                 [&](absl::Status status) { result = std::move(status); });
  world_.RunFor(absl::Minutes(1));
  EXPECT_TRUE(result.ok()) << result;
  EXPECT_TRUE(restored);
  EXPECT_TRUE(released);
  EXPECT_EQ(fetched, (std::vector<std::pair<uint64_t, uint64_t>>{{0, 5}, {5, 5}, {5, 5}, {7, 5}}));
}

}  // namespace
}  // namespace cohort
