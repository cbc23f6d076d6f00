// Pull and push of one tensor between two processes: over the project's gRPC transport as the ps
// and the worker use it, over a raw socket, and as a memcpy, by turns.

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <memory>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/grpc_transport.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "tests/bench/bench.h"
#include "tests/bench/raw_tcp.h"

namespace cohort::bench {

namespace {

constexpr size_t kSmallest = 4 << 10;
constexpr int kSizes = 8;  // 4 KiB, 16 KiB, ... 64 MiB
constexpr size_t kLargest = kSmallest << (2 * (kSizes - 1));
constexpr int kStreamMessages = 8;
constexpr int kCallsInFlight = 32;
constexpr absl::Duration kTimeout = absl::Seconds(60);

size_t BytesOfSize(int size) { return kSmallest << (2 * size); }

Tensor Filled(size_t bytes) {
  Tensor tensor(DType::kUint8, Shape{static_cast<int64_t>(bytes)});
  std::memset(tensor.mutable_raw(), 1, bytes);
  return tensor;
}

// Answers as the ps does: pulls with slices of live tensors, pushes by copying once.
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
  auto received = std::make_shared<Tensor>(Filled(kLargest));
  handlers["Push"] = MakeHandler<proto::PushRequest, proto::PushResponse>(
      [received](Envelope<proto::PushRequest> request, TypedReply<proto::PushResponse> reply) {
        PayloadReader reader(request.payload);
        const size_t bytes = reader.remaining();
        if (bytes > received->num_bytes()) return reply(absl::InvalidArgumentError("too long"));
        absl::Status read = reader.Read(absl::MakeSpan(received->mutable_raw(), bytes));
        if (!read.ok()) return reply(read);
        reply(Envelope<proto::PushResponse>());
      });
  return handlers;
}

absl::Status RunPeer(const Options& options) {
  ASSIGN_OR_RETURN(std::unique_ptr<RawTcpServer> raw, RawTcpServer::Start(kLargest));
  GrpcTransport transport;
  ASSIGN_OR_RETURN(
      std::unique_ptr<Server> server,
      transport.Listen(
          "127.0.0.1:0",
          {Service{proto::PullRequest::descriptor()->file()->FindServiceByName("PsService"),
                   PeerHandlers()}}));
  std::printf("%d %s\n", raw->port(), server->address().c_str());
  std::fflush(stdout);
  WaitForStarter();
  // The raw connection may still be open; the process is done all the same.
  _exit(0);
}

// Counts calls that are under way. Thread-safe.
class Pending {
 public:
  void Add() {
    MutexLock lock(mutex_);
    ++count_;
  }
  void Done(const absl::Status& status) {
    MutexLock lock(mutex_);
    if (!status.ok() && status_.ok()) status_ = status;
    --count_;
    changed_.NotifyOne();
  }
  // Until at most `count` are under way. The first failure of all.
  absl::Status WaitFor(int count) {
    MutexLock lock(mutex_);
    while (count_ > count) changed_.Wait(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

// The worker's side. Thread-compatible.
class Client {
 public:
  explicit Client(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  void StartPull(int size, Tensor& into, Pending& pending) {
    Envelope<proto::PullRequest> request;
    request.header.add_slice_ids(static_cast<uint32_t>(size));
    pending.Add();
    StartCall<proto::PullResponse, proto::PullRequest>(
        *channel_, "/cohort.proto.PsService/Pull", std::move(request), kTimeout,
        [&](absl::StatusOr<Envelope<proto::PullResponse>> response) {
          if (!response.ok()) return pending.Done(response.status());
          PayloadReader reader(response->payload);
          pending.Done(reader.Read(absl::MakeSpan(into.mutable_raw(), into.num_bytes())));
        });
  }

  void StartPush(const Tensor& from, Pending& pending) {
    Envelope<proto::PushRequest> request;
    *request.header.add_slices()->mutable_tensor() = MetaOf(from);
    request.payload.push_back(SliceOf(from));
    pending.Add();
    StartCall<proto::PushResponse, proto::PushRequest>(
        *channel_, "/cohort.proto.PsService/Push", std::move(request), kTimeout,
        [&](absl::StatusOr<Envelope<proto::PushResponse>> response) {
          pending.Done(response.status());
        });
  }

 private:
  const std::shared_ptr<Channel> channel_;
};

using Clock = std::chrono::steady_clock;

// Bytes per second of a move of `bytes`, repeated for `milliseconds` after one move that is not
// measured.
absl::StatusOr<double> Rate(size_t bytes, int milliseconds,
                            const std::function<absl::Status()>& move) {
  RETURN_IF_ERROR(move());
  const auto start = Clock::now();
  double seconds = 0;
  int moves = 0;
  do {
    RETURN_IF_ERROR(move());
    ++moves;
    seconds = std::chrono::duration<double>(Clock::now() - start).count();
  } while (seconds * 1000 < milliseconds);
  return static_cast<double>(bytes) * moves / seconds;
}

struct Case {
  std::string name;
  std::string reference;  // the name of another case
  size_t bytes = 0;
  std::function<absl::Status()> move;
  std::vector<double> rates = {};
};

// What the moves use; outlives them.
struct Setup {
  std::unique_ptr<RawTcpClient> raw;
  std::unique_ptr<Client> client;
  std::vector<Tensor> out;
  std::vector<Tensor> in;
  Pending pending;
};

void AddCases(Setup& setup, int size, std::vector<Case>& cases) {
  Tensor& in = setup.in[static_cast<size_t>(size)];
  const Tensor& out = setup.out[static_cast<size_t>(size)];
  const size_t bytes = out.num_bytes();
  const std::string name = SizeName(bytes);
  const auto writable = absl::MakeSpan(in.mutable_raw(), bytes);
  const auto readable = absl::MakeConstSpan(out.raw(), bytes);
  RawTcpClient& raw = *setup.raw;
  Client& client = *setup.client;
  Pending& pending = setup.pending;
  cases.push_back({"memcpy/copy/" + name, "", bytes, [writable, readable] {
                     std::memcpy(writable.data(), readable.data(), readable.size());
                     return absl::OkStatus();
                   }});
  cases.push_back({"raw/pull/" + name, "", bytes, [&, writable] { return raw.Pull(writable); }});
  cases.push_back({"raw/push/" + name, "", bytes, [&, readable] { return raw.Push(readable); }});
  cases.push_back({"raw/pull_stream/" + name, "", bytes * kStreamMessages,
                   [&, writable] { return raw.PullStream(writable, kStreamMessages); }});
  cases.push_back({"raw/push_stream/" + name, "", bytes * kStreamMessages,
                   [&, readable] { return raw.PushStream(readable, kStreamMessages); }});
  cases.push_back({"tcp/pull/" + name, "raw/pull/" + name, bytes, [&, size] {
                     client.StartPull(size, in, pending);
                     return pending.WaitFor(0);
                   }});
  cases.push_back({"tcp/push/" + name, "raw/push/" + name, bytes, [&] {
                     client.StartPush(out, pending);
                     return pending.WaitFor(0);
                   }});
}

absl::Status Measure(std::vector<Case>& cases, int repeats, int milliseconds) {
  for (int i = 0; i < repeats; ++i) {
    for (Case& one : cases) {
      ASSIGN_OR_RETURN(const double rate, Rate(one.bytes, milliseconds, one.move));
      one.rates.push_back(rate);
    }
  }
  return absl::OkStatus();
}

void Report(const std::vector<Case>& cases) {
  std::map<std::string, double> medians;
  for (const Case& one : cases) medians[one.name] = Median(one.rates) / 1e9;
  for (const Case& one : cases) {
    Figure figure{"transport", one.name, medians[one.name], "GB/s", one.reference};
    if (!one.reference.empty()) figure.reference_value = medians[one.reference];
    Print(figure);
  }
}

// Small calls through one channel, as the scheduler makes them.
absl::Status MeasureCalls(Setup& setup, int repeats, int milliseconds) {
  std::vector<double> one_at_a_time, many;
  const auto calls_of = [&](int in_flight, int calls) {
    for (int i = 0; i < calls; ++i) {
      setup.client->StartPull(0, setup.in[0], setup.pending);
      RETURN_IF_ERROR(setup.pending.WaitFor(in_flight - 1));
    }
    return setup.pending.WaitFor(0);
  };
  for (int i = 0; i < repeats; ++i) {
    ASSIGN_OR_RETURN(const double alone, Rate(1, milliseconds, [&] { return calls_of(1, 1); }));
    one_at_a_time.push_back(alone);
    ASSIGN_OR_RETURN(const double rate,
                     Rate(1000, milliseconds, [&] { return calls_of(kCallsInFlight, 1000); }));
    many.push_back(rate);
  }
  Print({"transport", "tcp/calls/4KiB/1", Median(one_at_a_time), "calls/s"});
  Print({"transport", absl::StrCat("tcp/calls/4KiB/", kCallsInFlight), Median(many), "calls/s"});
  return absl::OkStatus();
}

absl::Status RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int milliseconds, options.Number("milliseconds"));
  ASSIGN_OR_RETURN(const int smallest, options.Number("smallest"));
  ASSIGN_OR_RETURN(Peer peer, Peer::Start({"transport-peer"}));
  ASSIGN_OR_RETURN(const std::string line, peer.ReadLine());
  const std::vector<std::string> parts = absl::StrSplit(line, ' ');
  int raw_port = 0;
  if (parts.size() != 2 || !absl::SimpleAtoi(parts[0], &raw_port)) {
    return absl::InternalError(absl::StrCat("the peer said '", line, "'"));
  }
  GrpcTransport transport;
  Setup setup;
  ASSIGN_OR_RETURN(setup.raw, RawTcpClient::Connect(raw_port));
  setup.client = std::make_unique<Client>(transport.Connect(parts[1], Lane::kData));
  for (int i = 0; i < kSizes; ++i) {
    setup.out.push_back(Filled(BytesOfSize(i)));
    setup.in.push_back(Filled(BytesOfSize(i)));
  }
  std::vector<Case> cases;
  for (int i = 0; i < kSizes; ++i) {
    if (BytesOfSize(i) >= static_cast<size_t>(smallest) << 10) AddCases(setup, i, cases);
  }
  RETURN_IF_ERROR(Measure(cases, repeats, milliseconds));
  Report(cases);
  return MeasureCalls(setup, repeats, milliseconds);
}

}  // namespace

Command TransportBench() {
  return {"transport",
          "pull and push of 4 KiB to 64 MiB over gRPC, raw TCP and memcpy",
          {{"repeats", "7", "turns; a figure is their median"},
           {"milliseconds", "150", "length of one measurement"},
           {"smallest", "4", "KiB of the smallest message"}},
          RunBench};
}

Command TransportPeer() { return {"transport-peer", "", {}, RunPeer}; }

}  // namespace cohort::bench
