#include "common/wire/grpc/grpc_parts_call.h"

#include <atomic>
#include <utility>

#include "common/base/status.h"
#include "common/wire/grpc/grpc_client_stream.h"

namespace cohort {

namespace {

// Writes the parts of a request one after another, while it reads the parts of the answer. gRPC
// runs each kind of reaction once at a time and OnDone last. A reaction to reading and one to
// writing may run at the same time. Deletes itself in OnDone.
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
    // The hold keeps the caller alive: gRPC may end the call before WriteNext has returned.
    AddHold();
    StartCall(stub, *context_, kPartsMethod);
    WriteNext();
    RemoveHold();
  }

  void OnWriteDone(bool ok) override {
    if (!ok || sender_.done()) return;
    // The announcement was written. The bytes follow once the server has also granted room.
    if (!std::exchange(waits_for_room_, false)) return WriteNext();
    AnnouncedOrRoom();
  }

  bool OnMessage(const grpc::ByteBuffer& message) override {
    received_ = answer_.Add(message);
    if (!received_.ok()) {
      // A malformed answer ends the call; OnDone reports the malformed answer.
      context_->TryCancel();
      return false;
    }
    if (answer_.room() && !std::exchange(room_told_, true)) AnnouncedOrRoom();
    return true;
  }

  void OnDone(const grpc::Status& status) override {
    const std::unique_ptr<PartsCaller> self(this);
    // The error in the answer says more than the cancellation that followed it.
    done_(received_.ok() ? status : grpc::Status::OK, Answer());
  }

 private:
  absl::StatusOr<Message> Answer() {
    RETURN_IF_ERROR(received_);
    if (!answer_.complete()) return absl::UnavailableError("the answer ended early");
    return answer_.Take();
  }

  // Starts the payload. Runs when the announcement was written and when room was granted, in either
  // order: the second of these events writes.
  void AnnouncedOrRoom() {
    if (may_go_on_.exchange(true)) WriteNext();
  }

  void WriteNext() {
    const grpc::ByteBuffer part = sender_.Next();
    grpc::WriteOptions options;
    if (sender_.done()) {
      options.set_last_message();
      // The announcement must go at once. With the buffer hint, gRPC would wait for more bytes.
    } else if (!waits_for_room_) {
      options.set_buffer_hint();
    }
    StartWrite(part, options);
  }

  // Shared with the handle that may cancel the call.
  const std::shared_ptr<grpc::ClientContext> context_;
  const std::function<void(const grpc::Status&, absl::StatusOr<Message>)> done_;
  PartSender sender_;
  bool waits_for_room_;     // used by the reactions to writing alone
  bool room_told_ = false;  // used by the reactions to reading alone
  std::atomic<bool> may_go_on_{false};
  PartReceiver answer_;
  absl::Status received_;
};

}  // namespace

void StartPartsCall(grpc::GenericStub& stub, PartsRequest request) {
  (new PartsCaller(std::move(request)))->Start(stub);
}

}  // namespace cohort
