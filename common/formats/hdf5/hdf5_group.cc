#include "common/formats/hdf5/hdf5_group.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/formats/hdf5/hdf5_heap.h"

namespace cohort {

namespace {

using Links = std::vector<Hdf5Link>;

constexpr uint64_t kLevelMax = 16;  // levels in a symbol table's tree

absl::Status NotHard(const Hdf5Source& source, absl::string_view name, absl::string_view kind) {
  return source.Unsupported(absl::StrCat("'", Excerpt(name), "' is ", kind,
                                         "; save the file without links of that kind"));
}

// The symbol table of a group in an old-format file: a B-tree over lists of symbols, whose names
// are in a local heap. Thread-compatible.
class SymbolTable {
 public:
  SymbolTable(Hdf5Source& source, Links& links) : source_(source), links_(links) {}

  absl::Status Read(const std::string& message) {
    Hdf5Bytes in(message);
    const uint64_t tree = in.Take(8);
    const uint64_t heap = in.Take(8);
    if (!in.ok()) return source_.Malformed("a symbol table that does not end");
    ASSIGN_OR_RETURN(const std::string header, source_.ReadBlock(heap, 32, "HEAP", false));
    Hdf5Bytes of_heap(header);
    of_heap.Skip(8);
    const uint64_t names_bytes = of_heap.Take(8);
    of_heap.Skip(8);
    ASSIGN_OR_RETURN(names_, source_.Read(of_heap.Take(8), names_bytes));
    ASSIGN_OR_RETURN(const std::string root, source_.ReadBlock(tree, kNodeHead, "TREE", false));
    const uint64_t level = static_cast<unsigned char>(root[5]);
    if (level > kLevelMax) return source_.Malformed("a symbol table that is too deep");
    return ReadNode(tree, level);
  }

 private:
  static constexpr uint64_t kNodeHead = 24;
  static constexpr uint64_t kSymbolBytes = 40;

  absl::Status ReadNode(uint64_t address, uint64_t level) {
    ASSIGN_OR_RETURN(const std::string head, source_.ReadBlock(address, kNodeHead, "TREE", false));
    Hdf5Bytes in(head);
    in.Skip(4);
    const uint64_t type = in.Take(1);
    const uint64_t node_level = in.Take(1);
    const uint64_t count = in.Take(2);
    if (type != 0 || node_level != level) return source_.Malformed("a symbol table's wrong node");
    // Keys and children take turns, beginning with a key.
    ASSIGN_OR_RETURN(const std::string entries, source_.Read(address + kNodeHead, 16 * count));
    Hdf5Bytes list(entries);
    for (uint64_t i = 0; i < count; ++i) {
      list.Skip(8);
      const uint64_t child = list.Take(8);
      RETURN_IF_ERROR(level == 0 ? ReadSymbols(child) : ReadNode(child, level - 1));
    }
    return absl::OkStatus();
  }

  absl::Status ReadSymbols(uint64_t address) {
    ASSIGN_OR_RETURN(const std::string head, source_.ReadBlock(address, 8, "SNOD", false));
    Hdf5Bytes in(head);
    in.Skip(6);
    const uint64_t count = in.Take(2);
    ASSIGN_OR_RETURN(const std::string symbols, source_.Read(address + 8, kSymbolBytes * count));
    Hdf5Bytes list(symbols);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t name = list.Take(8);
      Hdf5Link link;
      link.address = list.Take(8);
      const uint64_t cached = list.Take(4);
      list.Skip(20);
      const size_t end = name < names_.size() ? names_.find('\0', name) : std::string::npos;
      if (end == std::string::npos) return source_.Malformed("a symbol's name beyond its heap");
      link.name = names_.substr(name, end - name);
      RETURN_IF_ERROR(source_.Spend(link.name.size()));
      constexpr uint64_t kSoftLink = 2;
      if (cached == kSoftLink) return NotHard(source_, link.name, "a soft link");
      links_.push_back(std::move(link));
    }
    return absl::OkStatus();
  }

  Hdf5Source& source_;
  Links& links_;
  std::string names_;
};

// Reads a link from a message, or from an object of a heap.
absl::StatusOr<Hdf5Link> ParseLink(const Hdf5Source& source, absl::string_view message) {
  Hdf5Bytes in(message);
  const uint64_t version = in.Take(1);
  const uint64_t flags = in.Take(1);
  const uint64_t kind = (flags & 8) != 0 ? in.Take(1) : 0;
  if ((flags & 4) != 0) in.Skip(8);
  if ((flags & 16) != 0) in.Skip(1);
  Hdf5Link link;
  link.name = std::string(in.TakeBytes(in.Take(size_t{1} << (flags & 3))));
  if (!in.ok() || version != 1) return source.Malformed("a link that does not end");
  constexpr uint64_t kHard = 0;
  constexpr uint64_t kSoft = 1;
  constexpr uint64_t kExternal = 64;
  if (kind == kSoft) return NotHard(source, link.name, "a soft link");
  if (kind == kExternal) return NotHard(source, link.name, "a link into another file");
  if (kind != kHard) return NotHard(source, link.name, absl::StrCat("a link of kind ", kind));
  link.address = in.Take(8);
  if (!in.ok()) return source.Malformed("a link that does not end");
  return link;
}

// Reads the links of a group that keeps them in a heap.
absl::Status ReadDense(Hdf5Source& source, const std::string& message, Links& links) {
  Hdf5Bytes in(message);
  in.Skip(1);
  const uint64_t flags = in.Take(1);
  if ((flags & 1) != 0) in.Skip(8);
  const uint64_t heap_address = in.Take(8);
  const uint64_t tree = in.Take(8);
  if (!in.ok()) return source.Malformed("links that do not end");
  if (heap_address == kHdf5NoAddress) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Hdf5Heap heap, Hdf5Heap::Open(source, heap_address));
  ASSIGN_OR_RETURN(const std::vector<std::string> records, ReadHdf5Tree(source, tree));
  for (const std::string& record : records) {
    Hdf5Bytes of_record(record);
    of_record.Skip(4);  // the hash of the name
    const absl::string_view id = of_record.TakeBytes(heap.id_bytes());
    if (!of_record.ok()) return source.Malformed("a record that is too short");
    ASSIGN_OR_RETURN(const std::string object, heap.Read(source, id));
    ASSIGN_OR_RETURN(Hdf5Link link, ParseLink(source, object));
    links.push_back(std::move(link));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Links> ReadHdf5Links(Hdf5Source& source, const std::vector<Hdf5Message>& messages) {
  Links links;
  for (const Hdf5Message& message : messages) {
    switch (message.type) {
      case Hdf5MessageType::kSymbolTable:
        RETURN_IF_ERROR(SymbolTable(source, links).Read(message.body));
        break;
      case Hdf5MessageType::kLinkInfo:
        RETURN_IF_ERROR(ReadDense(source, message.body, links));
        break;
      case Hdf5MessageType::kLink: {
        ASSIGN_OR_RETURN(Hdf5Link link, ParseLink(source, message.body));
        links.push_back(std::move(link));
        break;
      }
      default:
        break;
    }
  }
  std::sort(links.begin(), links.end(),
            [](const Hdf5Link& a, const Hdf5Link& b) { return a.name < b.name; });
  for (size_t i = 1; i < links.size(); ++i) {
    if (links[i].name != links[i - 1].name) continue;
    return source.Malformed(absl::StrCat("two objects called '", Excerpt(links[i].name), "'"));
  }
  return links;
}

}  // namespace cohort
