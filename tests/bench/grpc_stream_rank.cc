#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "tests/bench/rank_work.h"

namespace cohort::bench {

namespace {

// Bytes that were sent and not yet acknowledged stay below this.
constexpr size_t kWindowBytes = size_t{8} << 20;

// Counts received bytes, and wakes who waits for them. Thread-safe.
class Tally {
 public:
  void Add(size_t bytes) {
    MutexLock lock(mutex_);
    bytes_ += bytes;
    changed_.NotifyAll();
  }
  void WaitFor(size_t bytes) {
    MutexLock lock(mutex_);
    while (bytes_ < bytes) changed_.Wait(mutex_);
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The receiving end: counts, and answers each message with an empty one. Thread-safe.
class Sink final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new Reactor(*this);
  }
  Tally& received() { return received_; }

 private:
  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    explicit Reactor(Sink& sink) : sink_(sink) {
      StartSendInitialMetadata();
      StartRead(&message_);
    }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::OK);
      const size_t bytes = message_.Length();
      message_.Clear();
      bool write = false;
      {
        MutexLock lock(mutex_);
        write = owed_++ == 0;
      }
      if (write) StartWrite(&nothing_);
      sink_.received_.Add(bytes);
      StartRead(&message_);
    }
    void OnWriteDone(bool ok) override {
      if (!ok) return;
      bool more = false;
      {
        MutexLock lock(mutex_);
        more = --owed_ > 0;
      }
      if (more) StartWrite(&nothing_);
    }
    void OnDone() override { delete this; }

   private:
    Sink& sink_;
    Mutex mutex_;
    int owed_ ABSL_GUARDED_BY(mutex_) = 0;  // answers not yet written
    const grpc::Slice empty_;
    grpc::ByteBuffer message_, nothing_{&empty_, 1};
  };

  Tally received_;
};

// The sending end. Thread-safe.
class Source final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  Source(const std::string& address, size_t message_bytes) : message_bytes_(message_bytes) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
    arguments.SetMaxReceiveMessageSize(-1);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    stub_->PrepareBidiStreamingCall(&context_, "/none/Stream", grpc::StubOptions(), this);
    StartRead(&answer_);
    StartCall();
  }

  void Send(const char* data, size_t bytes) {
    MutexLock lock(mutex_);
    data_ = data;
    left_ += bytes;
    Next();
  }
  // What was sent has been answered then: gRPC takes no other write beside the one that ends.
  void End() {
    {
      MutexLock lock(mutex_);
      while (!done_ && (writing_ || unanswered_ > 0)) changed_.Wait(mutex_);
    }
    StartWritesDone();
    MutexLock lock(mutex_);
    while (!done_) changed_.Wait(mutex_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    MutexLock lock(mutex_);
    --unanswered_;
    StartRead(&answer_);
    Next();
    changed_.NotifyAll();
  }
  void OnWriteDone(bool ok) override {
    MutexLock lock(mutex_);
    writing_ = false;
    if (ok) Next();
    changed_.NotifyAll();
  }
  void OnDone(const grpc::Status&) override {
    MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }

 private:
  void Next() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (writing_ || left_ == 0 || (unanswered_ + 1) * message_bytes_ > kWindowBytes) return;
    const size_t bytes = std::min(left_, message_bytes_);
    const grpc::Slice slice(data_, bytes, grpc::Slice::STATIC_SLICE);
    data_ += bytes;
    left_ -= bytes;
    message_ = grpc::ByteBuffer(&slice, 1);
    writing_ = true;
    ++unanswered_;
    StartWrite(&message_);
  }

  const size_t message_bytes_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericStub> stub_;
  Mutex mutex_;
  CondVar changed_;
  const char* data_ ABSL_GUARDED_BY(mutex_) = nullptr;
  size_t left_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  bool done_ ABSL_GUARDED_BY(mutex_) = false;
  grpc::ByteBuffer message_, answer_;
};

// Thread-compatible.
class GrpcStream final : public RankWork {
 public:
  static absl::StatusOr<std::unique_ptr<RankWork>> Make(const RankPlace& place,
                                                        size_t message_bytes) {
    std::unique_ptr<GrpcStream> stream(new GrpcStream(place));
    int port = 0;
    stream->server_ = grpc::ServerBuilder()
                          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
                          .SetMaxReceiveMessageSize(-1)
                          .RegisterCallbackGenericService(&stream->sink_)
                          .BuildAndStart();
    if (stream->server_ == nullptr) return absl::UnavailableError("a gRPC server for the stream");
    RETURN_IF_ERROR(LeaveText(place, absl::StrCat(place.rank), absl::StrCat(port)));
    ASSIGN_OR_RETURN(const std::string next,
                     AwaitText(place, absl::StrCat((place.rank + 1) % place.ranks)));
    stream->source_ = std::make_unique<Source>("127.0.0.1:" + next, message_bytes);
    return stream;
  }
  ~GrpcStream() override {
    if (source_ != nullptr) source_->End();
    server_->Shutdown();
  }

  bool sums() const override { return false; }
  float* Prepare(size_t count) override {
    values_ = std::vector<float>(2 * count);
    bytes_ = 2 * (ranks_ - 1) * (count * sizeof(float) / ranks_);
    return values_.data();
  }
  bool AllReduce(int times) override {
    for (int i = 0; i < times; ++i) Exchange(bytes_);
    return true;
  }
  bool Barrier() override {
    for (size_t step = 0; step < ranks_; ++step) Exchange(1);
    return true;
  }

 private:
  explicit GrpcStream(const RankPlace& place) : ranks_(static_cast<size_t>(place.ranks)) {}

  void Exchange(size_t bytes) {
    source_->Send(reinterpret_cast<const char*>(values_.data()), bytes);
    expected_ += bytes;
    sink_.received().WaitFor(expected_);
  }

  const size_t ranks_;
  Sink sink_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Source> source_;
  std::vector<float> values_ = std::vector<float>(1);
  size_t bytes_ = 0;  // of one all-reduce
  size_t expected_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RankWork>> MakeGrpcStream(const RankPlace& place,
                                                         size_t message_bytes) {
  return GrpcStream::Make(place, message_bytes);
}

}  // namespace cohort::bench
