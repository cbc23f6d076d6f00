#pragma once

// HDF5 files as Keras writes them, in the oldest form of the format, which every reader knows:
// groups, datasets in one piece, attributes that are strings or lists of strings.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// A group, or a dataset if it has a value, to write. Thread-compatible.
class Hdf5Node {
 public:
  struct Text {
    std::string name;
    std::string value;
  };
  // A list of strings, each of which has `width` bytes in the file.
  struct List {
    std::string name;
    std::vector<std::string> values;
    size_t width = 0;
  };

  // Returns the group at a path from here, as "layers/dense/vars", and makes what is missing.
  Hdf5Node& Group(absl::string_view path);
  // Adds a dataset below this group. bfloat16 is written as Keras does: as bytes with an attribute.
  void AddDataset(absl::string_view path, const Tensor& value);
  void AddText(const std::string& name, const std::string& value);
  // Adds a list of strings, cut into NAME0, NAME1 ... where one attribute cannot hold it, as Keras
  // cuts it. Errors: INVALID_ARGUMENT for a string of more than 64,512 bytes.
  absl::Status AddList(const std::string& name, const std::vector<std::string>& values);

  const std::map<std::string, std::unique_ptr<Hdf5Node>>& children() const { return children_; }
  const Tensor& value() const { return value_; }
  const std::vector<Text>& texts() const { return texts_; }
  const std::vector<List>& lists() const { return lists_; }

 private:
  std::map<std::string, std::unique_ptr<Hdf5Node>> children_;  // in the order of the file
  Tensor value_;
  std::vector<Text> texts_;
  std::vector<List> lists_;
};

// The bytes of a file, in the order of `pieces`, some of which are those of the tensors.
struct Hdf5Image {
  std::vector<std::unique_ptr<std::string>> owned;
  std::vector<absl::string_view> pieces;
};

// Returns the bytes of the file with this root, which must outlive them. Errors: INVALID_ARGUMENT
// for a name that is empty or has a NUL.
absl::StatusOr<Hdf5Image> MakeHdf5(const Hdf5Node& root);

// Writes the file with this root. Errors: those of MakeHdf5; the file system's errors.
absl::Status WriteHdf5(FileSystem& files, const std::string& path, const Hdf5Node& root);

}  // namespace cohort
