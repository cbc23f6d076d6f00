// 64-bit keys spread over their whole space, one float each, pushed to a dynamic table in another
// process and pulled from it: what ps-lite's own benchmark does against a server that keeps
// nothing. Every value that is pulled is checked.

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/base/thread_pool.h"
#include "common/wire/route/real_world.h"
#include "common/wire/typed_call.h"
#include "proto/ps.pb.h"
#include "ps_server/table/row_table.h"
#include "tests/bench/bench.h"

namespace cohort::bench {

namespace {

// Measured with ps-lite's test_kv_app_benchmark, one server and one worker, 10 M keys, on the
// machine that the reference study used.
constexpr double kPsLitePushMs = 193;
constexpr double kPsLitePullMs = 418;

constexpr absl::Duration kTimeout = absl::Seconds(60);

absl::Span<const uint64_t> KeysOf(const Tensor& tensor) {
  return absl::MakeConstSpan(reinterpret_cast<const uint64_t*>(tensor.raw()),
                             static_cast<size_t>(tensor.num_elements()));
}

// Answers from the table, on threads of the pool.
class Store {
 public:
  static absl::StatusOr<std::unique_ptr<Store>> Make(int threads) {
    RowTableOptions options;
    options.row = {"kv", 1, DType::kFloat32, {"zeros"}};
    options.rule.set_op("assign_add");
    ASSIGN_OR_RETURN(std::unique_ptr<RowTable> table, RowTable::Create(options));
    return std::make_unique<Store>(std::move(table), threads);
  }
  Store(std::unique_ptr<RowTable> table, int threads)
      : table_(std::move(table)), pool_({"kv", threads}) {}

  std::map<std::string, Handler> Handlers() {
    using proto::PullRequest, proto::PullResponse, proto::PushRequest, proto::PushResponse;
    std::map<std::string, Handler> handlers;
    handlers["Push"] = MakeHandler<PushRequest, PushResponse>(
        [this](Envelope<PushRequest> request, TypedReply<PushResponse> reply) {
          pool_.Run([this, request = std::move(request), reply = std::move(reply)]() mutable {
            reply(Push(request));
          });
        });
    handlers["Pull"] = MakeHandler<PullRequest, PullResponse>(
        [this](Envelope<PullRequest> request, TypedReply<PullResponse> reply) {
          pool_.Run([this, request = std::move(request), reply = std::move(reply)]() mutable {
            reply(Pull(request));
          });
        });
    return handlers;
  }

 private:
  absl::StatusOr<Envelope<proto::PushResponse>> Push(const Envelope<proto::PushRequest>& request) {
    PayloadReader reader(request.payload);
    for (const proto::PushSlice& slice : request.header.slices()) {
      ASSIGN_OR_RETURN(const Tensor keys, reader.ReadTensor(slice.ids()));
      ASSIGN_OR_RETURN(const Tensor values, reader.ReadTensor(slice.tensor()));
      if (keys.num_elements() != values.num_elements()) {
        return absl::InvalidArgumentError("a value for each key");
      }
      table_->Push(KeysOf(keys), values.span<float>(), PushRates{}, absl::Now());
    }
    return Envelope<proto::PushResponse>();
  }

  absl::StatusOr<Envelope<proto::PullResponse>> Pull(const Envelope<proto::PullRequest>& request) {
    PayloadReader reader(request.payload);
    Envelope<proto::PullResponse> response;
    for (const proto::PullRows& rows : request.header.rows()) {
      ASSIGN_OR_RETURN(const Tensor keys, reader.ReadTensor(rows.ids()));
      Tensor values(DType::kFloat32, keys.shape());
      table_->Pull(
          KeysOf(keys), absl::Now(),
          absl::MakeSpan(values.mutable_data<float>(), static_cast<size_t>(values.num_elements())));
      *response.header.add_tensors() = MetaOf(values);
      response.payload.push_back(SliceOf(values));
    }
    return response;
  }

