#include "common/wire/grpc/grpc_parts_call.h"

#include <atomic>
#include <utility>

#include "common/base/status.h"
#include "common/wire/grpc/grpc_client_stream.h"

namespace cohort {

namespace {

// Writes the request's parts one after another while it reads the answer's. gRPC runs each reaction
// once at a time and OnDone last; that a part was written and that one came may be told at once.
// Lives until OnDone.
class PartsCaller final : public GrpcClientStream {
 public:
  explicit PartsCaller(PartsRequest request)
      : context_(std::move(request.context)),
        done_(std::move(request.done)),
        sender_(std::move(request.method), std::move(request.message)),
        waits_for_room_(request.asks),
        answer_(request.message_bytes_max, std::move(request.pool)) {}

  void Start(grpc::GenericStub& stub) {
    if (waits_for_room_) sender_.Announce();
    AddHold();
    StartCall(stub, *context_, kPartsMethod);
    WriteNext();
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    if (!ok || sender_.done()) return;
    if (!std::exchange(waits_for_room_, false)) return WriteNext();
    AnnouncedOrRoom();
  }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    received_ = answer_.Add(message);
    if (!received_.ok()) {
      context_->TryCancel();
      return false;
    }
    if (answer_.room() && !std::exchange(room_told_, true)) AnnouncedOrRoom();
    return true;
  }

  void OnDone(const grpc::Status& status) override {
    const std::unique_ptr<PartsCaller> self(this);
    // The fault of the answer says more than the cancellation that followed it.
    done_(received_.ok() ? status : grpc::Status::OK, Answer());
  }

 private:
  absl::StatusOr<Message> Answer() {
    RETURN_IF_ERROR(received_);
    if (!answer_.complete()) return absl::UnavailableError("the answer ended early");
    return answer_.Take();
  }

  // Called by two reactions, in either order: the second one goes on.
  void AnnouncedOrRoom() {
    if (may_go_on_.exchange(true)) WriteNext();
  }

  void WriteNext() {
    const grpc::ByteBuffer part = sender_.Next();
    grpc::WriteOptions options;
    if (sender_.done()) {
      options.set_last_message();
    } else if (!waits_for_room_) {  // with a hint that more follows, it would wait for that
      options.set_buffer_hint();
    }
    StartWrite(part, options);
  }

  const std::shared_ptr<grpc::ClientContext> context_;  // shared with the caller
  const std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done_;
  PartSender sender_;
  bool waits_for_room_;     // used by the writing side
  bool room_told_ = false;  // used by the reading side
  std::atomic<bool> may_go_on_{false};
  PartReceiver answer_;
  absl::Status received_;
};

}  // namespace

void StartPartsCall(grpc::GenericStub& stub, PartsRequest request) {
  (new PartsCaller(std::move(request)))->Start(stub);
}

}  // namespace cohort
