#include "coordinator/strategy/variable_pieces.h"

#include <vector>

#include "common/tensor/dtype.h"
#include "common/wire/frame_limits.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

struct Piece {
  int64_t rows = 0;
  uint32_t ps = 0;
};

// A matrix of rows of 40 bytes.
proto::VariableLayout Matrix(const std::vector<Piece>& pieces) {
  proto::VariableLayout layout;
  layout.set_name("w");
  layout.set_dtype(static_cast<int32_t>(DType::kFloat32));
  int64_t row = 0;
  for (const Piece& piece : pieces) {
    proto::SliceHome& slice = *layout.add_slices();
    slice.set_row_begin(row);
    slice.set_row_count(piece.rows);
    slice.set_ps(piece.ps);
    row += piece.rows;
  }
  layout.add_dims(row);
  layout.add_dims(10);
  return layout;
}

std::vector<int64_t> RowsOf(const proto::VariableLayout& layout) {
  std::vector<int64_t> rows;
  int64_t next = 0;
  for (const proto::SliceHome& slice : layout.slices()) {
    EXPECT_EQ(slice.row_begin(), next);
    next += slice.row_count();
    rows.push_back(slice.row_count());
  }
  EXPECT_EQ(next, layout.dims(0));
  return rows;
}

TEST(PieceBytes, CountSlotsThatLackADimension) {
  proto::VariableLayout layout = Matrix({{6, 0}});
  layout.mutable_rule()->set_op("adafactor");
  EXPECT_EQ(PieceBytes(layout, 0), (60 + 6 + 10) * 4);
  layout.mutable_rule()->set_op("lamb");
  EXPECT_EQ(PieceBytes(layout, 0), 3 * 60 * 4);
}

TEST(CutPieces, LeavesSmallOnesAlone) {
  proto::VariableLayout layout = Matrix({{5, 0}, {4, 1}});
  uint32_t next = 7;
  CutPieces(200, next, layout);
  EXPECT_EQ(next, 9u);
  EXPECT_THAT(RowsOf(layout), ElementsAre(5, 4));
  EXPECT_EQ(layout.slices(0).slice_id(), 7u);
  EXPECT_EQ(layout.slices(1).slice_id(), 8u);
  EXPECT_FALSE(layout.slices(1).same_piece());
}

TEST(CutPieces, CutsLargeOnesIntoSlicesOfTheSameHome) {
  proto::VariableLayout layout = Matrix({{11, 3}, {5, 1}});
  uint32_t next = 0;
  CutPieces(200, next, layout);
  EXPECT_THAT(RowsOf(layout), ElementsAre(4, 4, 3, 5));
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(layout.slices(i).ps(), i < 3 ? 3u : 1u);
    EXPECT_EQ(layout.slices(i).slice_id(), static_cast<uint32_t>(i));
    EXPECT_EQ(layout.slices(i).same_piece(), i == 1 || i == 2);
  }
}

TEST(CutPieces, ARowIsNeverCut) {
  proto::VariableLayout layout = Matrix({{3, 0}});
  uint32_t next = 0;
  CutPieces(39, next, layout);
  EXPECT_THAT(RowsOf(layout), ElementsAre(1, 1, 1));
}

TEST(CutPieces, WhatLiesOnADeviceIsUnderKeysOrOfReplicasIsNotCut) {
  for (int kind = 0; kind < 3; ++kind) {
    proto::VariableLayout layout = Matrix({{100, 0}});
    if (kind == 0) layout.set_device("gpu:0");
    if (kind == 1) layout.mutable_dynamic();
    if (kind == 2) layout.set_replicas(100);
    uint32_t next = 0;
    CutPieces(40, next, layout);
    EXPECT_THAT(RowsOf(layout), ElementsAre(100)) << kind;
  }
  proto::VariableLayout scalar;
  scalar.set_dtype(static_cast<int32_t>(DType::kFloat32));
  scalar.add_slices()->set_row_count(1);
  uint32_t next = 0;
  CutPieces(1, next, scalar);
  EXPECT_EQ(scalar.slices_size(), 1);
}

