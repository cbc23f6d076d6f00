// Data sets that a worker is asked for while it still reads them.

#include "worker/service/resource_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "common/base/event.h"
#include "common/base/temporary_file.h"
#include "common/base/thread_pool.h"
#include "google/protobuf/text_format.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Holds up the first Open until told to go on, and counts all of them.
class HeldFiles final : public FileSystem {
 public:
  explicit HeldFiles(FileSystem& files) : files_(files) {}

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    return files_.Create(path);
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    if (opened++ == 0) {
      held.Notify();
      go_on.WaitFor(absl::InfiniteDuration());
    }
    return files_.Open(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    return files_.List(directory);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return files_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return files_.Remove(path); }
  absl::Status MakeDirectories(const std::string& path) override {
    return files_.MakeDirectories(path);
  }

  std::atomic<int> opened = 0;
  Event held;
  Event go_on;

 private:
  FileSystem& files_;
};

class ResourceTableTest : public testing::Test {
 protected:
  ResourceTableTest() : files(memory), table(executor, files, "") {
    // Three elements of one byte.
    const std::string idx(
        "\0\0\x08\x01\0\0\0\x03"
        "abc",
        11);
    EXPECT_TRUE(WriteFileAtomically(memory, "/a", idx).ok());
    EXPECT_TRUE(WriteFileAtomically(memory, "/b", idx).ok());
  }

  static proto::CreateDatasetRequest Request(const std::string& path) {
    proto::CreateDatasetRequest request;
    request.set_dataset_id(7);
    request.mutable_spec()->mutable_source()->mutable_idx()->add_paths(path);
    return request;
  }

  MemoryFileSystem memory;
  HeldFiles files;
  ThreadPool executor{{.name = "table"}};
  ResourceTable table;
};

// A coordinator asks again when the answer takes long. The files are read once.
TEST_F(ResourceTableTest, ACallThatIsRepeatedWhileTheDataSetIsReadJoinsTheFirst) {
  std::shared_ptr<const Dataset> first, second;
  std::thread one([&] { first = table.CreateDataset(Request("/a")).value(); });
  files.held.WaitFor(absl::InfiniteDuration());
  std::thread other([&] { second = table.CreateDataset(Request("/a")).value(); });
  const auto another_spec = table.CreateDataset(Request("/b"));
  EXPECT_EQ(another_spec.status().code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(another_spec.status().message()), HasSubstr("data set 7"));
  files.go_on.Notify();
  one.join();
  other.join();
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(first, second);
  HeldFiles of_one(memory);
  of_one.go_on.Notify();
  ResourceTable alone(executor, of_one, "");
  ASSERT_TRUE(alone.CreateDataset(Request("/a")).ok());
  EXPECT_EQ(files.opened, of_one.opened) << "the files were read twice";
}

// The ids of the next coordinator are its own: what the last one asked for must not take them.
TEST_F(ResourceTableTest, ADataSetThatIsReadWhenTheTableIsClearedDoesNotEnterIt) {
  std::thread one([&] { EXPECT_TRUE(table.CreateDataset(Request("/a")).ok()); });
  files.held.WaitFor(absl::InfiniteDuration());
  table.Clear();
  const auto next = table.CreateDataset(Request("/b"));
  ASSERT_TRUE(next.ok()) << next.status();
  files.go_on.Notify();
  one.join();
  EXPECT_EQ(table.FindDataset(7), *next);
}

}  // namespace
}  // namespace cohort
