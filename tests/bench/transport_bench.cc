// Pull and push of one tensor between two processes, over each of the project's transports as the
// ps and the worker use it, over raw sockets, and as a memcpy, by turns; then small calls alone and
// beside large ones.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/wire/message.h"
#include "common/wire/route/real_world.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "tests/bench/bench.h"
#include "tests/bench/raw_socket.h"
#include "tests/bench/transport_peer.h"

namespace cohort::bench {

namespace {

constexpr int kStreamMessages = 8;
constexpr int kCallsInFlight = 32;
constexpr absl::Duration kTimeout = absl::Seconds(60);

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

// The worker's side. Thread-safe.
class Client {
 public:
  explicit Client(std::shared_ptr<Channel> channel) : channel_(std::move(channel)) {}

  // The answer ends as a tensor of this process.
  void StartPull(int size, Pending& pending) {
    Envelope<proto::PullRequest> request;
    request.header.add_slice_ids(static_cast<uint32_t>(size));
    request.answer_bytes = BytesOfSize(size);
    pending.Add();
    StartCall<proto::PullResponse, proto::PullRequest>(
        *channel_, "/cohort.proto.PsService/Pull", std::move(request), kTimeout,
        [&pending](absl::StatusOr<Envelope<proto::PullResponse>> response) {
          if (!response.ok()) return pending.Done(response.status());
          pending.Done(ReadTensors(response->header.tensors(), response->payload).status());
        });
  }

  void StartPush(const Tensor& from, Pending& pending) {
    Envelope<proto::PushRequest> request;
    *request.header.add_slices()->mutable_tensor() = MetaOf(from);
    request.payload.push_back(SliceOf(from));
    pending.Add();
    StartCall<proto::PushResponse, proto::PushRequest>(
        *channel_, "/cohort.proto.PsService/Push", std::move(request), kTimeout,
        [&pending](absl::StatusOr<Envelope<proto::PushResponse>> response) {
          pending.Done(response.status());
        });
  }