TEST(CutAt, CutsWhereSlicesOfTheRunBeforeBegan) {
  proto::VariableLayout layout = Matrix({{6, 4}, {6, 7}});
  CutAt({0, 4, 6, 8, 9, 12, 40}, layout);
  EXPECT_THAT(RowsOf(layout), ElementsAre(4, 2, 2, 1, 3));
  std::vector<uint32_t> homes;
  std::vector<bool> same;
  for (const proto::SliceHome& slice : layout.slices()) {
    homes.push_back(slice.ps());
    same.push_back(slice.same_piece());
  }
  EXPECT_THAT(homes, ElementsAre(4, 4, 7, 7, 7));
  EXPECT_THAT(same, ElementsAre(false, true, false, true, true));
  EXPECT_EQ(PiecesOf(layout).size(), 2u) << "to people nothing has changed";
  // They stay pieces where they are cut once more, to travel.
  uint32_t next = 5;
  CutPieces(80, next, layout);
  EXPECT_THAT(RowsOf(layout), ElementsAre(2, 2, 2, 2, 1, 2, 1));
  EXPECT_EQ(PiecesOf(layout).size(), 2u);
}

TEST(CutAt, NumbersTheSlicesOfAllVariablesAnew) {
  std::vector<proto::VariableLayout> layouts = {Matrix({{6, 0}}), Matrix({{6, 0}})};
  layouts[1].set_name("v");
  CutAt({{"w", {0, 3}}, {"gone", {0, 1}}}, absl::MakeSpan(layouts));
  EXPECT_THAT(RowsOf(layouts[0]), ElementsAre(3, 3));
  EXPECT_THAT(RowsOf(layouts[1]), ElementsAre(6));
  EXPECT_EQ(layouts[0].slices(1).slice_id(), 1u);
  EXPECT_EQ(layouts[1].slices(0).slice_id(), 2u);
}

TEST(PieceBytes, ThePartsOfADynamicTablesPieceShareItsLimit) {
  proto::VariableLayout layout = Matrix({{30000, 0}, {35536, 1}});
  layout.mutable_dynamic()->set_max_bytes(uint64_t{90} << 20);
  CutAt({0, 10000}, layout);
  EXPECT_EQ(PieceBytes(layout, 0), int64_t{30} << 20);
  EXPECT_EQ(PieceBytes(layout, 1), int64_t{60} << 20);
  EXPECT_EQ(PieceBytes(layout, 2), int64_t{90} << 20);
  layout.mutable_dynamic()->clear_max_bytes();
  EXPECT_EQ(PieceBytes(layout, 0), 0);
}

TEST(PiecesOf, ASplitPieceIsOneOfItsName) {
  proto::VariableLayout layout = Matrix({{100, 3}});
  uint32_t next = 0;
  CutPieces(400, next, layout);
  ASSERT_EQ(layout.slices_size(), 10);
  std::vector<VariablePiece> pieces = PiecesOf(layout);
  ASSERT_EQ(pieces.size(), 1u);
  EXPECT_EQ(pieces[0].name, "w");
  EXPECT_EQ(pieces[0].rows, (RowRange{0, 100}));

  // Two pieces of one home stay two.
  layout = Matrix({{20, 3}, {30, 3}});
  CutPieces(400, next, layout);
  ASSERT_EQ(layout.slices_size(), 5);
  pieces = PiecesOf(layout);
  ASSERT_EQ(pieces.size(), 2u);
  EXPECT_EQ(pieces[1].name, "w/part_1");
  EXPECT_EQ(pieces[1].rows, (RowRange{20, 30}));
}

TEST(CheckRowBytes, RefusesARowThatNoMessageHasRoomFor) {
  proto::VariableLayout layout = Matrix({{2, 0}});
  const auto elements = static_cast<int64_t>(kRowBytesMax / sizeof(float));
  layout.set_dims(1, elements);
  EXPECT_TRUE(CheckRowBytes(layout).ok());
  layout.set_dims(1, elements + 1);
  EXPECT_THAT(std::string(CheckRowBytes(layout).message()),
              HasSubstr("variable 'w': a row of it has 1072693252 bytes, and at most 1072693248"));
  layout.set_dims(1, int64_t{1} << 61);
  layout.add_dims(int64_t{1} << 61);
  EXPECT_FALSE(CheckRowBytes(layout).ok());
  // A value that all replicas have travels whole.
  layout = Matrix({{4, 0}});
  layout.set_replicas(4);
  layout.set_dims(1, elements / 4);
  EXPECT_TRUE(CheckRowBytes(layout).ok());
  layout.set_dims(1, elements / 4 + 1);
  EXPECT_FALSE(CheckRowBytes(layout).ok());
}

}  // namespace
}  // namespace cohort
