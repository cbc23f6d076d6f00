// Files of records: the first byte of an input chooses the format.

#include <cstdlib>
#include <vector>

#include "common/records/index_store.h"
#include "common/records/tfrecord.h"
#include "tests/fuzz/fuzz_seeds.h"
#include "tests/fuzz/fuzz_target.h"

namespace cohort {

namespace {

const RecordFormat kFormats[] = {
    {.kind = RecordFormat::Kind::kTfRecord},
    {.kind = RecordFormat::Kind::kTextLines},
    {.kind = RecordFormat::Kind::kCsv, .comment = "#", .skip_blank = true},
    {.kind = RecordFormat::Kind::kFixedLength, .bytes = 3, .header_bytes = 1, .footer_bytes = 2}};

}  // namespace

std::vector<std::string> FuzzSeeds() {
  std::string records;
  for (const char* record : {"abc", "", "xxxxx"}) AppendTfRecord(record, records);
  // The same records as TensorFlow packs them.
  const std::string gzip(
      "\x1f\x8b\x08\0\0\0\0\0\0\x03\x63\x66\x80\x80\x0d\x33\x3d\xf9\x12\x93\x92"
      "\xf3\xc2\x3f\x2a\x42\x45\x18\x34\x99\x67\xb0\xdf\x78\xd5\xb4\x08\0\x23"
      "\x44\xab\x4e\xd2\x30\0\0\0",
      47);
  return {'\0' + records, '\0' + gzip, "\1a\nb\r\n\nc", "\2a,\"x\ny\"\r\nb,2\r", "\3#aaabbb!!"};
}

void FuzzOne(absl::string_view input) {
  if (input.empty()) return;
  const RecordFormat& format = kFormats[static_cast<unsigned char>(input[0]) % 4];
  auto file = std::make_unique<MemoryFile>(input.substr(1));
  auto index = IndexFile(*file, "input", format, FileCompression::kAuto);
  if (!index.ok()) return;
  const auto fingerprint = FingerprintOf(*file);
  if (!fingerprint.ok()) return;
  const auto stored = RestoreIndex(StoreIndex(*index, format, *fingerprint), format, *fingerprint);
  if (!stored.ok()) std::abort();  // an index that was made can be restored
  const RecordFile records(std::move(file), "input", format, *std::move(index),
                           std::make_shared<SpanCache>(size_t{1} << 20));
  std::vector<uint64_t> numbers;
  for (uint64_t i = 0; i < records.records() && i < 100; ++i) numbers.push_back(i);
  RecordBatch batch;
  (void)records.Read(numbers, batch);
}

}  // namespace cohort