  absl::Status Pull(int size) {
    Pending pending;
    StartPull(size, pending);
    return pending.WaitFor(0);
  }
  absl::Status Push(const Tensor& from) {
    Pending pending;
    StartPush(from, pending);
    return pending.WaitFor(0);
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
  std::map<std::string, std::unique_ptr<RawClient>> raw;
  std::map<std::string, std::unique_ptr<Transport>> transports;
  std::map<std::string, std::unique_ptr<Client>> clients;  // die before the transports
  std::vector<Tensor> out;
  std::vector<Tensor> in;
  uint64_t sums = 0;  // so that none is left out
};

void AddRaw(Setup& setup, int size, const std::string& kind, std::vector<Case>& cases) {
  RawClient& raw = *setup.raw.at(kind);
  Tensor& in = setup.in[static_cast<size_t>(size)];
  const Tensor& out = setup.out[static_cast<size_t>(size)];
  const size_t bytes = out.num_bytes();
  const std::string name = absl::StrCat("/", SizeName(bytes));
  const auto writable = absl::MakeSpan(in.mutable_raw(), bytes);
  const auto readable = absl::MakeConstSpan(out.raw(), bytes);
  cases.push_back(
      {"raw-" + kind + "/pull" + name, "", bytes, [&raw, writable] { return raw.Pull(writable); }});
  cases.push_back(
      {"raw-" + kind + "/push" + name, "", bytes, [&raw, readable] { return raw.Push(readable); }});
  cases.push_back({"raw-" + kind + "/pull_stream" + name, "", bytes * kStreamMessages,
                   [&raw, writable] { return raw.PullStream(writable, kStreamMessages); }});
  cases.push_back({"raw-" + kind + "/push_stream" + name, "", bytes * kStreamMessages,
                   [&raw, readable] { return raw.PushStream(readable, kStreamMessages); }});
}

void AddCases(Setup& setup, int size, std::vector<Case>& cases) {
  Tensor& in = setup.in[static_cast<size_t>(size)];
  const Tensor& out = setup.out[static_cast<size_t>(size)];
  const size_t bytes = out.num_bytes();
  const std::string name = SizeName(bytes);
  cases.push_back({"memcpy/copy/" + name, "", bytes, [&in, &out] {
                     std::memcpy(in.mutable_raw(), out.raw(), out.num_bytes());
                     return absl::OkStatus();
                   }});
  // What the sum of a payload costs at each end of a connection between hosts.
  cases.push_back({"crc32c/sum/" + name, "memcpy/copy/" + name, bytes, [&setup, &out] {
                     setup.sums += PayloadCrc32c({SliceOf(out)});
                     return absl::OkStatus();
                   }});
  AddRaw(setup, size, "tcp", cases);
  AddRaw(setup, size, "unix", cases);
  for (const std::string kind : kKinds) {
    Client& client = *setup.clients.at(kind);
    const std::string raw = kind == "unix" ? "raw-unix" : "raw-tcp";
    cases.push_back({absl::StrCat(kind, "/pull/", name), absl::StrCat(raw, "/pull/", name), bytes,
                     [&client, size] { return client.Pull(size); }});
    cases.push_back({absl::StrCat(kind, "/push/", name), absl::StrCat(raw, "/push/", name), bytes,
                     [&client, &out] { return client.Push(out); }});
  }
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
absl::Status MeasureCalls(Client& client, const std::string& kind, int repeats, int milliseconds) {
  Pending pending;
  std::vector<double> one_at_a_time, many;
  const auto calls_of = [&](int in_flight, int calls) {
    for (int i = 0; i < calls; ++i) {
      client.StartPull(0, pending);
      RETURN_IF_ERROR(pending.WaitFor(in_flight - 1));
    }
    return pending.WaitFor(0);
  };
  for (int i = 0; i < repeats; ++i) {
    ASSIGN_OR_RETURN(const double alone, Rate(1, milliseconds, [&] { return calls_of(1, 1); }));
    one_at_a_time.push_back(alone);
    ASSIGN_OR_RETURN(const double rate,
                     Rate(1000, milliseconds, [&] { return calls_of(kCallsInFlight, 1000); }));
    many.push_back(rate);
  }
  Print({"transport", kind + "/calls/4KiB/1", Median(one_at_a_time), "calls/s"});
  Print({"transport", absl::StrCat(kind, "/calls/4KiB/", kCallsInFlight), Median(many), "calls/s"});
  return absl::OkStatus();
}

// Microseconds of each of `count` calls, in ascending order.
absl::StatusOr<std::vector<double>> Latencies(int count,
                                              const std::function<absl::Status()>& call) {
  std::vector<double> all;
  for (int i = 0; i < count; ++i) {
    const auto start = Clock::now();
    RETURN_IF_ERROR(call());
    all.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::sort(all.begin(), all.end());
  return all;
}

double Percentile(const std::vector<double>& sorted, size_t percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
}

// Pulls and pushes of the largest size on the same channel, one of each at a time, from a thread of
// its own until Stop. Thread-safe.
class Bulk {
 public:
  Bulk(Client& client, const Tensor& out)
      : thread_([this, &client, &out] {
          while (status_.ok() && !stopped_.load()) {
            Pending pending;
            client.StartPull(kSizes - 1, pending);
            client.StartPush(out, pending);
            status_ = pending.WaitFor(0);
          }
        }) {}
  ~Bulk() {
    if (thread_.joinable()) Stop().IgnoreError();
  }
  absl::Status Stop() {
    stopped_ = true;
    thread_.join();
    return status_;
  }

 private:
  absl::Status status_;  // of the thread, until it was joined
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

absl::Status MeasureLatency(Setup& setup, int calls, int repeats) {
  std::map<std::string, std::vector<double>> figures;  // case to microseconds of each turn
  ASSIGN_OR_RETURN(const EmptyCalls empty_calls, EmptyCalls::Start());
  for (int i = 0; i < repeats; ++i) {
    ASSIGN_OR_RETURN(const double empty, empty_calls.Microseconds(calls));
    figures["grpc/empty/p50"].push_back(empty);
    for (const std::string kind : kKinds) {
      Client& client = *setup.clients.at(kind);
      const auto pull = [&client] { return client.Pull(0); };
      ASSIGN_OR_RETURN(const auto idle, Latencies(calls, pull));
      Bulk bulk(client, setup.out.back());
      ASSIGN_OR_RETURN(const auto loaded, Latencies(calls / 4, pull));
      RETURN_IF_ERROR(bulk.Stop());
      figures[kind + "/pull/4KiB/p50"].push_back(Percentile(idle, 50));
      figures[kind + "/pull/4KiB/p99"].push_back(Percentile(idle, 99));
      figures[kind + "/pull/4KiB/loaded/p50"].push_back(Percentile(loaded, 50));
      figures[kind + "/pull/4KiB/loaded/p99"].push_back(Percentile(loaded, 99));
    }
  }
  const auto print = [&](const std::string& name, const std::string& reference) {
    Figure figure{"transport", name, Median(figures[name]), "us", reference};
    if (!reference.empty()) figure.reference_value = Median(figures[reference]);
    Print(figure);
  };
  print("grpc/empty/p50", "");
  for (const std::string kind : kKinds) {
    const std::string pull = kind + "/pull/4KiB";
    print(pull + "/p50", "grpc/empty/p50");
    print(pull + "/p99", "");
    print(pull + "/loaded/p50", pull + "/p50");
    print(pull + "/loaded/p99", pull + "/p99");
  }
  return absl::OkStatus();
}

absl::Status Connect(const PeerAddresses& addresses, Setup& setup) {
  for (const std::string kind : {"tcp", "unix"}) {
    ASSIGN_OR_RETURN(setup.raw[kind], RawClient::Connect(addresses.at("raw-" + kind)));
  }
  for (const std::string name : kKinds) {
    ASSIGN_OR_RETURN(const TransportKind kind, TransportKindFromName(name));
    auto& transport = setup.transports[name] = MakeTransport(kind);
    setup.clients[name] =
        std::make_unique<Client>(transport->Connect(addresses.at(name), Lane::kData));
  }
  for (int i = 0; i < kSizes; ++i) {
    setup.out.push_back(Filled(BytesOfSize(i)));
    setup.in.push_back(Filled(BytesOfSize(i)));
  }
  return absl::OkStatus();
}

absl::Status RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const int milliseconds, options.Number("milliseconds"));
  ASSIGN_OR_RETURN(const int smallest, options.Number("smallest"));
  ASSIGN_OR_RETURN(const int calls, options.Number("calls"));
  ASSIGN_OR_RETURN(Peer peer, Peer::Start({"transport-peer"}));
  ASSIGN_OR_RETURN(const PeerAddresses addresses, ReadAddresses(peer));
  Setup setup;
  RETURN_IF_ERROR(Connect(addresses, setup));
  std::vector<Case> cases;
  for (int i = 0; i < kSizes; ++i) {
    if (BytesOfSize(i) >= static_cast<size_t>(smallest) << 10) AddCases(setup, i, cases);
  }
  RETURN_IF_ERROR(Measure(cases, repeats, milliseconds));
  Report(cases);
  for (const std::string kind : kKinds) {
    RETURN_IF_ERROR(MeasureCalls(*setup.clients.at(kind), kind, repeats, milliseconds));
  }
  return MeasureLatency(setup, calls, repeats);
}

}  // namespace

Command TransportBench() {
  return {"transport",
          "pull and push of 4 KiB to 64 MiB over TCP, a unix socket and shared memory",
          {{"repeats", "7", "turns; a figure is their median"},
           {"milliseconds", "150", "length of one measurement"},
           {"calls", "2000", "small calls whose time is taken in one turn"},
           {"smallest", "4", "KiB of the smallest message"}},
          RunBench};
}

}  // namespace cohort::bench
