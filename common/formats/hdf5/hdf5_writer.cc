#include "common/formats/hdf5/hdf5_writer.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/base/temporary_file.h"
#include "common/formats/hdf5/hdf5_encoding.h"
#include "common/formats/hdf5/hdf5_header.h"

namespace cohort {

namespace {

// Upper bound on the bytes of an attribute's elements, as in Keras.
constexpr size_t kListBytesMax = 64512;
constexpr uint64_t kSuperblockBytes = 96;
constexpr uint64_t kNoAddress = ~uint64_t{0};
// Upper bound on the symbols in a list: twice the K of the superblock.
constexpr size_t kSymbolsMax = 8;
// Upper bound on the children of a node of a symbol table's tree.
constexpr size_t kChildrenMax = 32;
constexpr uint64_t kTreeNodeBytes = 24 + 8 * kChildrenMax + 8 * (kChildrenMax + 1);
constexpr uint64_t kSymbolListBytes = 8 + 40 * kSymbolsMax;
constexpr size_t kHeapBytesMin = 4096;  // size of a global heap
// Upper bound on the objects in a heap, whose numbers have 16 bits.
constexpr size_t kHeapObjectsMax = 60000;
constexpr uint16_t kFillValueMessage = 0x5;

uint16_t Number(Hdf5MessageType type) { return static_cast<uint16_t>(type); }

bool IsAscii(const std::vector<std::string>& texts) {
  return std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
  });
}

// An object that has been written: the child of a tree's node, or a symbol. Its name has an offset
// in the heap of its group.
struct Entry {
  uint64_t last_name = 0;
  uint64_t address = 0;
};

// Makes the bytes of one file. The elements of all datasets come first, after the superblock. Then
// come the descriptions, children before their parents, because a parent holds the addresses of its
// children. Thread-compatible.
class ImageMaker {
 public:
  absl::StatusOr<Hdf5Image> Make(const Hdf5Node& root) {
    RETURN_IF_ERROR(PlaceElements(root));
    metadata_begin_ = end_;
    PlaceTexts(root);
    const uint64_t address = Write(root);
    image_.owned.front() = std::make_unique<std::string>(SuperblockBytes(address));
    image_.pieces.front() = *image_.owned.front();
    Own(std::move(metadata_));
    return std::move(image_);
  }

 private:
  // Gives all datasets' elements their addresses. The first piece is the superblock's.
  absl::Status PlaceElements(const Hdf5Node& node) {
    if (image_.pieces.empty()) {
      image_.pieces.emplace_back();
      image_.owned.emplace_back();
    }
    if (node.value().has_value()) {
      const absl::string_view bytes(reinterpret_cast<const char*>(node.value().raw()),
                                    node.value().num_bytes());
      elements_[&node] = bytes.empty() ? kNoAddress : end_;
      image_.pieces.push_back(bytes);
      const uint64_t padding = (8 - bytes.size() % 8) % 8;
      if (padding > 0) Own(std::string(padding, '\0'));
      end_ += bytes.size() + padding;
    }
    for (const auto& [name, child] : node.children()) {
      if (name.empty() || absl::StrContains(name, absl::string_view("\0", 1))) {
        return absl::InvalidArgumentError(
            absl::StrCat("'", Excerpt(name), "' cannot be a name in an HDF5 file"));
      }
      RETURN_IF_ERROR(PlaceElements(*child));
    }
    return absl::OkStatus();
  }

  void Own(std::string bytes) {
    image_.owned.push_back(std::make_unique<std::string>(std::move(bytes)));
    image_.pieces.push_back(*image_.owned.back());
  }

  // Appends to the metadata and returns the address.
  uint64_t Append(absl::string_view bytes) {
    const uint64_t address = metadata_begin_ + metadata_.size();
    metadata_.append(bytes.data(), bytes.size());
    PadHdf5(metadata_);
    return address;
  }

  // Writes all texts of the tree into global heaps.
  void PlaceTexts(const Hdf5Node& root) {
    CollectTexts(root);
    for (size_t begin = 0; begin < texts_.size(); begin += kHeapObjectsMax) {
      const size_t end = std::min(texts_.size(), begin + kHeapObjectsMax);
      std::string objects;
      for (size_t i = begin; i < end; ++i) {
        PutHdf5(objects, i - begin + 1, 2);
        PutHdf5(objects, 1, 2);  // references
        PutHdf5(objects, 0, 4);
        PutHdf5(objects, texts_[i]->value.size(), 8);
        objects += texts_[i]->value;
        PadHdf5(objects);
      }
      // The object with the number 0 is the free space, with its own size.
      constexpr size_t kHead = 16;
      const size_t size = std::max(kHeapBytesMin, kHead + objects.size() + kHead);
      PutHdf5(objects, 0, 8);
      PutHdf5(objects, size - kHead - (objects.size() - 8), 8);
      std::string heap("GCOL\x01\0\0\0", 8);
      PutHdf5(heap, size, 8);
      heap += objects;
      heap.resize(size, '\0');
      const uint64_t address = Append(heap);
      for (size_t i = begin; i < end; ++i) references_[texts_[i]] = {i - begin + 1, address};
    }
  }

