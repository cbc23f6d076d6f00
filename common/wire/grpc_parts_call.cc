#include "common/wire/grpc_parts_call.h"

#include <grpcpp/grpcpp.h>
#include <grpcpp/support/client_callback.h>

#include <atomic>
#include <utility>

#include "common/base/status.h"

namespace cohort {

namespace {

// Writes the request's parts one after another while it reads the answer's. gRPC runs each reaction
// once at a time and OnDone last; that a part was written and that one came may be told at once.
// Lives until OnDone.
class PartsCaller final : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit PartsCaller(PartsRequest request)
      : context_(std::move(request.context)),
        done_(std::move(request.done)),
        sender_(std::move(request.method), std::move(request.message)),
        waits_for_room_(request.asks),
        answer_(request.message_bytes_max, std::move(request.pool)) {}

  void Start(grpc::GenericStub& stub) {
    stub.PrepareBidiStreamingCall(context_.get(), kPartsMethod, grpc::StubOptions(), this);
    StartRead(&read_);
    if (waits_for_room_) sender_.Announce();
    WriteNext();
    StartCall();
  }

  void OnWriteDone(bool ok) override {
    write_.Clear();  // the part's memory is the caller's
    if (!ok || sender_.done()) return;
    if (!std::exchange(waits_for_room_, false)) return WriteNext();
    AnnouncedOrRoom();
  }

  void OnReadDone(bool ok) override {
    if (!ok) return;
    received_ = answer_.Add(read_);
    read_.Clear();
    if (!received_.ok()) return context_->TryCancel();
    const bool told = answer_.room() && !std::exchange(room_told_, true);
    StartRead(&read_);
    if (told) AnnouncedOrRoom();
  }

  void OnDone(const grpc::Status& status) override {
    const std::unique_ptr<PartsCaller> self(this);
    // What is wrong with the answer says more than that the call was given up for it.
    done_(received_.ok() ? status : grpc::Status::OK, Answer());
  }

 private:
  absl::StatusOr<Message> Answer() {
    RETURN_IF_ERROR(received_);
    if (!answer_.complete()) return absl::UnavailableError("the answer ended early");
    return answer_.Take();
  }

  // By two reactions, in either order: the second one goes on.
  void AnnouncedOrRoom() {
    if (may_go_on_.exchange(true)) WriteNext();
  }

  void WriteNext() {
    write_ = sender_.Next();
    if (sender_.done()) {
      StartWriteLast(&write_, grpc::WriteOptions());
    } else if (waits_for_room_) {
      StartWrite(&write_);  // with a hint that more follows, it would wait for that
    } else {
      StartWrite(&write_, grpc::WriteOptions().set_buffer_hint());
    }
  }

  const std::shared_ptr<grpc::ClientContext> context_;  // shared with the caller
  const std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done_;
  grpc::ByteBuffer write_, read_;
  PartSender sender_;
  bool waits_for_room_;     // of writing
  bool room_told_ = false;  // of reading
  std::atomic<bool> may_go_on_{false};
  PartReceiver answer_;
  absl::Status received_;
};

}  // namespace

void StartPartsCall(grpc::GenericStub& stub, PartsRequest request) {
  (new PartsCaller(std::move(request)))->Start(stub);
}

}  // namespace cohort
