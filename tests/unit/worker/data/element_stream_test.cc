#include "worker/data/element_stream.h"

#include <deque>

#include "common/base/posix_file_system.h"
#include "common/base/thread_pool.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

// Runs tasks when told to: what was started ahead is visible.
class ManualExecutor final : public Executor {
 public:
  void Run(Task task) override { tasks_.push_back(std::move(task)); }
  size_t RunAll() {
    size_t count = 0;
    for (; !tasks_.empty(); ++count) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      task();
    }
    return count;
  }

 private:
  std::deque<Task> tasks_;
};

std::unique_ptr<DatasetIterator> RangeIterator(int64_t end, SourceCache& sources) {
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_end(end);
  return *(*Dataset::Build(spec, sources))->MakeIterator({});
}

TEST(ElementStream, WorksAheadAndNoFurtherThanItsBound) {
  PosixFileSystem files;
  SourceCache sources(files, "");
  ManualExecutor executor;
  auto stream = ElementStream::Start(executor, RangeIterator(100, sources), {3});
  EXPECT_EQ(executor.RunAll(), 3u);
  int64_t seen = -1;
  const auto read = [&seen](absl::StatusOr<std::optional<ElementStream::Item>> item) {
    seen = *(**item).element[0].data<int64_t>();
    EXPECT_EQ((**item).next_position.element(), seen + 1);
  };
  stream->Next(read);
  EXPECT_EQ(seen, 0);  // at once: it was ready
  EXPECT_EQ(executor.RunAll(), 1u);
}

TEST(ElementStream, WithoutPrefetchMakesElementsOnRequestAndEnds) {
  PosixFileSystem files;
  SourceCache sources(files, "");
  ManualExecutor executor;
  auto stream = ElementStream::Start(executor, RangeIterator(2, sources), {0});
  EXPECT_EQ(executor.RunAll(), 0u);
  std::vector<int64_t> seen;
  const auto read = [&seen](absl::StatusOr<std::optional<ElementStream::Item>> item) {
    seen.push_back(item->has_value() ? *(**item).element[0].data<int64_t>() : -1);
  };
  for (int i = 0; i < 4; ++i) stream->Next(read);
  EXPECT_TRUE(seen.empty());
  executor.RunAll();
  EXPECT_EQ(seen, (std::vector<int64_t>{0, 1, -1, -1}));
}

TEST(ElementStream, AnErrorEndsTheStreamForEveryWaiter) {
  PosixFileSystem files;
  SourceCache sources(files, "");
  ManualExecutor executor;
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_end(5);
  spec.add_transforms()->mutable_one_hot()->set_depth(2);
  auto stream =
      ElementStream::Start(executor, *(*Dataset::Build(spec, sources))->MakeIterator({}), {1});
  int ok = 0;
  int failed = 0;
  const auto read = [&](absl::StatusOr<std::optional<ElementStream::Item>> item) {
    ++(item.ok() ? ok : failed);
  };
  for (int i = 0; i < 5; ++i) stream->Next(read);
  executor.RunAll();
  EXPECT_EQ(ok, 2);
  EXPECT_EQ(failed, 3);
}

TEST(ElementStream, ManyThreadsGetEachElementOnce) {
  PosixFileSystem files;
  SourceCache sources(files, "");
  constexpr int64_t kElements = 2000;
  Mutex mutex;
  CondVar all_done;
  std::vector<int> seen(kElements);
  int answers = 0;
  {
    ThreadPool pool({"stream", 4});
    auto stream = ElementStream::Start(pool, RangeIterator(kElements, sources), {4});
    for (int64_t i = 0; i < kElements; ++i) {
      pool.Run([&, stream] {
        stream->Next([&](absl::StatusOr<std::optional<ElementStream::Item>> item) {
          MutexLock lock(mutex);
          seen[static_cast<size_t>(*(**item).element[0].data<int64_t>())]++;
          if (++answers == kElements) all_done.NotifyAll();
        });
      });
    }
    MutexLock lock(mutex);
    while (answers < kElements) all_done.Wait(mutex);
  }
  for (const int count : seen) EXPECT_EQ(count, 1);
}

}  // namespace
}  // namespace cohort
