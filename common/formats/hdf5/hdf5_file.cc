#include "common/formats/hdf5/hdf5_file.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_elements.h"
#include "common/formats/hdf5/hdf5_group.h"

namespace cohort {

namespace {

constexpr absl::string_view kSignature("\x89HDF\r\n\x1a\n", 8);
// A file may begin with a block of the user's own bytes, whose size is a power of two of at least
// 512. So the superblock is looked for at these offsets.
constexpr uint64_t kFirstUserBlock = 512;
constexpr size_t kDepthMax = 64;
constexpr size_t kObjectsMax = 1'000'000;
constexpr uint64_t kNumberBytes = 8;  // width of addresses and lengths

// Returns where the superblock begins, or kHdf5NoAddress if there is none.
uint64_t FindSuperblock(const ReadableFile& file) {
  for (uint64_t at = 0; at < file.size(); at = at == 0 ? kFirstUserBlock : 2 * at) {
    std::string bytes(kSignature.size(), '\0');
    if (!file.Read(at, absl::MakeSpan(bytes)).ok()) return kHdf5NoAddress;
    if (bytes == kSignature) return at;
    if (at > file.size() / 2) break;
  }
  return kHdf5NoAddress;
}

// The content of a superblock.
struct Superblock {
  uint64_t base = 0;
  uint64_t root = 0;  // address of the root group's header
};

absl::StatusOr<Superblock> ReadSuperblock(const ReadableFile& file, const std::string& path) {
  Hdf5Source source(file, path, 0);
  const uint64_t begin = FindSuperblock(file);
  if (begin == kHdf5NoAddress) return source.Malformed("no superblock: not an HDF5 file");
  const uint64_t length = std::min<uint64_t>(file.size() - begin, 104);
  ASSIGN_OR_RETURN(const std::string bytes, source.Read(begin, length));
  Hdf5Bytes in(bytes);
  in.Skip(kSignature.size());
  const uint64_t version = in.Take(1);
  const bool old = version < 2;
  if (version > 3) {
    return source.Unsupported(absl::StrCat("HDF5 superblock of version ", version,
                                           "; save the file with h5py's default libver"));
  }
  if (old) in.Skip(4);
  const uint64_t address_bytes = in.Take(1);
  const uint64_t length_bytes = in.Take(1);
  if (address_bytes != kNumberBytes || length_bytes != kNumberBytes) {
    return source.Unsupported(absl::StrCat("HDF5 with addresses of ", address_bytes, " bytes"));
  }
  in.Skip(old ? (version == 1 ? 13 : 9) : 1);
  Superblock block;
  block.base = in.Take(8);
  in.Skip(old ? 24 : 16);
  if (old) in.Skip(8);  // the root's name, which is empty
  block.root = in.Take(8);
  if (!in.ok() || block.base > file.size()) return source.Malformed("a superblock's addresses");
  return block;
}

// Reads the tree of groups and datasets of a file. Thread-compatible.
class TreeReader {
 public:
  TreeReader(Hdf5Source& source, std::vector<Hdf5Object>& objects)
      : source_(source), attributes_(source), objects_(objects) {}

  // Reads the object at `address`, whose path is `path`, and all below it.
  absl::Status Read(uint64_t address, const std::string& path, size_t depth) {
    if (depth > kDepthMax || objects_.size() >= kObjectsMax) {
      return source_.Malformed("too many groups");
    }
    if (!addresses_.insert(address).second) {
      return source_.Unsupported(
          absl::StrCat("'", Excerpt(path), "' is a second name of an object; copy the object"));
    }
    const absl::StatusOr<std::vector<Hdf5Link>> links = ReadObject(address, path);
    if (!links.ok()) {
      return path.empty() ? links.status()
                          : Annotate(links.status(), absl::StrCat("'", Excerpt(path), "'"));
    }
    const size_t index = objects_.size() - 1;
    for (const Hdf5Link& link : *links) {
      const std::string child = path.empty() ? link.name : absl::StrCat(path, "/", link.name);
      RETURN_IF_ERROR(source_.Spend(2 * child.size() + sizeof(Hdf5Object)));
      objects_[index].children.push_back(objects_.size());
      RETURN_IF_ERROR(Read(link.address, child, depth + 1));
      objects_[objects_[index].children.back()].name = link.name;
    }
    return absl::OkStatus();
  }

 private:
  // Adds one object and returns the links that it has.
  absl::StatusOr<std::vector<Hdf5Link>> ReadObject(uint64_t address, const std::string& path) {
    ASSIGN_OR_RETURN(const std::vector<Hdf5Message> messages, ReadHdf5Header(source_, address));
    Hdf5Object object;
    object.path = path;
    object.is_dataset = std::any_of(messages.begin(), messages.end(), [](const auto& message) {
      return message.type == Hdf5MessageType::kLayout || message.type == Hdf5MessageType::kDatatype;
    });
    ASSIGN_OR_RETURN(object.attributes, attributes_.Read(messages));
    if (object.is_dataset) {
      ASSIGN_OR_RETURN(object.dataset, ParseHdf5Dataset(source_, messages));
      TakeBfloat16(object);
    }
    ASSIGN_OR_RETURN(std::vector<Hdf5Link> links, ReadHdf5Links(source_, messages));
    objects_.push_back(std::move(object));
    return links;
  }

