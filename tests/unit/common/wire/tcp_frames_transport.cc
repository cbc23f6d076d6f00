#include "tests/unit/common/wire/tcp_frames_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/local_server.h"
#include "common/wire/frames/stream_dial.h"
#include "common/wire/frames/tcp_socket.h"
#include "common/wire/route/shared_port.h"

namespace cohort {

namespace {

constexpr char kName[] = "0123456789abcdef0123456789abcdef";

class FramesServer final : public Server {
 public:
  // Greets on `dials`: a thread of the others may wait in Start for being greeted.
  FramesServer(std::unique_ptr<LocalServer> frames, const std::shared_ptr<IoLoop>& dials,
               TcpListeners listeners)
      : frames_(std::move(frames)),
        port_(SharedPort::Start(
            dials, std::move(listeners),
            {kName,
             [this](UniqueFd socket, StreamKind kind) { frames_->Take(std::move(socket), kind); },
             [](UniqueFd, const std::string&) {}})) {}
  ~FramesServer() override { port_->Close(); }

  std::string address() const override { return frames_->address(); }
  void Drain(absl::Duration grace) override { frames_->Drain(grace); }

 private:
  const std::unique_ptr<LocalServer> frames_;
  const std::shared_ptr<SharedPort> port_;
};

class FramesChannel final : public Channel {
 public:
  FramesChannel(LocalLoops loops, std::shared_ptr<IoLoop> dials, LocalSession::Options options)
      : loops_(std::move(loops)), dials_(std::move(dials)), options_(std::move(options)) {}

  std::unique_ptr<Call> Start(absl::string_view method, Message request, absl::Duration timeout,
                              Reply done) override {
    const absl::StatusOr<std::shared_ptr<LocalChannel>> open = Open();
    if (open.ok()) return (*open)->Start(method, std::move(request), timeout, std::move(done));
    class EndedCall final : public Call {
      void Cancel() override {}
    };
    absl::Status failure = absl::UnavailableError(
        absl::StrCat("no server at ", options_.address, ": ", open.status().message()));
    loops_.calls->Post([done = std::move(done), failure = std::move(failure)]() mutable {
      done(std::move(failure));
    });
    return std::make_unique<EndedCall>();
  }

  absl::Duration SinceProgress() const override {
    MutexLock lock(mutex_);
    return open_ == nullptr ? absl::InfiniteDuration() : open_->SinceProgress();
  }

 private:
  absl::StatusOr<std::shared_ptr<LocalChannel>> Open() {
    MutexLock lock(mutex_);
    if (open_ != nullptr && open_->open()) return open_;
    ASSIGN_OR_RETURN(auto calls, Dial(loops_.calls, StreamKind::kCalls));
    ASSIGN_OR_RETURN(auto parts, Dial(loops_.parts, StreamKind::kParts));
    open_ = std::make_shared<LocalChannel>(loops_, std::move(calls), std::move(parts));
    return open_;
  }

  absl::StatusOr<std::shared_ptr<LocalSession>> Dial(const std::shared_ptr<IoLoop>& loop,
                                                     StreamKind kind) {
    Event ended;
    absl::StatusOr<UniqueFd> socket = absl::UnknownError("");
    ASSIGN_OR_RETURN(const auto dial,
                     StreamDial::Start(dials_, {"ipv4:" + options_.address, kName, kind},
                                       [&](absl::StatusOr<UniqueFd> result) {
                                         socket = std::move(result);
                                         ended.Notify();
                                       }));
    ended.WaitFor(absl::InfiniteDuration());
    RETURN_IF_ERROR(socket.status());
    return LocalSession::Over(loop, *std::move(socket), options_);
  }

  const LocalLoops loops_;
  const std::shared_ptr<IoLoop> dials_;
  const LocalSession::Options options_;
  mutable Mutex mutex_;
  std::shared_ptr<LocalChannel> open_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<std::unique_ptr<Server>> TcpFramesTransport::Listen(const std::string& address,
                                                                   std::vector<Service> services) {
  ASSIGN_OR_RETURN(TcpListeners listeners, ListenTcp(address));
  ASSIGN_OR_RETURN(
      auto frames,
      StartLocalServer(loops_, {"", absl::StrCat("127.0.0.1:", listeners.port), std::move(services),
                                message_bytes_max_, /*blocks=*/false}));
  return std::make_unique<FramesServer>(std::move(frames), dials_, std::move(listeners));
}

std::shared_ptr<Channel> TcpFramesTransport::Connect(const std::string& address, Lane lane) {
  LocalSession::Options options;
  options.address = address;
  options.message_bytes_max = message_bytes_max_;
  options.blocks = false;
  options.sums = FrameSums::kCrc32c;
  if (lane == Lane::kFrames) options.free_bytes_max = kFrameBytesMax;
  return std::make_shared<FramesChannel>(loops_, dials_, std::move(options));
}

}  // namespace cohort
