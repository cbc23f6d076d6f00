#include "tests/support/network/sim_network_core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/optional.h"
#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/wire/error_detail.h"
#include "common/wire/frame.h"
#include "common/wire/moved_bytes.h"
#include "common/wire/server_calls.h"

namespace cohort {

namespace {

// A process that dies resets its connections, which its peers see at once.
constexpr absl::Duration kResetTimeMax = absl::Milliseconds(10);
constexpr size_t kPieceBytesMax = 64 << 10;

// What the network has made copies of has bytes of its own: the sender may write its memory again
// once the receiver has made use of one of them.
// A copy, with one bit changed if there is a `flipped` one.
Payload Captured(const Payload& frame, absl::optional<uint64_t> flipped = absl::nullopt) {
  auto bytes = std::make_shared<std::string>();
  for (const ByteSlice& slice : frame) {
    bytes->append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  if (flipped.has_value()) (*bytes)[*flipped / 8] ^= static_cast<char>(1 << (*flipped % 8));
  const auto* const data = reinterpret_cast<const std::byte*>(bytes->data());
  const size_t size = bytes->size();
  return {{std::move(bytes), data, size}};
}

uint32_t CrcOf(const Payload& frame) {
  uint32_t crc = 0;
  for (const ByteSlice& slice : frame) {
    crc = ExtendCrc32c(crc, {reinterpret_cast<const char*>(slice.data), slice.size});
  }
  return crc;
}

// The bytes in new memory, in pieces of `piece` bytes, as a socket would give them.
Payload Receive(const Payload& frame, size_t piece) {
  auto bytes = std::make_shared<std::string>();
  bytes->reserve(PayloadBytes(frame));
  for (const ByteSlice& slice : frame) {
    bytes->append(reinterpret_cast<const char*>(slice.data), slice.size);
  }
  Payload received;
  for (size_t begin = 0; begin < bytes->size(); begin += piece) {
    received.push_back({bytes, reinterpret_cast<const std::byte*>(bytes->data()) + begin,
                        std::min(piece, bytes->size() - begin)});
  }
  return received;
}

// Moves the payload of a complete request into the memory that the method's handler offers
// (ReceivePlace), if any.
void ReceiveInPlace(const FindPlace* find_place, Message& request) {
  const size_t bytes = PayloadBytes(request.payload);
  // A request without a payload needs no memory, so the handler is not asked for a ReceivePlace.
  if (find_place == nullptr || bytes == 0) return;
  std::shared_ptr<ReceivePlace> place = (*find_place)(request.header, bytes);
  if (place == nullptr) return;
  const bool used = place->Use([&](absl::Span<std::byte> memory) {
    PayloadReader reader(request.payload);
    COHORT_CHECK(reader.Read(memory).ok(), "a place is as large as its payload");
  });
  // If the handler has revoked its memory meanwhile, it gets the request without a payload.
  if (!used) return request.payload.clear();
  const std::byte* const data = place->memory().data();
  request.payload = {{std::move(place), data, bytes}};
}

}  // namespace

void SimCall::SetTimes(const std::shared_ptr<SimCall>& call, absl::Duration timeout,
                       absl::Duration silence) {
  if (std::min(timeout, silence) == absl::InfiniteDuration()) call->endless_ = true;
  call->end_ = call->world_.Now() + BoundedWait(timeout);
  call->silence_ = BoundedWait(silence);
  SetTimer(call);
}

// The timer holds the call: when its messages are lost, nothing else may.
void SimCall::SetTimer(const std::shared_ptr<SimCall>& call) {
  const absl::Time end = std::min(call->end_, call->world_.Now() + call->silence_);
  call->timer_ = call->world_.CallAt(end, [call] { call->Finish(NoAnswerInTime(call->method())); });
}

void SimCall::Moved(const std::shared_ptr<SimCall>& call, size_t bytes) {
  call->moved_ += bytes;
  if (call->moved_ < kProgressBytes || call->finished()) return;
  call->moved_ = 0;
  if (call->silence_ >= BoundedWait(absl::InfiniteDuration())) return;
  call->world_.Cancel(call->timer_);
  SetTimer(call);
}

void SimCall::Finish(absl::StatusOr<Message> result) {
  if (finished()) return;
  world_.Run([caller = caller_, done = std::exchange(done_, nullptr),
              result = std::move(result)]() mutable {
    if (caller->alive) done(std::move(result));
  });
  world_.Cancel(timer_);
}

std::shared_ptr<SimProcess> SimNetwork::Core::Start(const std::string& host) {
  auto process = std::make_shared<SimProcess>();
  process->host = host;
  processes_[host].push_back(process);
  return process;
}

absl::StatusOr<std::shared_ptr<SimListener>> SimNetwork::Core::Listen(
    const std::shared_ptr<SimProcess>& process, std::string address,
    const std::vector<Service>& services) {
  absl::string_view host = address;
  if (absl::ConsumeSuffix(&host, ":0")) address = absl::StrCat(host, ":", ++last_port_);
  if (address.empty()) return absl::InvalidArgumentError("an address to listen on is empty");
  const auto found = listeners_.find(address);
  if (found != listeners_.end() && found->second->process->alive) {
    return absl::AlreadyExistsError(absl::StrCat("address ", address, " is in use"));
  }
  auto listener = std::make_shared<SimListener>(address, process, services);
  listeners_[address] = listener;
  return listener;
}

void SimNetwork::Core::StopListening(SimListener& listener) {
  listener.accepting = false;
  const auto found = listeners_.find(listener.address);
  if (found != listeners_.end() && found->second.get() == &listener) listeners_.erase(found);
  const auto open = std::exchange(listener.open, {});
  for (const auto& [id, call] : open) {
    FailLater(call, absl::StrCat("the server at ", listener.address, " stopped"), kResetTimeMax);
  }
}

void SimNetwork::Core::SetRate(double bytes_per_second) {
  options_.bytes_per_second = bytes_per_second;
  options_.whole_bytes_max = options_.part_bytes = kProgressBytes;
}

void SimNetwork::Core::SetCut(const std::string& from, const std::string& to, bool cut) {
  if (cut) {
    cut_.insert({from, to});
  } else {
    cut_.erase({from, to});
  }
}

bool SimNetwork::Core::IsCut(const std::string& from, const std::string& to) const {
  return cut_.count({from, to}) > 0;
}

std::string SimNetwork::Core::HostAt(const std::string& address) const {
  const auto found = listeners_.find(address);
  return found == listeners_.end() ? "" : found->second->process->host;
}

void SimNetwork::Core::Kill(const std::string& host) {
  world_.Trace(absl::StrCat("kill ", host));
  for (const auto& process : processes_[host]) {
    process->alive = false;
    dead_.push_back(process);
  }
  processes_.erase(host);
  std::vector<std::shared_ptr<SimListener>> dead;
  for (const auto& [address, listener] : listeners_) {
    if (!listener->process->alive) dead.push_back(listener);
  }
  for (const auto& listener : dead) StopListening(*listener);
}

void SimNetwork::Core::DropCompletions() {
  std::vector<Reply> dropped;  // their end may begin and end other calls
  const auto take = [&dropped](const SimProcess& process) {
    for (SimCall* const call : process.waiting) dropped.push_back(call->TakeCompletion());
  };
  for (const auto& process : dead_) take(*process);
  for (const auto& [host, processes] : processes_) {
    for (const auto& process : processes) take(*process);
  }
}

bool SimNetwork::Core::Draw(double probability) {
  return probability > 0 && world_.rng().Uniform() < probability;
}

absl::Duration SimNetwork::Core::TravelTime(size_t bytes) {
  absl::Duration time = options_.latency_min +
                        (options_.latency_max - options_.latency_min) * world_.rng().Uniform() +
                        absl::Seconds(static_cast<double>(bytes) / options_.bytes_per_second);
  if (Draw(faults_.delay)) time += faults_.delay_max * world_.rng().Uniform();
  return time;
}

void SimNetwork::Core::FailLater(const std::shared_ptr<SimCall>& call, std::string why,
                                 absl::Duration limit) {
  world_.CallAt(world_.Now() + limit * world_.rng().Uniform(),
                [call, why = std::move(why)] { call->Finish(absl::UnavailableError(why)); });
}

void SimNetwork::Core::Lose(const std::shared_ptr<SimCall>& call, absl::string_view what,
                            std::optional<absl::Duration> breaks_within) {
  world_.Trace(absl::StrCat("lost ", what, " ", call->method(), " of ", call->caller().host));
  const bool silent = !breaks_within.has_value() && world_.rng().Below(2) == 0;
  if (silent && !call->endless()) return;  // the deadline will tell
  FailLater(call, absl::StrCat("call of ", call->method(), ": the connection broke"),
            breaks_within.value_or(options_.detection_max));
}

void SimNetwork::Core::AskAndTravel(const std::string& address, size_t payload_bytes, Stream stream,
                                    absl::Duration first) {
  const auto found = listeners_.find(address);
  const bool asks = payload_bytes > options_.unasked_bytes_max && found != listeners_.end() &&
                    found->second->methods.ReceiveBudgetOf(stream.call->method()) != nullptr;
  if (!asks) return Travel(std::move(stream), first);
  // The question is a small message: `first` is the time of the whole one.
  first -= absl::Seconds(static_cast<double>(PayloadBytes(stream.packet.frame)) /
                         options_.bytes_per_second);
  world_.CallAt(world_.Now() + first, [self = shared_from_this(), address, payload_bytes,
                                       shared = std::make_shared<Stream>(std::move(stream))] {
    self->AskArrives(address, payload_bytes, shared);
  });
}

void SimNetwork::Core::AskArrives(const std::string& address, size_t payload_bytes,
                                  const std::shared_ptr<Stream>& stream) {
  if (!stream->connected()) return Lose(stream->call, stream->what);
  const auto found = listeners_.find(address);
  if (found == listeners_.end() || !found->second->accepting) {
    return FailLater(stream->call, absl::StrCat("no server at ", address), options_.latency_max);
  }
  ByteBudget* const budget = found->second->methods.ReceiveBudgetOf(stream->call->method());
  if (budget == nullptr) return Travel(std::move(*stream), TravelTime(payload_bytes));
  // It counts as open, so that it ends with the server.
  const std::shared_ptr<SimListener> listener = found->second;
  const uint64_t id = ++listener->last_id;
  listener->open.emplace(id, stream->call);
  // Weak: the budget keeps who waits, and the service, which the listener keeps, the budget.
  budget->Ask(payload_bytes, [weak = weak_from_this(), waits_at = std::weak_ptr(listener), id,
                              payload_bytes, stream](ByteBudget::Room room) {
    const auto self = weak.lock();
    const auto listener = waits_at.lock();
    if (self == nullptr || listener == nullptr || listener->open.erase(id) == 0) return;
    if (stream->call->finished()) return;
    self->world_.Trace(absl::StrCat("room ", stream->call->method(), " of ",
                                    stream->call->caller().host, " ", payload_bytes));
    stream->room = std::move(room);
    const absl::Duration back = self->TravelTime(0);
    self->Travel(std::move(*stream), back + self->TravelTime(payload_bytes));
  });
}

void SimNetwork::Core::Travel(Stream stream, absl::Duration first) {
  const size_t bytes = PayloadBytes(stream.packet.frame);
  if (bytes <= options_.whole_bytes_max) {
    world_.CallAt(
        world_.Now() + first,
        [arrive = std::move(stream.arrive), packet = std::move(stream.packet),
         room = std::move(stream.room)]() mutable { arrive(std::move(packet), std::move(room)); });
    return;
  }
  COHORT_CHECK(stream.parts.Begin(bytes).ok(), "the size of the message was checked");
  // `first` is the time of the whole message, and the parts behind the first have theirs to come.
  const size_t behind = bytes - std::min(bytes, options_.part_bytes);
  first -= absl::Seconds(static_cast<double>(behind) / options_.bytes_per_second);
  world_.CallAt(world_.Now() + first,
                [self = shared_from_this(), shared = std::make_shared<Stream>(std::move(stream))] {
                  self->NextPart(shared);
                });
}

// What has come of a stream that is cut goes with it.
void SimNetwork::Core::NextPart(const std::shared_ptr<Stream>& stream) {
  const size_t bytes = PayloadBytes(stream->packet.frame);
  if (!stream->connected()) return Lose(stream->call, stream->what);
  const size_t count = std::min(options_.part_bytes, bytes - stream->sent);
  for (const ByteSlice& slice : PartOf(stream->packet.frame, stream->sent, count)) {
    const absl::Status added = stream->parts.Add(absl::MakeConstSpan(slice.data, slice.size));
    COHORT_CHECK(added.ok(), "parts are what was announced");
  }
  stream->sent += count;
  SimCall::Moved(stream->call, count);
  if (stream->sent == bytes) {
    stream->packet.frame = {stream->parts.Take()};
    return stream->arrive(std::move(stream->packet), std::move(stream->room));
  }
  if (Draw(faults_.cut_stream)) {
    world_.Trace(absl::StrCat("cut ", stream->what, " ", stream->call->method(), " after ",
                              stream->sent, " of ", bytes));
    return Lose(stream->call, stream->what);
  }
  world_.CallAt(world_.Now() + TravelTime(count),
                [self = shared_from_this(), stream] { self->NextPart(stream); });
}

absl::StatusOr<SimNetwork::Core::Packet> SimNetwork::Core::Pack(Message message) {
  const auto encode = faults_.flip_bit > 0 ? EncodeCheckedFrame : EncodeFrame;
  ASSIGN_OR_RETURN(Payload frame, encode(std::move(message), options_.message_bytes_max));
  if (Draw(faults_.flip_bit)) {
    frame = Captured(frame, world_.rng().Below(8 * PayloadBytes(frame)));
    world_.Trace("a bit changes");
  }
  const uint32_t crc = CrcOf(frame);
  return Packet{std::move(frame), crc};
}

absl::StatusOr<Message> SimNetwork::Core::Unpack(const Packet& packet) {
  COHORT_CHECK(CrcOf(packet.frame) == packet.crc, "payload memory was written while being sent");
  const size_t piece = 1 + world_.rng().Below(kPieceBytesMax);
  return DecodeFrame(Receive(packet.frame, piece), options_.message_bytes_max);
}

void SimNetwork::Core::TraceMessage(absl::string_view kind, const SimCall& call,
                                    absl::string_view address, const Message& message) {
  world_.Trace(absl::StrCat(kind, " ", call.method(), " ", call.caller().host, " ", address, " ",
                            message.header.size(), "+", PayloadBytes(message.payload), " ",
                            absl::Hex(StableHash(message.header))));
}

void SimNetwork::Core::Send(const std::shared_ptr<SimCall>& call, const std::string& address,
                            Message request) {
  SimFate fate;
  if (watcher_ != nullptr) {
    const std::string to = HostAt(address);
    fate = watcher_->OnRequest({call->method(), call->caller().host, to, request.header});
    if (!call->caller().alive) return;
  }
  const size_t payload_bytes = PayloadBytes(request.payload);
  absl::StatusOr<Packet> packet = Pack(std::move(request));
  if (!packet.ok()) return call->Finish(packet.status());
  const int copies = fate.copies + (Draw(faults_.duplicate_request) ? 1 : 0);
  const size_t bytes = PayloadBytes(packet->frame);
  for (int i = 0; i < copies; ++i) {
    const absl::Duration delay = i == 0 ? fate.delay : fate.delay + fate.copy_delay;
    if (fate.lose || Draw(faults_.lose_request)) {
      Lose(call, "request", fate.breaks_within);
      continue;
    }
    const auto connected = [self = shared_from_this(), call, address] {
      return call->caller().alive && !self->IsCut(call->caller().host, self->HostAt(address));
    };
    const Packet sent = copies == 1 ? *packet : Packet{Captured(packet->frame), packet->crc};
    AskAndTravel(
        address, payload_bytes,
        {call, "request", connected, sent, PayloadAssembler(FrameBytesMax(), pool_),
         [self = shared_from_this(), call, address](const Packet& whole, ByteBudget::Room room) {
           self->RequestArrives(call, address, whole, std::move(room));
         }},
        TravelTime(bytes) + delay);
  }
}

void SimNetwork::Core::RequestArrives(const std::shared_ptr<SimCall>& call,
                                      const std::string& address, const Packet& packet,
                                      ByteBudget::Room room) {
  if (!call->caller().alive) return;
  const auto found = listeners_.find(address);
  const std::shared_ptr<SimListener> listener = found == listeners_.end() ? nullptr : found->second;
  if (listener != nullptr && IsCut(call->caller().host, listener->process->host)) {
    return Lose(call, "request");
  }
  if (listener == nullptr || !listener->accepting) {
    return FailLater(call, absl::StrCat("no server at ", address), options_.latency_max);
  }
  absl::StatusOr<Message> message = Unpack(packet);
  const uint64_t id = ++listener->last_id;
  listener->open.emplace(id, call);
  std::string request;
  if (watcher_ != nullptr && message.ok()) {
    request = message->header;
    watcher_->OnArrival({call->method(), call->caller().host, listener->process->host, request});
    if (!listener->process->alive) return;  // the call was told
  }
  // Weak: a service keeps replies, and the listener keeps the service.
  if (room == nullptr && message.ok()) {
    ByteBudget* const budget = listener->methods.ReceiveBudgetOf(call->method());
    const size_t bytes = PayloadBytes(message->payload);
    if (budget != nullptr && bytes > 0) room = budget->Take(bytes);
  }
  Reply reply = [self = shared_from_this(), weak = std::weak_ptr<SimListener>(listener), call, id,
                 request = std::move(request),
                 room = std::move(room)](absl::StatusOr<Message> result) mutable {
    room.reset();
    const std::shared_ptr<SimListener> listener = weak.lock();
    if (listener == nullptr || listener->open.erase(id) == 0) return;  // stopped: the call was told
    self->Respond(listener, call, request, std::move(result));
  };
  if (!message.ok()) return reply(message.status());
  TraceMessage("request", *call, address, *message);
  const Handler* handler = listener->methods.Find(call->method());
  if (handler == nullptr) return reply(UnknownMethod(call->method(), address));
  if (id % 2 == 0) ReceiveInPlace(listener->methods.FindPlaceOf(call->method()), *message);
  (*handler)(*std::move(message), GuardReply(call->method(), std::move(reply)));
}

void SimNetwork::Core::Respond(const std::shared_ptr<SimListener>& listener,
                               const std::shared_ptr<SimCall>& call, const std::string& request,
                               absl::StatusOr<Message> result) {
  if (!listener->process->alive) return;
  SimFate fate;
  if (watcher_ != nullptr) {
    fate = watcher_->OnResponse(
        {call->method(), call->caller().host, listener->process->host, request, &result});
    if (!listener->process->alive) {
      return FailLater(call, absl::StrCat("the server at ", listener->address, " stopped"),
                       kResetTimeMax);
    }
  }
  if (fate.lose || Draw(faults_.lose_response)) return Lose(call, "response");
  absl::StatusOr<Packet> packet =
      result.ok() ? Pack(*std::move(result)) : absl::StatusOr<Packet>(result.status());
  const size_t bytes = packet.ok() ? PayloadBytes(packet->frame) : packet.status().message().size();
  const absl::Duration time = TravelTime(bytes) + fate.delay;
  if (!packet.ok()) {
    world_.CallAt(world_.Now() + time, [self = shared_from_this(), listener, call, packet] {
      self->ResponseArrives(listener, call, packet);
    });
    return;
  }
  const auto connected = [self = shared_from_this(), listener, call] {
    return listener->process->alive && !self->IsCut(listener->process->host, call->caller().host);
  };
  Travel({call, "response", connected, *std::move(packet), PayloadAssembler(FrameBytesMax(), pool_),
          [self = shared_from_this(), listener, call](const Packet& whole, ByteBudget::Room) {
            self->ResponseArrives(listener, call, whole);
          }},
         time);
}

void SimNetwork::Core::ResponseArrives(const std::shared_ptr<SimListener>& listener,
                                       const std::shared_ptr<SimCall>& call,
                                       const absl::StatusOr<Packet>& packet) {
  if (call->finished()) return;
  if (IsCut(listener->process->host, call->caller().host)) return Lose(call, "response");
  if (!packet.ok()) {
    world_.Trace(absl::StrCat("failure ", call->method(), " ", packet.status().ToString()));
    return call->Finish(packet.status());
  }
  absl::StatusOr<Message> message = Unpack(*packet);
  if (message.ok()) TraceMessage("response", *call, listener->address, *message);
  call->Finish(std::move(message));
}

}  // namespace cohort
