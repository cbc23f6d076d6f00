// Shards that are held, read where they lie, and staged before they are restored. The oracle is the
// file that the ps writes itself.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "tests/unit/ps_server/ps_test_support.h"

namespace cohort {
namespace {

const char kService[] = "/cohort.proto.PsService/";

class ExchangeTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(cluster_.CreateAll(LayOut(Model("random_normal"), 1)).ok()); }
  static std::vector<VariableSpec> Model(const std::string& initializer) {
    return {{"w", DType::kFloat32, Shape{5, 3}, Rule("rmsprop", {{"momentum", 0.5}}), initializer},
            {"s", DType::kFloat32, Shape{}, Rule("adam", {}), initializer},
            {"n", DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"}};
  }

  template <typename Response, typename Request>
  absl::StatusOr<Envelope<Response>> Call(const std::string& method, Request header,
                                          Payload payload = {}) {
    header.set_epoch(epoch_);
    return cluster_.Call<Response>(0, absl::StrCat(kService, method),
                                   Envelope<Request>{std::move(header), std::move(payload)});
  }

  absl::StatusOr<proto::HoldShardResponse> Hold(uint64_t number, const std::string& prefix = "/c") {
    proto::HoldShardRequest request = HoldRequest(prefix);
    request.set_save(number);
    ASSIGN_OR_RETURN(auto answer, Call<proto::HoldShardResponse>("HoldShard", request));
    return answer.header;
  }
  absl::StatusOr<proto::WriteShardResponse> Write(uint64_t number) {
    proto::WriteShardRequest request;
    request.set_save(number);
    ASSIGN_OR_RETURN(auto answer, Call<proto::WriteShardResponse>("WriteShard", request));
    return answer.header;
  }
  absl::Status Release(uint64_t number) {
    proto::ReleaseShardRequest request;
    request.set_save(number);
    return Call<proto::ReleaseShardResponse>("ReleaseShard", request).status();
  }
  bool IsHeld(uint64_t number) {
    const auto read = ReadChunk(number, 0, 1);
    EXPECT_TRUE(read.ok() || ClassOf(read.status()) == proto::STALE) << read.status();
    return read.ok();
  }
  absl::Status PushOne(uint64_t closure) {
    auto push = PushOf({.closure = closure, .step = closure},
                       {{1, Tensor::FromVector(std::vector<float>(15, 1.0f), Shape{5, 3})}});
    push.header.set_epoch(epoch_);
    return cluster_.Push(0, std::move(push)).status();
  }
  absl::StatusOr<std::string> ReadChunk(uint64_t save, uint64_t offset, uint64_t bytes) {
    proto::ReadShardRequest request;
    request.set_save(save);
    request.set_offset(offset);
    request.set_max_bytes(bytes);
    ASSIGN_OR_RETURN(auto answer, Call<proto::ReadShardResponse>("ReadShard", request));
    std::string read;
    for (const ByteSlice& slice : answer.payload) {
      read.append(reinterpret_cast<const char*>(slice.data), slice.size);
    }
    EXPECT_EQ(answer.header.crc32c(), Crc32c(read));
    return read;
  }

  proto::StageRestoreRequest StageRequest(const BundleReader& reader, uint64_t number) {
    proto::StageRestoreRequest request;
    request.set_restore(number);
    request.set_prefix("/c");
    request.set_applied(true);
    for (const auto& [name, tensor] : reader.tensors()) {
      proto::StoredTensorInfo& info = *request.add_tensors();
      info.set_name(name);
      info.set_dtype(static_cast<int32_t>(tensor.dtype));
      for (const int64_t dim : tensor.shape.dims()) info.add_dims(dim);
    }
    return request;
  }
  absl::Status WriteStaged(uint64_t number, uint64_t offset, const std::string& bytes,
                           uint32_t damage = 0) {
    proto::WriteStagedRequest request;
    request.set_restore(number);
    request.set_offset(offset);
    request.set_crc32c(Crc32c(bytes) ^ damage);
    const auto owner = std::make_shared<std::string>(bytes);
    return Call<proto::WriteStagedResponse>(
               "WriteStaged", request,
               {{owner, reinterpret_cast<const std::byte*>(owner->data()), owner->size()}})
        .status();
  }
  // How many bytes came.
  struct Bytes {
    uint64_t offset;
    uint64_t size;
  };
  absl::StatusOr<uint64_t> Fetch(uint64_t number, uint64_t offset, uint64_t save, Bytes of_shard,
                                 const std::string& address = "own") {
    proto::FetchStagedRequest request;
    request.set_restore(number);
    request.set_offset(offset);
    request.set_save(save);
    request.set_shard_offset(of_shard.offset);
    request.set_max_bytes(of_shard.size);
    request.set_timeout_ms(10'000);
    request.mutable_from()->mutable_task()->set_index(5);
    request.mutable_from()->set_address(address == "own" ? cluster_.address(0) : address);
    ASSIGN_OR_RETURN(auto answer, Call<proto::FetchStagedResponse>("FetchStaged", request));
    return answer.header.bytes();
  }
  absl::Status Commit(uint64_t number) {
    proto::RestoreShardRequest request;
    request.set_prefix("/c");
    request.set_applied(true);
    request.set_watermark(1);
    request.set_staged(number);
    return Call<proto::RestoreShardResponse>("RestoreShard", request).status();
  }
  // A checkpoint, then other values, a new epoch, and all bytes that its restore needs.
  void SaveAndChange() {
    ASSERT_TRUE(Hold(1).ok());
    const auto saved = Write(1);
    ASSERT_TRUE(saved.ok()) << saved.status();
    ASSERT_TRUE(
        WriteIndex(cluster_.files(), "/c", 1,
                   std::vector<proto::SavedSlice>(saved->slices().begin(), saved->slices().end()))
            .ok());
    before_ = Values();
    ASSERT_TRUE(PushOne(1).ok());
    changed_ = Values();
    ASSERT_NE(before_, changed_);
    NextEpoch();
    reader_ = *BundleReader::Open(cluster_.files(), "/c");
  }
  void NextEpoch() { ASSERT_TRUE(cluster_.Attach(0, ++epoch_, kTestCoordinator).ok()); }
  std::string Stage(uint64_t number) {
    const auto plan =
        Call<proto::StageRestoreResponse>("StageRestore", StageRequest(*reader_, number));
    EXPECT_TRUE(plan.ok()) << plan.status();
    std::string bytes;
    for (const proto::StagedRows& row : plan->header.rows()) {
      const Tensor value = *reader_->ReadRows(row.tensor(), {row.row_begin(), row.row_count()});
      EXPECT_EQ(value.num_bytes(), row.size());
      bytes.append(reinterpret_cast<const char*>(value.raw()), value.num_bytes());
    }
    return bytes;
  }
  std::string Values() {
    const auto answer = Call<proto::PullResponse>("Pull", PullOf({1, 2}).header);
    std::string bytes;
    for (const ByteSlice& slice : answer->payload) {
      bytes.append(reinterpret_cast<const char*>(slice.data), slice.size);
    }
    return bytes;
  }

  uint64_t epoch_ = kTestEpoch;
  PsCluster cluster_{1};
  std::unique_ptr<BundleReader> reader_;
  std::string before_, changed_;
};

TEST_F(ExchangeTest, AHeldShardIsTheFileInChunksOfAnySize) {
  const auto written_layout = Hold(1);
  auto written = Write(1);
  const auto held = Hold(2, "/d");
  ASSERT_TRUE(written.ok() && held.ok()) << written.status() << held.status();
  const std::string file = *ReadFile(cluster_.files(), "/c.data-00000-of-00001");
  for (proto::SavedSlice& slice : *written->mutable_slices()) {
    EXPECT_EQ(slice.crc32c(),
              Crc32c(absl::string_view(file).substr(static_cast<size_t>(slice.offset()),
                                                    static_cast<size_t>(slice.size()))));
    slice.clear_crc32c();
  }
  proto::HoldShardResponse expected;
  *expected.mutable_slices() = written->slices();
  expected.set_incarnation(900);  // of ps:0
  EXPECT_EQ(held->SerializeAsString(), expected.SerializeAsString());
  EXPECT_EQ(written_layout->SerializeAsString(), expected.SerializeAsString());
  for (const uint64_t chunk : {1, 3, 7, 64, 100000}) {
    std::string read;
    while (read.size() < file.size()) {
      const auto more = ReadChunk(2, read.size(), chunk);
      ASSERT_TRUE(more.ok()) << more.status();
      ASSERT_FALSE(more->empty());
      ASSERT_LE(more->size(), chunk);
      read += *more;
    }
    EXPECT_EQ(read, file);
  }
  EXPECT_TRUE(absl::IsInvalidArgument(ReadChunk(2, file.size(), 1).status()));
}

TEST_F(ExchangeTest, WhatIsHeldStaysAsItWasUnderPushesAndRepeats) {
  const auto held = Hold(1);
  const auto before = ReadChunk(1, 0, 100000);
  ASSERT_TRUE(PushOne(1).ok());
  const auto again = Hold(1);
  EXPECT_EQ(again->SerializeAsString(), held->SerializeAsString());
  EXPECT_EQ(*ReadChunk(1, 0, 100000), *before);
  const auto next = Hold(2, "/d");
  EXPECT_NE(*ReadChunk(2, 0, 100000), *before);
  ASSERT_TRUE(Write(1).ok());
  EXPECT_EQ(*ReadFile(cluster_.files(), "/c.data-00000-of-00001"), *before);
}

TEST_F(ExchangeTest, AShardIsWrittenOnceAndARepeatGetsTheAnswerAgain) {
  ASSERT_TRUE(Hold(1).ok());
  const auto written = Write(1);
  ASSERT_TRUE(written.ok()) << written.status();
  const std::string path = "/c.data-00000-of-00001";
  ASSERT_TRUE(WriteFileAtomically(cluster_.files(), path, "of a later save").ok());
  const auto again = Write(1);
  EXPECT_EQ(again->SerializeAsString(), written->SerializeAsString());
  EXPECT_EQ(*ReadFile(cluster_.files(), path), "of a later save");
  EXPECT_FALSE(IsHeld(1));
  EXPECT_EQ(ClassOf(Hold(1).status()), proto::STALE);
}

// Its writing may come late: a later one of the same files may be complete by then.
TEST_F(ExchangeTest, ALaterSaveOfAPrefixEndsTheOneBefore) {
  ASSERT_TRUE(Hold(1).ok());
  ASSERT_TRUE(Hold(3).ok());
  EXPECT_EQ(ClassOf(Write(1).status()), proto::STALE);
  EXPECT_EQ(ClassOf(Hold(2).status()), proto::STALE) << "it was sent before 3, and came after it";
  EXPECT_TRUE(Hold(4, "/d").ok()) << "another prefix";
  ASSERT_TRUE(Write(3).ok());
  EXPECT_EQ(ClassOf(Hold(2).status()), proto::STALE);
}

// A recovery checkpoint, one that the job asks for and a copy for another home are there at once.
TEST_F(ExchangeTest, AHeldShardEndsByReleaseByThreeOthersAndWithItsEpoch) {
  ASSERT_TRUE(Hold(1, "/a").ok());
  ASSERT_TRUE(Hold(2, "/b").ok());
  ASSERT_TRUE(Hold(3, "/c").ok());
  EXPECT_TRUE(IsHeld(1));
  ASSERT_TRUE(Hold(4, "/d").ok());
  EXPECT_FALSE(IsHeld(1));
  EXPECT_TRUE(IsHeld(2));
  ASSERT_TRUE(Release(2).ok());
  EXPECT_FALSE(IsHeld(2));
  EXPECT_EQ(ClassOf(Hold(2, "/b").status()), proto::STALE) << "a repeat that comes late";
  ASSERT_TRUE(Release(5).ok());
  EXPECT_EQ(ClassOf(Hold(5, "/e").status()), proto::STALE) << "it came behind its release";
  EXPECT_TRUE(IsHeld(3));
  EXPECT_TRUE(IsHeld(4));
  NextEpoch();
  EXPECT_FALSE(IsHeld(3));
  ASSERT_TRUE(Hold(1, "/a").ok()) << "numbers begin anew";
}

TEST_F(ExchangeTest, AStagedRestoreChangesNothingBeforeItsLastByteAndThenAll) {
  SaveAndChange();
  const std::string bytes = Stage(7);
  EXPECT_EQ(ClassOf(Commit(7)), proto::STALE);
  for (size_t at = 0; at < bytes.size(); at += 5) {
    EXPECT_EQ(Values(), changed_);
    ASSERT_TRUE(WriteStaged(7, at, bytes.substr(at, 5)).ok());
    ASSERT_TRUE(WriteStaged(7, at, bytes.substr(at, 5)).ok()) << "a repeat";
    EXPECT_EQ(Stage(7), bytes) << "a repeat begins nothing anew";
    if (at + 5 >= bytes.size()) continue;
    EXPECT_EQ(ClassOf(Commit(7)), proto::STALE);
  }
  ASSERT_TRUE(Commit(7).ok());
  EXPECT_EQ(Values(), before_);
  EXPECT_TRUE(Commit(7).ok()) << "its answer was lost";
  EXPECT_EQ(ClassOf(WriteStaged(7, 0, bytes.substr(0, 5))), proto::STALE);
}

TEST_F(ExchangeTest, ChunksThatAreLostDamagedOrBehindTheEndAreRefused) {
  SaveAndChange();
  const std::string bytes = Stage(7);
  EXPECT_EQ(ClassOf(WriteStaged(7, 5, bytes.substr(5, 5))), proto::STALE) << "the first is missing";
  EXPECT_EQ(ClassOf(WriteStaged(7, 0, bytes.substr(0, 5), /*damage=*/1)), proto::TRANSIENT);
  EXPECT_TRUE(absl::IsInvalidArgument(WriteStaged(7, bytes.size(), "x")));
  EXPECT_EQ(ClassOf(WriteStaged(6, 0, bytes.substr(0, 5))), proto::STALE);
  EXPECT_EQ(Values(), changed_);
  ASSERT_TRUE(WriteStaged(7, 0, bytes).ok()) << "none of them spoilt it";
  ASSERT_TRUE(Commit(7).ok());
  EXPECT_EQ(Values(), before_);
}

// The home that holds and the one that fetches are the same here.
TEST_F(ExchangeTest, WhatIsStagedIsFetchedFromAHomeThatHoldsIt) {
  const std::string before = Values();
  const auto held = Hold(2);
  ASSERT_TRUE(held.ok()) << held.status();
  ASSERT_TRUE(PushOne(1).ok());
  ASSERT_NE(Values(), before);
  proto::StageRestoreRequest stage;
  stage.set_restore(7);
  stage.set_prefix("/c");
  stage.set_applied(true);
  for (const proto::SavedSlice& slice : held->slices()) {
    proto::StoredTensorInfo& info = *stage.add_tensors();
    info.set_name(slice.tensor());
    info.set_dtype(slice.dtype());
    *info.mutable_dims() = slice.full_dims();
  }
  const auto plan = Call<proto::StageRestoreResponse>("StageRestore", stage);
  ASSERT_TRUE(plan.ok()) << plan.status();
  uint64_t at = 0;
  for (const proto::StagedRows& rows : plan->header.rows()) {
    const auto lies = std::find_if(held->slices().begin(), held->slices().end(),
                                   [&](const auto& one) { return one.tensor() == rows.tensor(); });
    EXPECT_EQ(at, static_cast<uint64_t>(lies->offset())) << "in the shard's order";
    for (uint64_t done = 0; done < rows.size();) {
      const auto from = static_cast<uint64_t>(lies->offset()) + done;
      const auto bytes = std::min<uint64_t>(rows.size() - done, 7);
      ASSERT_EQ(Fetch(7, at, 2, {from, bytes}).value_or(0), bytes);
      EXPECT_EQ(*Fetch(7, at, 2, {from, bytes}), bytes) << "a repeat";
      done += bytes;
      at += bytes;
    }
  }
  EXPECT_EQ(ClassOf(Fetch(7, 0, 3, {0, 7}).status()), proto::STALE) << "it holds no such save";
  EXPECT_EQ(ClassOf(Fetch(6, 0, 2, {0, 7}).status()), proto::STALE) << "nothing is staged so";
  const absl::Status nobody = Fetch(7, 0, 2, {0, 7}, "test:nowhere").status();
  EXPECT_EQ(ClassOf(nobody), proto::TRANSIENT) << nobody;
  EXPECT_EQ(DetailOf(nobody).origin().index(), 5) << "the other one is at fault";
  EXPECT_TRUE(absl::IsInvalidArgument(Fetch(7, 0, 2, {0, 7}, "").status()));
  ASSERT_TRUE(Commit(7).ok());
  EXPECT_EQ(Values(), before);
}

// A checkpoint of other slices: that shows when all has come.
TEST_F(ExchangeTest, AStagedRestoreThatFailsAnswersTheSameWhenItIsAskedForAgain) {
  SaveAndChange();
  const auto plan = Call<proto::StageRestoreResponse>("StageRestore", StageRequest(*reader_, 7));
  ASSERT_TRUE(plan.ok()) << plan.status();
  const std::string bytes = Stage(7);
  std::string other = bytes;
  size_t at = 0;
  for (const proto::StagedRows& row : plan->header.rows()) {
    const bool is_history = absl::StrContains(row.tensor(), "/.COHORT_APPLIED/");
    if (is_history) other[at] = static_cast<char>(other[at] - 1);  // its number of rows
    at += row.size();
  }
  ASSERT_TRUE(WriteStaged(7, 0, other).ok());
  const absl::Status failed = Commit(7);
  EXPECT_THAT(std::string(failed.message()), testing::HasSubstr("made with other slices"));
  EXPECT_EQ(Commit(7).message(), failed.message()) << "its answer was lost";
  EXPECT_EQ(ClassOf(WriteStaged(7, 0, bytes)), proto::STALE);
  EXPECT_EQ(Values(), changed_);
  ASSERT_EQ(Stage(8), bytes);
  ASSERT_TRUE(WriteStaged(8, 0, bytes).ok());
  ASSERT_TRUE(Commit(8).ok());
  EXPECT_EQ(Values(), before_);
}

TEST_F(ExchangeTest, AnotherEpochForgetsWhatWasStaged) {
  SaveAndChange();
  const std::string bytes = Stage(7);
  ASSERT_TRUE(WriteStaged(7, 0, bytes).ok());
  NextEpoch();
  EXPECT_EQ(ClassOf(Commit(7)), proto::STALE);
  EXPECT_EQ(Values(), changed_);
}

TEST_F(ExchangeTest, ADirectoryIsKnownByItsToken) {
  ASSERT_TRUE(WriteFileAtomically(cluster_.files(), "/probe", "mine").ok());
  const auto sees = [&](const std::string& path, const std::string& token) {
    proto::ProbeDirectoryRequest request;
    request.set_path(path);
    request.set_token(token);
    return Call<proto::ProbeDirectoryResponse>("ProbeDirectory", request)->header.seen();
  };
  EXPECT_TRUE(sees("/probe", "mine"));
  EXPECT_FALSE(sees("/probe", "his!")) << "another directory of this name";
  EXPECT_FALSE(sees("/probe", "mine too"));
  EXPECT_FALSE(sees("/other", "mine"));
}

}  // namespace
}  // namespace cohort
