// A cut that goes on in slices which are parts of its own, over another number of parameter
// servers. Expectations: the bits of slices that never moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "common/checkpoint/checkpoint_files.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/ps_server/dynamic_table_support.h"

namespace cohort {
namespace {

constexpr uint64_t kMegabyte = uint64_t{1} << 20;

// The layout of a variable in one piece for each ps, which is also cut where the slices of
// `saved_ps` others begin.
proto::VariableLayout CutLike(const VariableSpec& spec, int num_ps, int saved_ps) {
  const proto::VariableLayout saved = LayOut({spec}, saved_ps)[0];
  proto::VariableLayout layout = LayOut({spec}, num_ps)[0];
  const auto pieces = layout.slices();
  layout.clear_slices();
  for (const proto::SliceHome& piece : pieces) {
    const int64_t end = piece.row_begin() + piece.row_count();
    std::vector<int64_t> borders = {piece.row_begin()};
    for (const proto::SliceHome& slice : saved.slices()) {
      if (slice.row_begin() > piece.row_begin() && slice.row_begin() < end) {
        borders.push_back(slice.row_begin());
      }
    }
    borders.push_back(end);
    for (size_t i = 0; i + 1 < borders.size(); ++i) {
      proto::SliceHome& slice = *layout.add_slices();
      slice = piece;
      slice.set_slice_id(static_cast<uint32_t>(layout.slices_size()));
      slice.set_row_begin(borders[i]);
      slice.set_row_count(borders[i + 1] - borders[i]);
      slice.set_same_piece(i > 0);
    }
  }
  return layout;
}

proto::DynamicTableUse UseOfAll(CutCluster& cluster) {
  proto::DynamicTableUse sum;
  for (int ps = 0; ps < cluster.num_ps(); ++ps) {
    const proto::DynamicTableUse use = UseOf(cluster, ps);
    sum.set_rows(sum.rows() + use.rows());
    sum.set_not_admitted(sum.not_admitted() + use.not_admitted());
    sum.set_expired_rows(sum.expired_rows() + use.expired_rows());
    sum.set_evicted_rows(sum.evicted_rows() + use.evicted_rows());
  }
  return sum;
}

using SetPolicy = std::function<void(proto::DynamicTable&)>;

// A table of 600 keys that 8 closures push to, 4 of them before the cut. Of the fifth the cut has
// what the first of two saved slices got.
class PolicyRun {
 public:
  PolicyRun(const SetPolicy& set, FileSystem& files) : files_(files) {
    proto::UpdateRule rule = Rule("adam", {{"amsgrad", 1}});
    rule.set_sparse(proto::LAZY);
    spec_ = TableSpec("t", kWidth, rule);
    set(*spec_.dynamic);
  }

  const VariableSpec& spec() const { return spec_; }
  const std::vector<int64_t>& keys() const { return keys_; }

  void SaveCut(CutCluster& two) {
    const std::vector<proto::SliceHome> saved = two.slices();
    second_begins_ = saved[1].row_begin();
    for (const uint64_t closure : {1, 2, 3, 4}) {
      PushToAll(two, closure, SomeKeys(closure, 150), TimeOf(closure));
    }
    ASSERT_EQ(Push(two, saved[0], 5, keys_, TimeOf(5))->applied(), 1u);
    ASSERT_TRUE(two.Save("/cut").ok());
  }
  // The closures behind the cut. The fifth is a duplicate where it is in the cut.
  void GoOn(CutCluster& cluster) const {
    for (const uint64_t closure : {5, 6, 7, 8}) {
      for (const proto::SliceHome& slice : cluster.slices()) {
        const bool has = closure == 5 && slice.row_begin() < second_begins_;
        const std::vector<int64_t> pushed = closure == 5 ? keys_ : SomeKeys(closure, 150);
        const auto answer = Push(cluster, slice, closure, pushed, TimeOf(closure));
        ASSERT_TRUE(answer.ok()) << answer.status();
        EXPECT_EQ(answer->applied(), has ? 0u : 1u) << closure << " " << slice.slice_id();
      }
    }
  }
  // A cluster with as many servers, in the slices of which those of the two saved ones lie.
  CutCluster Other(int num_ps) const { return {num_ps, files_, {CutLike(spec_, num_ps, 2)}}; }

 private:
  static uint64_t TimeOf(uint64_t closure) { return closure * 1000; }