  const std::unique_ptr<RowTable> table_;
  ThreadPool pool_;
};

absl::Status RunPeer(const Options& options) {
  ASSIGN_OR_RETURN(const TransportKind kind, TransportKindFromName(options.Text("transport")));
  ASSIGN_OR_RETURN(const int threads, options.Number("threads"));
  ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, Store::Make(threads));
  const std::unique_ptr<Transport> transport = MakeTransport(kind);
  ASSIGN_OR_RETURN(
      const std::unique_ptr<Server> server,
      transport->Listen(
          "127.0.0.1:0",
          {Service{proto::PullRequest::descriptor()->file()->FindServiceByName("PsService"),
                   store->Handlers()}}));
  std::puts(server->address().c_str());
  std::fflush(stdout);
  WaitForStarter();
  _exit(0);
}

// One part of the keys, with what is pushed of them.
struct Piece {
  Tensor keys;
  Tensor values;
};

std::vector<Piece> MakePieces(int64_t keys, int64_t pieces) {
  const uint64_t step = ~uint64_t{0} / static_cast<uint64_t>(keys);
  std::vector<Piece> all;
  int64_t next = 0;
  for (int64_t i = 0; i < pieces; ++i) {
    const int64_t count = keys * (i + 1) / pieces - next;
    Piece piece{Tensor(DType::kInt64, Shape{count}), Tensor(DType::kFloat32, Shape{count})};
    for (int64_t k = 0; k < count; ++k, ++next) {
      piece.keys.mutable_data<int64_t>()[k] =
          static_cast<int64_t>(static_cast<uint64_t>(next) * step);
      piece.values.mutable_data<float>()[k] = static_cast<float>(next % 1000 + 1);
    }
    all.push_back(std::move(piece));
  }
  return all;
}

// Waits for the answers of all pieces. Thread-safe.
class Answers {
 public:
  explicit Answers(size_t count) : left_(count) {}
  void Add(const absl::Status& status) {
    MutexLock lock(mutex_);
    status_.Update(status);
    if (--left_ == 0) none_.NotifyAll();
  }
  absl::Status Wait() {
    MutexLock lock(mutex_);
    while (left_ > 0) none_.Wait(mutex_);
    return status_;
  }

 private:
  Mutex mutex_;
  CondVar none_;
  size_t left_ ABSL_GUARDED_BY(mutex_);
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

absl::Status Push(Channel& channel, const std::vector<Piece>& pieces) {
  Answers answers(pieces.size());
  for (const Piece& piece : pieces) {
    Envelope<proto::PushRequest> request;
    proto::PushSlice* const slice = request.header.add_slices();
    *slice->mutable_ids() = MetaOf(piece.keys);
    *slice->mutable_tensor() = MetaOf(piece.values);
    request.payload = {SliceOf(piece.keys), SliceOf(piece.values)};
    StartCall<proto::PushResponse>(channel, "/cohort.proto.PsService/Push", std::move(request),
                                   kTimeout,
                                   [&](absl::StatusOr<Envelope<proto::PushResponse>> answer) {
                                     answers.Add(answer.status());
                                   });
  }
  return answers.Wait();
}

absl::Status Pull(Channel& channel, const std::vector<Piece>& pieces, std::vector<Tensor>& pulled) {
  Answers answers(pieces.size());
  pulled.assign(pieces.size(), Tensor());
  for (size_t i = 0; i < pieces.size(); ++i) {
    Envelope<proto::PullRequest> request;
    *request.header.add_rows()->mutable_ids() = MetaOf(pieces[i].keys);
    request.payload = {SliceOf(pieces[i].keys)};
    request.answer_bytes = pieces[i].values.num_bytes();
    StartCall<proto::PullResponse>(
        channel, "/cohort.proto.PsService/Pull", std::move(request), kTimeout,
        [&answers, &into = pulled[i]](absl::StatusOr<Envelope<proto::PullResponse>> answer) {
          if (!answer.ok()) return answers.Add(answer.status());
          auto tensors = ReadTensors(answer->header.tensors(), answer->payload);
          if (tensors.ok() && tensors->size() == 1) into = std::move(tensors->front());
          answers.Add(tensors.status());
        });
  }
  return answers.Wait();
}

absl::Status Check(const std::vector<Piece>& pieces, const std::vector<Tensor>& pulled,
                   int pushes) {
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pulled[i].num_elements() != pieces[i].values.num_elements()) {
      return absl::InternalError("not as many values as keys");
    }
    const auto pushed = pieces[i].values.span<float>();
    const auto values = pulled[i].span<float>();
    for (size_t k = 0; k < values.size(); ++k) {
      if (values[k] != pushed[k] * static_cast<float>(pushes)) {
        return absl::InternalError(absl::StrCat("key ", k, " of piece ", i, " has ", values[k]));
      }
    }
  }
  return absl::OkStatus();
}

