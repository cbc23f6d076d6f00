#include "tests/bench/transport_peer.h"

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "common/wire/route/real_world.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "tests/bench/raw_socket.h"

namespace cohort::bench {

namespace {

// Pulls are answered with slices of live tensors; a push ends as a tensor of this process.
std::map<std::string, Handler> PeerHandlers() {
  std::map<std::string, Handler> handlers;
  auto values = std::make_shared<std::vector<Tensor>>();
  for (int i = 0; i < kSizes; ++i) values->push_back(Filled(BytesOfSize(i)));
  handlers["Pull"] = MakeHandler<proto::PullRequest, proto::PullResponse>(
      [values](Envelope<proto::PullRequest> request, TypedReply<proto::PullResponse> reply) {
        Envelope<proto::PullResponse> response;
        for (const uint32_t id : request.header.slice_ids()) {
          if (id >= values->size()) return reply(absl::NotFoundError("no such slice"));
          *response.header.add_tensors() = MetaOf((*values)[id]);
          response.payload.push_back(SliceOf((*values)[id]));
        }
        reply(std::move(response));
      });
  handlers["Push"] = MakeHandler<proto::PushRequest, proto::PushResponse>(
      [](Envelope<proto::PushRequest> request, TypedReply<proto::PushResponse> reply) {
        PayloadReader reader(request.payload);
        for (const proto::PushSlice& slice : request.header.slices()) {
          const auto tensor = reader.ReadTensor(slice.tensor());
          if (!tensor.ok()) return reply(tensor.status());
        }
        reply(Envelope<proto::PushResponse>());
      });
  return handlers;
}

absl::Status RunPeer(const Options& options) {
  ASSIGN_OR_RETURN(const auto raw_tcp, RawServer::StartTcp(kLargest));
  ASSIGN_OR_RETURN(const auto raw_unix, RawServer::StartUnix(kLargest));
  std::string line =
      absl::StrCat("raw-tcp=", raw_tcp->address(), " raw-unix=", raw_unix->address());
  std::vector<std::unique_ptr<Transport>> transports;
  std::vector<std::unique_ptr<Server>> servers;
  for (const char* const name : kKinds) {
    ASSIGN_OR_RETURN(const TransportKind kind, TransportKindFromName(name));
    transports.push_back(MakeTransport(kind));
    ASSIGN_OR_RETURN(
        std::unique_ptr<Server> server,
        transports.back()->Listen(
            "127.0.0.1:0",
            {Service{proto::PullRequest::descriptor()->file()->FindServiceByName("PsService"),
                     PeerHandlers()}}));
    absl::StrAppend(&line, " ", name, "=", server->address());
    servers.push_back(std::move(server));
  }
  std::puts(line.c_str());
  std::fflush(stdout);
  WaitForStarter();
  // The raw connections may still be open; the process is done all the same.
  _exit(0);
}

}  // namespace

Tensor Filled(size_t bytes) {
  Tensor tensor(DType::kUint8, Shape{static_cast<int64_t>(bytes)});
  std::memset(tensor.mutable_raw(), 1, bytes);
  return tensor;
}

absl::StatusOr<PeerAddresses> ReadAddresses(Peer& peer) {
  ASSIGN_OR_RETURN(const std::string line, peer.ReadLine());
  PeerAddresses addresses;
  for (const absl::string_view part : absl::StrSplit(line, ' ')) {
    const std::pair<std::string, std::string> pair = absl::StrSplit(part, absl::MaxSplits('=', 1));
    addresses.insert(pair);
  }
  if (addresses.size() == 6) return addresses;
  return absl::InternalError(absl::StrCat("the peer said '", line, "'"));
}

Command TransportPeer() { return {"transport-peer", "", {}, RunPeer}; }

}  // namespace cohort::bench
