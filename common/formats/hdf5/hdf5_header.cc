#include "common/formats/hdf5/hdf5_header.h"

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kBlocksMax = 4096;  // blocks of one header
constexpr uint64_t kChecksumBytes = 4;
constexpr uint64_t kSharedFlag = 2;

// The place of messages that are still to be read.
struct Block {
  uint64_t address = 0;
  uint64_t length = 0;
};

// A header that is being read. Thread-compatible.
class HeaderReader {
 public:
  explicit HeaderReader(Hdf5Source& source) : source_(source) {}

  absl::Status ReadVersion1(uint64_t address) {
    ASSIGN_OR_RETURN(const std::string prefix, source_.Read(address, 16));
    Hdf5Bytes in(prefix);
    in.Skip(8);
    blocks_.push_back({address + prefix.size(), in.Take(4)});
    for (size_t i = 0; i < blocks_.size(); ++i) {
      ASSIGN_OR_RETURN(const std::string block,
                       source_.Read(blocks_[i].address, blocks_[i].length));
      RETURN_IF_ERROR(AddMessages(block));
    }
    return absl::OkStatus();
  }

  absl::Status ReadVersion2(uint64_t address) {
    ASSIGN_OR_RETURN(const std::string begin, source_.Read(address, 6));
    Hdf5Bytes in(begin);
    in.Skip(4);
    const uint64_t version = in.Take(1);
    if (version != 2) return source_.Unsupported(absl::StrCat("object header ", version));
    const uint64_t flags = in.Take(1);
    const uint64_t width = uint64_t{1} << (flags & 3);
    const uint64_t skipped = ((flags & 0x20) != 0 ? 16 : 0) + ((flags & 0x10) != 0 ? 4 : 0);
    version2_ = true;
    has_order_ = (flags & 4) != 0;
    const uint64_t prefix = begin.size() + skipped + width;
    ASSIGN_OR_RETURN(const std::string size, source_.Read(address + begin.size() + skipped, width));
    const uint64_t length = Hdf5Bytes(size).Take(width);
    if (length > source_.size()) return source_.Malformed("an object header beyond the end");
    ASSIGN_OR_RETURN(
        const std::string first,
        source_.ReadBlock(address, prefix + length + kChecksumBytes, "OHDR", /*checksum=*/true));
    RETURN_IF_ERROR(AddMessages(absl::string_view(first).substr(prefix)));
    for (size_t i = 0; i < blocks_.size(); ++i) {
      ASSIGN_OR_RETURN(const std::string block,
                       source_.ReadBlock(blocks_[i].address, blocks_[i].length, "OCHK",
                                         /*checksum=*/true));
      RETURN_IF_ERROR(AddMessages(absl::string_view(block).substr(4)));
    }
    return absl::OkStatus();
  }

  std::vector<Hdf5Message> TakeMessages() { return std::move(messages_); }

 private:
  // Adds the messages of one block. What is too short for a message is a gap at the block's end.
  absl::Status AddMessages(absl::string_view block) {
    const size_t prefix = version2_ ? (has_order_ ? 6 : 4) : 8;
    Hdf5Bytes in(block);
    while (in.left() >= prefix) {
      Hdf5Message message;
      message.type = static_cast<Hdf5MessageType>(in.Take(version2_ ? 1 : 2));
      const uint64_t length = in.Take(2);
      message.shared = (in.Take(1) & kSharedFlag) != 0;
      in.Skip(version2_ ? (has_order_ ? 2 : 0) : 3);
      message.body = std::string(in.TakeBytes(length));
      if (!in.ok()) return source_.Malformed("a message longer than its object header");
      if (message.type == Hdf5MessageType::kContinuation) {
        RETURN_IF_ERROR(AddBlock(message));
      } else if (message.type != Hdf5MessageType::kNil) {
        messages_.push_back(std::move(message));
      }
    }
    return absl::OkStatus();
  }

  absl::Status AddBlock(const Hdf5Message& message) {
    Hdf5Bytes in(message.body);
    Block block;
    block.address = in.Take(8);
    block.length = in.Take(8);
    if (!in.ok() || blocks_.size() >= kBlocksMax) {
      return source_.Malformed("an object header without end");
    }
    blocks_.push_back(block);
    return absl::OkStatus();
  }

  Hdf5Source& source_;
  bool version2_ = false;
  bool has_order_ = false;  // each message has a number, in the order in which they were made
  std::vector<Block> blocks_;
  std::vector<Hdf5Message> messages_;
};

}  // namespace

absl::StatusOr<std::vector<Hdf5Message>> ReadHdf5Header(Hdf5Source& source, uint64_t address) {
  ASSIGN_OR_RETURN(const std::string begin, source.Read(address, 4));
  HeaderReader reader(source);
  if (begin == "OHDR") {
    RETURN_IF_ERROR(reader.ReadVersion2(address));
  } else if (begin[0] == 1) {
    RETURN_IF_ERROR(reader.ReadVersion1(address));
  } else {
    return source.Malformed(absl::StrCat("no object at address ", address));
  }
  return reader.TakeMessages();
}

}  // namespace cohort