  // HDF5 before version 2.0 has no bfloat16. Keras writes such a tensor as opaque bytes, with an
  // attribute that names the type.
  static void TakeBfloat16(Hdf5Object& object) {
    Hdf5Type& type = object.dataset.type;
    const Hdf5Attribute* const dtype = object.FindAttribute("dtype");
    if (type.kind != Hdf5Type::Kind::kOpaque || type.size != 2 || dtype == nullptr) return;
    if (dtype->strings != std::vector<std::string>{"bfloat16"}) return;
    type.kind = Hdf5Type::Kind::kNumber;
    type.stored = StoredTypeOf(DType::kBfloat16);
  }

  Hdf5Source& source_;
  Hdf5AttributeReader attributes_;
  std::vector<Hdf5Object>& objects_;
  std::set<uint64_t> addresses_;  // headers of all objects so far
};

}  // namespace

const Hdf5Attribute* Hdf5Object::FindAttribute(absl::string_view attribute) const {
  for (const Hdf5Attribute& one : attributes) {
    if (one.name == attribute) return &one;
  }
  return nullptr;
}

bool LooksLikeHdf5(const ReadableFile& file) { return FindSuperblock(file) != kHdf5NoAddress; }

Hdf5File::Hdf5File(std::unique_ptr<ReadableFile> file, std::string path)
    : file_(std::move(file)), path_(std::move(path)) {}

absl::StatusOr<std::unique_ptr<Hdf5File>> Hdf5File::Open(std::unique_ptr<ReadableFile> file,
                                                         const std::string& path) {
  std::unique_ptr<Hdf5File> opened(new Hdf5File(std::move(file), path));
  RETURN_IF_ERROR(opened->Init());
  return opened;
}

absl::Status Hdf5File::Init() {
  ASSIGN_OR_RETURN(const Superblock block, ReadSuperblock(*file_, path_));
  base_ = block.base;
  Hdf5Source source(*file_, path_, base_);
  RETURN_IF_ERROR(TreeReader(source, objects_).Read(block.root, "", 0));
  for (size_t i = 0; i < objects_.size(); ++i) by_path_[objects_[i].path] = i;
  return absl::OkStatus();
}

const Hdf5Object* Hdf5File::Find(absl::string_view path) const {
  const auto found = by_path_.find(std::string(absl::StripPrefix(path, "/")));
  return found == by_path_.end() ? nullptr : &objects_[found->second];
}

absl::StatusOr<Tensor> Hdf5File::Read(const Hdf5Object& dataset) const {
  if (!dataset.is_dataset) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, ": '", Excerpt(dataset.path), "' is a group, not a dataset"));
  }
  Hdf5Source source(*file_, path_, base_);
  absl::StatusOr<Tensor> tensor = ReadHdf5Dataset(source, dataset.dataset);
  if (!tensor.ok()) {
    return Annotate(tensor.status(), absl::StrCat("dataset '", Excerpt(dataset.path), "'"));
  }
  return tensor;
}

absl::StatusOr<std::string> Hdf5String(const Hdf5Object& object, const std::string& name) {
  const Hdf5Attribute* const attribute = object.FindAttribute(name);
  if (attribute == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("'", Excerpt(object.path), "' has no attribute '", name, "'"));
  }
  if (attribute->strings.size() == 1) return attribute->strings[0];
  return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' of '",
                                                 Excerpt(object.path), "' is ", attribute->type,
                                                 ", not one string"));
}

absl::StatusOr<std::vector<std::string>> Hdf5Strings(const Hdf5Object& object,
                                                     const std::string& name) {
  const Hdf5Attribute* const attribute = object.FindAttribute(name);
  if (attribute != nullptr) {
    const bool is_empty = attribute->numbers.has_value() && attribute->numbers.num_elements() == 0;
    if (attribute->is_text || is_empty) return attribute->strings;
    return absl::InvalidArgumentError(absl::StrCat("attribute '", name, "' of '",
                                                   Excerpt(object.path), "' is ", attribute->type,
                                                   ", not a list of strings"));
  }
  std::map<absl::string_view, const Hdf5Attribute*> by_name;
  for (const Hdf5Attribute& one : object.attributes) by_name[one.name] = &one;
  std::vector<std::string> all;
  size_t part = 0;
  for (auto found = by_name.find(absl::StrCat(name, part)); found != by_name.end();
       found = by_name.find(absl::StrCat(name, part))) {
    all.insert(all.end(), found->second->strings.begin(), found->second->strings.end());
    ++part;
  }
  if (part > 0) return all;
  return absl::NotFoundError(
      absl::StrCat("'", Excerpt(object.path), "' has no attribute '", name, "'"));
}

}  // namespace cohort