  void CollectTexts(const Hdf5Node& node) {
    for (const Hdf5Node::Text& text : node.texts()) texts_.push_back(&text);
    for (const auto& [name, child] : node.children()) CollectTexts(*child);
  }

  // Writes an object and all below it. Returns the address of its header.
  uint64_t Write(const Hdf5Node& node) {
    std::string messages;
    uint16_t count = 0;
    const auto add = [&](uint16_t type, absl::string_view body) {
      messages += Hdf5MessageBytes(type, body);
      ++count;
    };
    if (node.value().has_value()) {
      add(Number(Hdf5MessageType::kDataspace), Hdf5SpaceOf(node.value().shape()));
      add(Number(Hdf5MessageType::kDatatype), Hdf5TypeOf(node.value().dtype()));
      // Version 2: memory is taken late, values are filled in where they are set; the value is 0.
      add(kFillValueMessage, absl::string_view("\x02\x02\x02\x01\0\0\0\0", 8));
      std::string layout("\x03\x01", 2);
      PutHdf5(layout, elements_.at(&node), 8);
      PutHdf5(layout, node.value().num_bytes(), 8);
      add(Number(Hdf5MessageType::kLayout), layout);
    } else {
      add(Number(Hdf5MessageType::kSymbolTable), WriteGroup(node));
    }
    for (const Hdf5Node::Text& text : node.texts()) {
      std::string reference;
      PutHdf5(reference, text.value.size(), 4);
      PutHdf5(reference, references_.at(&text).address, 8);
      PutHdf5(reference, references_.at(&text).last_name, 4);
      add(Number(Hdf5MessageType::kAttribute),
          Hdf5AttributeBytes(text.name, Hdf5VariableStringType(), Hdf5SpaceOf(Shape{}), reference));
    }
    for (const Hdf5Node::List& list : node.lists()) {
      add(Number(Hdf5MessageType::kAttribute), ListBytes(list));
    }
    return Append(Hdf5HeaderBytes(count, messages));
  }

  static std::string ListBytes(const Hdf5Node::List& list) {
    // An empty list is written as h5py does: as an array of no float64 numbers, which Keras reads
    // as an empty list.
    if (list.values.empty()) {
      return Hdf5AttributeBytes(list.name, Hdf5TypeOf(DType::kFloat64), Hdf5SpaceOf(Shape{0}), "");
    }
    std::string elements;
    for (const std::string& value : list.values) {
      elements += value;
      elements.append(list.width - value.size(), '\0');
    }
    return Hdf5AttributeBytes(list.name, Hdf5FixedStringType(list.width, !IsAscii(list.values)),
                              Hdf5SpaceOf(Shape{static_cast<int64_t>(list.values.size())}),
                              elements);
  }

  // Writes a group's children, names and tree. Returns the body of its symbol table's message.
  std::string WriteGroup(const Hdf5Node& node) {
    std::string names(8, '\0');  // the empty name, at which the first keys point
    std::vector<Entry> symbols;
    for (const auto& [name, child] : node.children()) {
      symbols.push_back({names.size(), Write(*child)});
      names += name + '\0';
      PadHdf5(names);
    }
    std::string heap("HEAP\0\0\0\0", 8);
    PutHdf5(heap, names.size(), 8);
    PutHdf5(heap, 1, 8);  // no free space
    constexpr uint64_t kHeapHead = 32;
    PutHdf5(heap, metadata_begin_ + metadata_.size() + kHeapHead, 8);
    const uint64_t heap_address = Append(heap + names);
    std::vector<Entry> level = WriteSymbols(symbols);
    for (uint64_t depth = 0; depth == 0 || level.size() > 1; ++depth) {
      level = WriteLevel(level, depth);
    }
    std::string body;
    PutHdf5(body, level.front().address, 8);
    PutHdf5(body, heap_address, 8);
    return body;
  }

  // Writes the lists of symbols, which are the children of the tree's leaves.
  std::vector<Entry> WriteSymbols(const std::vector<Entry>& symbols) {
    std::vector<Entry> lists;
    for (size_t begin = 0; begin < symbols.size(); begin += kSymbolsMax) {
      const size_t end = std::min(symbols.size(), begin + kSymbolsMax);
      std::string list("SNOD\x01\0", 6);
      PutHdf5(list, end - begin, 2);
      for (size_t i = begin; i < end; ++i) {
        PutHdf5(list, symbols[i].last_name, 8);
        PutHdf5(list, symbols[i].address, 8);
        list.append(24, '\0');  // no cached copy of the object's own addresses
      }
      list.resize(kSymbolListBytes, '\0');
      lists.push_back({symbols[end - 1].last_name, Append(list)});
    }
    return lists;
  }