template <typename Run>
absl::StatusOr<double> Milliseconds(const Run& run) {
  const auto start = std::chrono::steady_clock::now();
  RETURN_IF_ERROR(run());
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
      .count();
}

void PrintTimes(const std::string& name, const std::vector<double>& times, double ps_lite) {
  Figure figure{"kv10m", name, Median(times), "ms", "ps-lite", ps_lite};
  figure.more["min"] = *std::min_element(times.begin(), times.end());
  figure.more["max"] = *std::max_element(times.begin(), times.end());
  Print(figure);
}

absl::Status RunBench(const Options& options) {
  ASSIGN_OR_RETURN(const int millions, options.Number("millions"));
  ASSIGN_OR_RETURN(const int pieces_number, options.Number("pieces"));
  ASSIGN_OR_RETURN(const int repeats, options.Number("repeats"));
  ASSIGN_OR_RETURN(const TransportKind kind, TransportKindFromName(options.Text("transport")));
  ASSIGN_OR_RETURN(Peer peer, Peer::Start({"kv-peer", "--transport", options.Text("transport"),
                                           "--threads", options.Text("threads")}));
  ASSIGN_OR_RETURN(const std::string address, peer.ReadLine());
  const std::vector<Piece> pieces = MakePieces(int64_t{millions} * 1'000'000, pieces_number);
  const std::unique_ptr<Transport> transport = MakeTransport(kind);
  const std::shared_ptr<Channel> channel = transport->Connect(address, Lane::kData);
  std::vector<double> first, push, pull;
  std::vector<Tensor> pulled;
  for (int pushes = 1; pushes <= repeats + 1; ++pushes) {
    ASSIGN_OR_RETURN(const double pushed, Milliseconds([&] { return Push(*channel, pieces); }));
    (pushes == 1 ? first : push).push_back(pushed);
    ASSIGN_OR_RETURN(const double took,
                     Milliseconds([&] { return Pull(*channel, pieces, pulled); }));
    if (pushes > 1) pull.push_back(took);
    RETURN_IF_ERROR(Check(pieces, pulled, pushes));
  }
  const std::string name = absl::StrCat(TransportKindName(kind), "/keys=", millions, "M/");
  PrintTimes(name + "first_push", first, kPsLitePushMs);
  PrintTimes(name + "push", push, kPsLitePushMs);
  PrintTimes(name + "pull", pull, kPsLitePullMs);
  return absl::OkStatus();
}

}  // namespace

Command KvBench() {
  return {"kv10m",
          "10 M 64-bit keys with one float each, pushed to and pulled from a dynamic table",
          {{"millions", "10", "keys"},
           {"pieces", "8", "messages that the keys travel in"},
           {"threads", "2", "of the store"},
           {"repeats", "5", "turns behind the first, which makes the rows; medians of these"},
           {"transport", "auto", "auto, tcp, grpc, unix or shm"}},
          RunBench};
}

Command KvPeer() {
  return {"kv-peer", "", {{"transport", "auto", ""}, {"threads", "2", ""}}, RunPeer};
}

}  // namespace cohort::bench
