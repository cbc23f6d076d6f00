#pragma once

// HDF5 files that hold weights, as Keras, h5py and libhdf5 write them. A file is a tree of groups
// and datasets, each of which has attributes. What is read: files of every libver (superblocks 0 to
// 3), groups of both generations, attributes of numbers and of strings in both encodings, and
// datasets of numbers, contiguous or in chunks with gzip and shuffle.
//
// A file that could lead to another one is refused when it is opened: soft and external links,
// external elements, virtual datasets. A file's tree, attributes and strings are read at once, a
// dataset's elements when a caller asks for them. libhdf5 is not used, since files can make it
// crash (docs/DECISIONS.md).

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/formats/hdf5/hdf5_attribute.h"
#include "common/formats/hdf5/hdf5_dataset.h"

namespace cohort {

// A group or a dataset.
struct Hdf5Object {
  std::string path;  // from the root, as "model_weights/d1"; the root's is empty
  std::string name;  // the last part of the path
  bool is_dataset = false;
  Hdf5Dataset dataset;           // the elements, if is_dataset
  std::vector<size_t> children;  // a group's indices in Hdf5File::objects(), by name
  std::vector<Hdf5Attribute> attributes;

  const Hdf5Attribute* FindAttribute(absl::string_view attribute) const;
};

// Returns true if the file begins as an HDF5 file does.
bool LooksLikeHdf5(const ReadableFile& file);

// A file that is open for reading. Thread-safe.
class Hdf5File {
 public:
  // Opens a file; `path` is for messages. Errors: DATA_LOSS for a file that is damaged or no HDF5;
  // UNIMPLEMENTED for what could lead outside of the file, for an object that has two names, and
  // for what is not supported of the format; the file's errors.
  static absl::StatusOr<std::unique_ptr<Hdf5File>> Open(std::unique_ptr<ReadableFile> file,
                                                        const std::string& path);

  const std::string& path() const { return path_; }
  // Returns all objects, each before its children. The first one is the root.
  const std::vector<Hdf5Object>& objects() const { return objects_; }
  const Hdf5Object& root() const { return objects_.front(); }
  // Returns the object at a path from the root, or null.
  const Hdf5Object* Find(absl::string_view path) const;

  // Reads the elements of one of the file's datasets. Errors: as ReadHdf5Dataset, with its path.
  absl::StatusOr<Tensor> Read(const Hdf5Object& dataset) const;

 private:
  Hdf5File(std::unique_ptr<ReadableFile> file, std::string path);
  absl::Status Init();

  const std::unique_ptr<ReadableFile> file_;
  const std::string path_;
  uint64_t base_ = 0;
  std::vector<Hdf5Object> objects_;        // constant after Init
  std::map<std::string, size_t> by_path_;  // constant after Init, too
};

// Returns an attribute that is one string. Errors: NOT_FOUND; INVALID_ARGUMENT for another type.
absl::StatusOr<std::string> Hdf5String(const Hdf5Object& object, const std::string& name);

// Returns an attribute that is a list of strings: in either encoding, empty as an array of no
// numbers, and cut into NAME0, NAME1 ... where it is long, as Keras writes it. Errors: as
// Hdf5String.
absl::StatusOr<std::vector<std::string>> Hdf5Strings(const Hdf5Object& object,
                                                     const std::string& name);

}  // namespace cohort