  // Writes the nodes of one level of a tree over the children of that level, at least one node.
  // Returns the nodes.
  std::vector<Entry> WriteLevel(const std::vector<Entry>& children, uint64_t depth) {
    std::vector<Entry> nodes;
    const uint64_t first = metadata_begin_ + metadata_.size();
    const size_t count = std::max<size_t>(1, (children.size() + kChildrenMax - 1) / kChildrenMax);
    for (size_t i = 0; i < count; ++i) {
      const size_t begin = i * kChildrenMax;
      const size_t end = std::min(children.size(), begin + kChildrenMax);
      std::string node("TREE\0", 5);
      PutHdf5(node, depth, 1);
      PutHdf5(node, end - begin, 2);
      PutHdf5(node, i == 0 ? kNoAddress : first + (i - 1) * kTreeNodeBytes, 8);
      PutHdf5(node, i + 1 == count ? kNoAddress : first + (i + 1) * kTreeNodeBytes, 8);
      // A key stands before each child and behind the last one.
      PutHdf5(node, begin == 0 ? 0 : children[begin - 1].last_name, 8);
      for (size_t child = begin; child < end; ++child) {
        PutHdf5(node, children[child].address, 8);
        PutHdf5(node, children[child].last_name, 8);
      }
      node.resize(kTreeNodeBytes, '\0');
      nodes.push_back({children.empty() ? 0 : children[end - 1].last_name, Append(node)});
    }
    return nodes;
  }

  std::string SuperblockBytes(uint64_t root) const {
    std::string out("\x89HDF\r\n\x1a\n", 8);
    PutHdf5(out, 0, 5);  // versions
    PutHdf5(out, 8, 1);  // bytes of an address
    PutHdf5(out, 8, 1);  // bytes of a length
    PutHdf5(out, 0, 1);
    PutHdf5(out, kSymbolsMax / 2, 2);
    PutHdf5(out, kChildrenMax / 2, 2);
    PutHdf5(out, 0, 4);
    PutHdf5(out, 0, 8);  // base address
    PutHdf5(out, kNoAddress, 8);
    PutHdf5(out, metadata_begin_ + metadata_.size(), 8);
    PutHdf5(out, kNoAddress, 8);
    PutHdf5(out, 0, 8);  // the root has no name
    PutHdf5(out, root, 8);
    out.resize(kSuperblockBytes, '\0');
    return out;
  }

  Hdf5Image image_;
  uint64_t end_ = kSuperblockBytes;  // the first address that is still free
  std::map<const Hdf5Node*, uint64_t> elements_;
  std::vector<const Hdf5Node::Text*> texts_;
  // The place of each text: the address of its heap, and its number there as `last_name`.
  std::map<const Hdf5Node::Text*, Entry> references_;
  uint64_t metadata_begin_ = 0;
  std::string metadata_;
};

}  // namespace

Hdf5Node& Hdf5Node::Group(absl::string_view path) {
  Hdf5Node* node = this;
  for (const absl::string_view part : absl::StrSplit(path, '/', absl::SkipEmpty())) {
    std::unique_ptr<Hdf5Node>& child = node->children_[std::string(part)];
    if (child == nullptr) child = std::make_unique<Hdf5Node>();
    node = child.get();
  }
  return *node;
}

void Hdf5Node::AddDataset(absl::string_view path, const Tensor& value) {
  Hdf5Node& node = Group(path);
  node.value_ = value;
  if (value.dtype() == DType::kBfloat16) node.AddText("dtype", "bfloat16");
}

void Hdf5Node::AddText(const std::string& name, const std::string& value) {
  texts_.push_back({name, value});
}

absl::Status Hdf5Node::AddList(const std::string& name, const std::vector<std::string>& values) {
  size_t width = 1;
  for (const std::string& value : values) width = std::max(width, value.size());
  if (width > kListBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a name of ", width, " bytes in '", name,
                                                   "' is above HDF5's limit of ", kListBytesMax));
  }
  if (values.size() * width <= kListBytesMax) {
    lists_.push_back({name, values, width});
    return absl::OkStatus();
  }
  // The parts have equal lengths, except that the first parts have one element more, as
  // numpy.array_split does.
  size_t parts = 2;
  while ((values.size() + parts - 1) / parts * width > kListBytesMax) ++parts;
  size_t begin = 0;
  for (size_t part = 0; part < parts; ++part) {
    const size_t count = values.size() / parts + (part < values.size() % parts ? 1 : 0);
    lists_.push_back({absl::StrCat(name, part),
                      {values.begin() + static_cast<std::ptrdiff_t>(begin),
                       values.begin() + static_cast<std::ptrdiff_t>(begin + count)},
                      width});
    begin += count;
  }
  return absl::OkStatus();
}

absl::StatusOr<Hdf5Image> MakeHdf5(const Hdf5Node& root) { return ImageMaker().Make(root); }

absl::Status WriteHdf5(FileSystem& files, const std::string& path, const Hdf5Node& root) {
  ASSIGN_OR_RETURN(const Hdf5Image image, MakeHdf5(root));
  ASSIGN_OR_RETURN(const std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  for (const absl::string_view piece : image.pieces) RETURN_IF_ERROR(file->Append(piece));
  RETURN_IF_ERROR(file->Seal());
  return file->Commit();
}

}  // namespace cohort
