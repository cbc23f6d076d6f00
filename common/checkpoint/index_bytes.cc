#include "common/checkpoint/index_bytes.h"

#include <leveldb/env.h>
#include <leveldb/options.h>
#include <leveldb/table_builder.h>

#include "common/base/check.h"
#include "common/checkpoint/bundle_format.h"

namespace cohort {

namespace {

// A file in memory, to which LevelDB's TableBuilder writes. An index is small, so it is built in
// memory and then written to disk at once. Thread-compatible.
class StringFile final : public leveldb::WritableFile {
 public:
  const std::string& bytes() const { return bytes_; }

  leveldb::Status Append(const leveldb::Slice& data) override {
    bytes_.append(data.data(), data.size());
    return leveldb::Status::OK();
  }
  leveldb::Status Close() override { return leveldb::Status::OK(); }
  leveldb::Status Flush() override { return leveldb::Status::OK(); }
  leveldb::Status Sync() override { return leveldb::Status::OK(); }

 private:
  std::string bytes_;
};

}  // namespace

std::string IndexBytes(const IndexEntries& entries, int num_shards) {
  proto::BundleHeaderProto header;
  header.set_num_shards(num_shards);
  header.mutable_version()->set_producer(kBundleVersion);
  leveldb::Options options;
  // The index is not compressed, as in a checkpoint that TensorFlow writes.
  options.compression = leveldb::kNoCompression;
  options.block_size = kIndexBlockBytes;
  StringFile file;
  leveldb::TableBuilder builder(options, &file);
  builder.Add(leveldb::Slice(), header.SerializeAsString());
  for (const auto& [key, entry] : entries) builder.Add(key, entry.SerializeAsString());
  const leveldb::Status status = builder.Finish();
  COHORT_CHECK(status.ok(), "a table in memory cannot fail");
  return file.bytes();
}

}  // namespace cohort