  FileSystem& files_;
  const std::vector<int64_t> keys_ = SomeKeys(1, 600);
  VariableSpec spec_;
  int64_t second_begins_ = 0;
};

// Rows, slots, sights of keys without a row, ages and counts are in the cut. A closure that only
// one of the saved slices had is a duplicate in its parts, and is applied in those of the other.
TEST(CutSlices, EveryPolicyGoesOnBitForBitOverAnotherNumberOfServers) {
  const std::vector<std::pair<std::string, SetPolicy>> policies = {
      {"all", [](proto::DynamicTable&) {}},
      {"admit_after", [](proto::DynamicTable& table) { table.set_admit_after(3); }},
      {"admit_probability", [](proto::DynamicTable& table) { table.set_admit_probability(0.4); }},
      {"ttl", [](proto::DynamicTable& table) { table.set_ttl_ms(2500); }},
      {"limit", [](proto::DynamicTable& table) { table.set_max_bytes(64 * kMegabyte); }}};
  for (const auto& [name, set] : policies) {
    SCOPED_TRACE(name);
    MemoryFileSystem files;
    PolicyRun run(set, files);
    CutCluster two(2, files, {run.spec()});
    ASSERT_NO_FATAL_FAILURE(run.SaveCut(two));
    const auto at_cut = ReadTable(two, run.keys());
    const proto::DynamicTableUse use_at_cut = UseOfAll(two);
    run.GoOn(two);
    const auto at_end = ReadTable(two, run.keys());
    const proto::DynamicTableUse use_at_end = UseOfAll(two);
    EXPECT_NE(at_cut, at_end);
    for (const int num_ps : {1, 2, 3, 5}) {
      SCOPED_TRACE(num_ps);
      CutCluster other = run.Other(num_ps);
      other.GoBackTo({"/cut"});
      EXPECT_EQ(ReadTable(other, run.keys()), at_cut);
      EXPECT_EQ(UseOfAll(other).DebugString(), use_at_cut.DebugString());
      for (const proto::SliceHome& slice : other.slices()) {
        EXPECT_EQ(Push(other, slice, 4, SomeKeys(4, 150))->duplicates(), 1u);
      }
      run.GoOn(other);
      EXPECT_EQ(ReadTable(other, run.keys()), at_end);
      EXPECT_EQ(UseOfAll(other).not_admitted(), use_at_end.not_admitted());
      // Rows that have expired are removed when a push comes by, in each slice on its way.
      if (name != "ttl") {
        EXPECT_EQ(UseOfAll(other).rows(), use_at_end.rows());
      }
      // A slice of the next cut lies in one of the first.
      ASSERT_TRUE(other.Save("/again").ok());
      other.GoBackTo({"/cut"});
      EXPECT_EQ(ReadTable(other, run.keys()), at_cut);
      CutCluster same = run.Other(num_ps);
      same.GoBackTo({"/again"});
      EXPECT_EQ(ReadTable(same, run.keys()), at_end);
      ASSERT_TRUE(DeleteCheckpoint(files, "/again").ok());
    }
  }
}

// Rows of 16 KiB, so that a slice has room for a few hundred.
VariableSpec FewRows(bool least_frequent) {
  VariableSpec spec = TableSpec("t", 4096, Rule("assign_add", {}));
  spec.initializer = "zeros";
  spec.dynamic->set_max_bytes(16 * kMegabyte);
  spec.dynamic->set_evict_least_frequent(least_frequent);
  return spec;
}

// Pushes 1 in each element of the keys' rows to all slices.
void AddToAll(CutCluster& cluster, uint64_t closure, const std::vector<int64_t>& keys) {
  for (const proto::SliceHome& slice : cluster.slices()) {
    const std::vector<int64_t> own = KeysOf(slice, keys);
    Tensor ones(DType::kFloat32, Shape{static_cast<int64_t>(own.size()), 4096});
    std::fill_n(ones.mutable_data<float>(), ones.num_elements(), 1.0f);
    auto request =
        PushRowsOf({.closure = closure, .step = closure}, {{slice.slice_id(), own, ones}});
    request.header.set_epoch(cluster.epoch());
    const auto answer = cluster.ps().Push(static_cast<int>(slice.ps()), std::move(request));
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
}

// The first element of each key's row: how often it was pushed since it has its row.
std::map<int64_t, float> CountsOf(CutCluster& cluster, const std::vector<int64_t>& keys) {
  std::map<int64_t, float> counts;
  for (const proto::SliceHome& slice : cluster.slices()) {
    const std::vector<int64_t> own = KeysOf(slice, keys);
    const auto rows = PullKeys(cluster, slice, own);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (size_t i = 0; rows.ok() && i < own.size(); ++i) {
      counts[own[i]] = rows->data<float>()[i * 4096];
    }
  }
  return counts;
}

// Which row gives way depends on ages or numbers of pushes, which are in the cut, and on the rows
// of the slice. So slices that were cut go on as slices that were so from the first push.
TEST(CutSlices, RowsGiveWayAsInSlicesThatNeverMoved) {
  std::vector<int64_t> early;
  std::vector<int64_t> late;
  for (int64_t key = 0; key < 250; ++key) early.push_back(key * 7919);
  for (int64_t key = 0; key < 3000; ++key) late.push_back(-1 - key * 104729);
  std::vector<int64_t> all = early;
  all.insert(all.end(), late.begin(), late.end());
  const std::vector<int64_t> often(early.begin(), early.begin() + 125);
  for (const bool least_frequent : {false, true}) {
    SCOPED_TRACE(least_frequent);
    const VariableSpec spec = FewRows(least_frequent);
    MemoryFileSystem files;
    CutCluster saved(2, files, {spec});
    CutCluster stayed(3, files, {CutLike(spec, 3, 2)});
    CutCluster moved(3, files, {CutLike(spec, 3, 2)});
    for (CutCluster* cluster : {&saved, &stayed}) {
      AddToAll(*cluster, 1, early);
      for (const uint64_t closure : {2, 3}) AddToAll(*cluster, closure, often);
      ASSERT_EQ(UseOfAll(*cluster).evicted_rows(), 0u);
    }
    ASSERT_TRUE(saved.Save("/cut").ok());
    moved.GoBackTo({"/cut"});
    for (CutCluster* cluster : {&stayed, &moved}) {
      for (size_t i = 0; i < late.size(); i += 100) {
        AddToAll(*cluster, 4 + i, {late.begin() + i, late.begin() + i + 100});
      }
    }
    EXPECT_EQ(CountsOf(moved, all), CountsOf(stayed, all));
    EXPECT_EQ(UseOfAll(moved).DebugString(), UseOfAll(stayed).DebugString());
    EXPECT_GT(UseOfAll(moved).evicted_rows(), 0u);
  }
}

// The slices of one piece have the limit of the piece together.
TEST(CutSlices, PartsOfAPieceShareItsLimit) {
  VariableSpec spec = TableSpec("t", kWidth, Rule("sgd", {}));
  spec.dynamic->set_max_bytes(48 * kMegabyte);
  // Of thirds cut at the half: the second piece has two slices of a sixth each.
  const auto slices = SlicesOf(CutLike(spec, 3, 2));
  ASSERT_TRUE(slices.ok()) << slices.status();
  std::vector<size_t> limits;
  for (const SliceLayout& slice : *slices) limits.push_back(slice.resident_bytes() / kMegabyte);
  const auto half = testing::AnyOf(23, 24);
  EXPECT_THAT(limits, testing::ElementsAre(48, half, half, 48));
  // No part has less than any table may.
  spec.dynamic->set_max_bytes(8 * kMegabyte);
  const auto small = SlicesOf(CutLike(spec, 3, 2));
  ASSERT_TRUE(small.ok()) << small.status();
  for (const SliceLayout& slice : *small) {
    EXPECT_EQ(slice.resident_bytes(), 8 * kMegabyte);
  }
}

// Variables without keys too: which slices they have may follow from the number of servers.
TEST(CutSlices, OtherVariablesGoOnOverAnotherNumberOfServers) {
  for (const VariableSpec& spec :
       {VariableSpec{"kernel", DType::kFloat32, Shape{70, 5}, Rule("rmsprop", {{"momentum", 0.5}})},
        VariableSpec{"bias", DType::kFloat32, Shape{40}, Rule("adam", {})}}) {
    SCOPED_TRACE(spec.name);
    MemoryFileSystem files;
    CutCluster two(2, files, {spec});
    const std::vector<proto::SliceHome> saved = two.slices();
    for (const uint64_t closure : {1, 2}) {
      for (const auto& slice : saved) ASSERT_TRUE(two.Push(closure, slice).ok());
    }
    ASSERT_TRUE(two.Push(3, saved[0]).ok());
    ASSERT_TRUE(two.Save("/cut").ok());
    const auto bytes = [](CutCluster& cluster) {
      std::string all;
      for (const CutCluster::Slice& slice : cluster.ReadAll()) all += slice.bytes;
      return all;
    };
    for (const int num_ps : {1, 3, 5}) {
      SCOPED_TRACE(num_ps);
      CutCluster other(num_ps, files, {CutLike(spec, num_ps, 2)});
      other.GoBackTo({"/cut"});
      EXPECT_EQ(bytes(other), bytes(two));
      for (const proto::SliceHome& slice : other.slices()) {
        const bool has = slice.row_begin() < saved[1].row_begin();
        EXPECT_EQ(other.Read(slice).version, has ? 3u : 2u);
        EXPECT_EQ(other.Push(2, slice)->duplicates(), 1u);
        EXPECT_EQ(other.Push(3, slice)->applied(), has ? 0u : 1u);
      }
    }
  }
}

}  // namespace
}  // namespace cohort
