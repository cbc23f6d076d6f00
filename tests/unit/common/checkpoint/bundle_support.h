#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/checkpoint/bundle.h"

namespace cohort {

// One slice to save.
struct Piece {
  std::string name;
  Shape full_shape;
  RowRange rows;
  int shard = 0;
  Tensor value;
};

inline Piece Whole(const std::string& name, int shard, const Tensor& value) {
  return {
      name, value.shape(), {0, value.shape().rank() == 0 ? 1 : value.shape().dim(0)}, shard, value};
}

inline Piece RowsOf(const std::string& name, int shard, const Tensor& full, RowRange rows) {
  return {name, full.shape(), rows, shard, full.Rows(rows.begin, rows.count)};
}

// One tensor in DivRows slices, slice i in data shard (first + i) % num_shards.
inline std::vector<Piece> Partitioned(const std::string& name, const Tensor& full, int slices,
                                      int num_shards) {
  std::vector<Piece> pieces;
  for (const RowRange& rows : DivRows(full.shape().dim(0), slices)) {
    pieces.push_back(RowsOf(name, static_cast<int>(pieces.size()) % num_shards, full, rows));
  }
  return pieces;
}

// Element i is i * 3 - 7, as in tests/golden/make_checkpoints.py.
inline Tensor Ramp(Shape shape) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>(i * 3 - 7);
  }
  return tensor;
}

inline absl::StatusOr<std::vector<proto::SavedSlice>> SaveShards(FileSystem& files,
                                                                 const std::string& prefix,
                                                                 int num_shards,
                                                                 const std::vector<Piece>& pieces) {
  std::vector<proto::SavedSlice> all;
  for (int shard = 0; shard < num_shards; ++shard) {
    ASSIGN_OR_RETURN(auto writer, DataShardWriter::Create(files, prefix, shard, num_shards));
    for (const Piece& piece : pieces) {
      if (piece.shard != shard) continue;
      RETURN_IF_ERROR(writer->Add(piece.name, piece.full_shape, piece.rows, piece.value));
    }
    ASSIGN_OR_RETURN(const auto saved, writer->Finish());
    all.insert(all.end(), saved.begin(), saved.end());
  }
  return all;
}

inline absl::Status Save(FileSystem& files, const std::string& prefix, int num_shards,
                         const std::vector<Piece>& pieces) {
  ASSIGN_OR_RETURN(const auto slices, SaveShards(files, prefix, num_shards, pieces));
  return WriteIndex(files, prefix, num_shards, slices);
}

inline bool SameTensor(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() &&
         std::memcmp(a.raw(), b.raw(), a.num_bytes()) == 0;
}

}  // namespace cohort
