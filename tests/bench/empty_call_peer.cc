// An empty call of gRPC's own, between two processes that have nothing of this project's: its
// threads would wait for gRPC beside ours.

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <vector>

#include "absl/strings/numbers.h"
#include "common/base/event.h"
#include "common/base/status.h"
#include "tests/bench/transport_peer.h"

namespace cohort::bench {

namespace {

// Thread-safe.
class EmptyService final : public grpc::CallbackGenericService {
 public:
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    class Reactor final : public grpc::ServerGenericBidiReactor {
     public:
      Reactor() { StartRead(&request_); }
      void OnReadDone(bool) override { StartWriteAndFinish(&answer_, {}, grpc::Status::OK); }
      void OnDone() override { delete this; }

     private:
      const grpc::Slice nothing_;
      grpc::ByteBuffer request_, answer_{&nothing_, 1};
    };
    return new Reactor;
  }
};

absl::Status Serve() {
  EmptyService empty;
  int port = 0;
  const std::unique_ptr<grpc::Server> server =
      grpc::ServerBuilder()
          .AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port)
          .RegisterCallbackGenericService(&empty)
          .BuildAndStart();
  std::printf("127.0.0.1:%d\n", port);
  std::fflush(stdout);
  WaitForStarter();
  _exit(0);
}

absl::Status Call(grpc::GenericStub& stub) {
  const grpc::Slice nothing;
  const grpc::ByteBuffer request(&nothing, 1);
  grpc::ByteBuffer answer;
  grpc::ClientContext context;
  Event ended;
  grpc::Status status;
  stub.UnaryCall(&context, "/none/None", grpc::StubOptions(), &request, &answer,
                 [&](const grpc::Status& result) {
                   status = result;
                   ended.Notify();
                 });
  if (!ended.WaitFor(absl::Minutes(1))) return absl::UnavailableError("no answer in a minute");
  return status.ok() ? absl::OkStatus() : absl::UnavailableError(status.error_message());
}

absl::Status RunPeer(const Options& options) {
  const std::string address = options.Text("address");
  if (address.empty()) return Serve();
  ASSIGN_OR_RETURN(const int calls, options.Number("calls"));
  grpc::GenericStub stub(grpc::CreateChannel(address, grpc::InsecureChannelCredentials()));
  std::vector<double> microseconds;
  for (int i = 0; i < calls; ++i) {
    const auto start = std::chrono::steady_clock::now();
    RETURN_IF_ERROR(Call(stub));
    microseconds.push_back(
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start)
            .count());
  }
  std::printf("%f\n", Median(microseconds));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EmptyCalls> EmptyCalls::Start() {
  ASSIGN_OR_RETURN(Peer server, Peer::Start({"empty-call-peer"}));
  ASSIGN_OR_RETURN(std::string address, server.ReadLine());
  return EmptyCalls(std::move(server), std::move(address));
}

absl::StatusOr<double> EmptyCalls::Microseconds(int count) const {
  ASSIGN_OR_RETURN(Peer caller, Peer::Start({"empty-call-peer", "--address", address_, "--calls",
                                             std::to_string(count)}));
  ASSIGN_OR_RETURN(const std::string line, caller.ReadLine());
  double median = 0;
  if (absl::SimpleAtod(line, &median)) return median;
  return absl::InternalError("a caller of gRPC said '" + line + "'");
}

Command EmptyCallPeer() {
  return {"empty-call-peer",
          "",
          {{"address", "", "of the server to call; none: serves"}, {"calls", "1000", "how many"}},
          RunPeer};
}

}  // namespace cohort::bench
