#include "worker/collective/lanes/frame_router.h"

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/typed_call.h"
#include "proto/collective.pb.h"
#include "worker/collective/lanes/wire_lanes.h"

namespace cohort {

namespace {

proto::WatchGroupResponse ToProto(const RankLeft& left) {
  proto::WatchGroupResponse response;
  response.set_calls_started(left.calls_started);
  if (left.cause) *response.mutable_cause() = ToProto(*left.cause);
  return response;
}

// Upper bound on the RPCs that wait until this worker has formed their groups. Every rank may have
// several frames under way in each operation that it has begun; more RPCs are an error.
constexpr uint64_t kWaitingCallsMax = 65536;

// Returns the error for an RPC whose generation is over on this worker.
absl::Status OverError(uint64_t generation) {
  return MakeError(absl::StatusCode::kFailedPrecondition,
                   absl::StrCat("generation ", generation, " of the group is over here"),
                   proto::STALE);
}

CollectiveFrame FrameOf(Envelope<proto::DeliverRequest> request) {
  CollectiveFrame frame;
  frame.from = static_cast<int>(request.header.from().rank());
  frame.sequence = request.header.sequence();
  frame.fingerprint = request.header.fingerprint();
  frame.tag = request.header.tag();
  frame.call = std::move(*request.header.mutable_call());
  frame.answer_may_wait = request.header.answer_may_wait();
  frame.payload = std::move(request.payload);
  return frame;
}

}  // namespace

// Returns the handler of one RPC. `use` gets the receiver of the RPC's group, the request and the
// reply.
template <typename Request, typename Response, typename Use>
Handler FrameRouter::HandlerOf(Use use) {
  return MakeHandler<Request, Response>(
      [self = shared_from_this(), use](Envelope<Request> request, TypedReply<Response> reply) {
        const proto::GroupMember& from = request.header.from();
        const Key key{from.group(), from.generation()};
        self->Find(key, [use, request = std::move(request), reply = std::move(reply)](
                            LaneReceiver* receiver, const absl::Status& why) mutable {
          if (receiver == nullptr) return reply(why);
          use(*receiver, std::move(request), std::move(reply));
        });
      });
}

Service FrameRouter::MakeService() {
  Service service;
  service.descriptor =
      proto::DeliverRequest::descriptor()->file()->FindServiceByName("CollectiveService");
  service.handlers["Deliver"] = HandlerOf<proto::DeliverRequest, proto::DeliverResponse>(
      [](LaneReceiver& receiver, Envelope<proto::DeliverRequest> request,
         TypedReply<proto::DeliverResponse> reply) {
        receiver.OnFrame(FrameOf(std::move(request)),
                         [reply = std::move(reply)](absl::Status status) mutable {
                           if (!status.ok()) return reply(status);
                           reply(Envelope<proto::DeliverResponse>());
                         });
      });
  service.places["Deliver"] = [self = shared_from_this()](absl::string_view header, size_t bytes) {
    return self->PlaceOf(header, bytes);
  };
  service.handlers["AbortGroup"] = HandlerOf<proto::AbortGroupRequest, proto::AbortGroupResponse>(
      [](LaneReceiver& receiver, const Envelope<proto::AbortGroupRequest>& request,
         TypedReply<proto::AbortGroupResponse> reply) {
        receiver.OnAbort(FromProto(request.header.cause()),
                         [reply = std::move(reply)](absl::StatusOr<AbortCause> known) mutable {
                           if (!known.ok()) return reply(known.status());
                           Envelope<proto::AbortGroupResponse> response;
                           *response.header.mutable_cause() = ToProto(*known);
                           reply(std::move(response));
                         });
      });
  service.handlers["WatchGroup"] = HandlerOf<proto::WatchGroupRequest, proto::WatchGroupResponse>(
      [](LaneReceiver& receiver, const Envelope<proto::WatchGroupRequest>& request,
         TypedReply<proto::WatchGroupResponse> reply) {
        receiver.OnWatch([reply = std::move(reply)](absl::StatusOr<RankLeft> left) mutable {
          if (!left.ok()) return reply(left.status());
          reply(Envelope<proto::WatchGroupResponse>{ToProto(*left), {}});
        });
      });
  service.handlers["AskProgress"] =
      HandlerOf<proto::AskProgressRequest, proto::AskProgressResponse>(
          [](LaneReceiver& receiver, const Envelope<proto::AskProgressRequest>& request,
             TypedReply<proto::AskProgressResponse> reply) {
            receiver.OnAskProgress(
                [reply = std::move(reply)](absl::StatusOr<RankProgress> known) mutable {
                  if (!known.ok()) return reply(known.status());
                  Envelope<proto::AskProgressResponse> response;
                  response.header.set_calls_started(known->calls_started);
                  response.header.set_last_done(known->last_done);
                  reply(std::move(response));
                });
          });
  service.handlers["GetFlightRecord"] =
      MakeHandler<proto::GetFlightRecordRequest, proto::GetFlightRecordResponse>(
          [self = shared_from_this()](const Envelope<proto::GetFlightRecordRequest>& request,
                                      TypedReply<proto::GetFlightRecordResponse> reply) {
            Envelope<proto::GetFlightRecordResponse> response;
            response.header = self->Flights(request.header);
            reply(std::move(response));
          });
  return service;
}

std::shared_ptr<ReceivePlace> FrameRouter::PlaceOf(absl::string_view header, size_t bytes) {
  Envelope<proto::DeliverRequest> request;
  if (!request.header.ParseFromArray(header.data(), static_cast<int>(header.size()))) {
    return nullptr;  // the handler of Deliver reports the malformed header
  }
  const proto::GroupMember& from = request.header.from();
  std::shared_ptr<LaneReceiver> receiver;
  {
    MutexLock lock(mutex_);
    const auto found = receivers_.find(Key{from.group(), from.generation()});
    if (found != receivers_.end()) receiver = found->second.lock();
  }
  // The receiver is called outside the lock, because it has locks of its own.
  return receiver == nullptr ? nullptr : receiver->PlaceOf(FrameOf(std::move(request)), bytes);
}

void FrameRouter::Keep(std::shared_ptr<const FlightRecorder> recorder, const Clock& clock) {
  MutexLock lock(mutex_);
  flights_.push_back({std::move(recorder), &clock});
  if (flights_.size() > kFlightsMax) flights_.pop_front();
}

proto::GetFlightRecordResponse FrameRouter::Flights(
    const proto::GetFlightRecordRequest& request) const {
  // The list is copied, so that the records are read outside the lock.
  std::deque<Flight> flights;
  {
    MutexLock lock(mutex_);
    flights = flights_;
  }
  const size_t calls_max =
      request.calls_max() == 0 ? FlightRecorder::kFlightRecordsMax : request.calls_max();
  proto::GetFlightRecordResponse response;
  for (const Flight& flight : flights) {
    *response.add_groups() = flight.recorder->ToProto(calls_max, flight.clock->Now());
  }
  return response;
}

void FrameRouter::Find(const Key& key, Visit visit) {
  std::shared_ptr<LaneReceiver> receiver;
  absl::Status why;
  {
    MutexLock lock(mutex_);
    const auto found = receivers_.find(key);
    if (found != receivers_.end()) receiver = found->second.lock();
    const auto newest = newest_.find(key.first);
    const bool old = newest != newest_.end() && key.second <= newest->second;
    const bool other = only_.has_value() && key.first != *only_;
    if (receiver == nullptr && (old || other)) {
      ++stats_.refused_old;
      why = OverError(key.second);
    } else if (receiver == nullptr && stats_.waiting >= kWaitingCallsMax) {
      why = absl::ResourceExhaustedError(
          absl::StrCat(stats_.waiting, " calls wait for groups that this worker has not made"));
    } else if (receiver == nullptr) {
      ++stats_.waiting;
      waiting_[key].push_back(std::move(visit));
      return;
    }
  }
  // `visit` runs outside the lock, because it may call this router again.
  visit(receiver.get(), why);
}

void FrameRouter::Add(const GroupName& group, std::weak_ptr<LaneReceiver> receiver) {
  const Key key{GroupHash(group), group.generation};
  std::vector<Visit> visits;
  // The RPCs that this call refuses, with their generations.
  std::vector<std::pair<uint64_t, Visit>> over;
  // Keeps the receiver alive until it has handled the RPCs that wait.
  const std::shared_ptr<LaneReceiver> alive = receiver.lock();
  {
    MutexLock lock(mutex_);
    receivers_[key] = std::move(receiver);
    uint64_t& newest = newest_[key.first];
    newest = std::max(newest, group.generation);
    auto it = waiting_.lower_bound(Key{key.first, 0});
    // RPCs that wait for this generation or an earlier one are taken; those for later generations
    // go on waiting.
    while (it != waiting_.end() && it->first <= key) {
      stats_.waiting -= it->second.size();
      for (Visit& visit : it->second) {
        if (it->first == key) {
          visits.push_back(std::move(visit));
        } else {
          ++stats_.refused_old;
          over.emplace_back(it->first.second, std::move(visit));
        }
      }
      it = waiting_.erase(it);
    }
  }
  // The visits run outside the lock, because they may call this router again.
  for (auto& [generation, visit] : over) visit(nullptr, OverError(generation));
  for (Visit& visit : visits) visit(alive.get(), absl::OkStatus());
}

void FrameRouter::Remove(const GroupName& group) {
  MutexLock lock(mutex_);
  receivers_.erase(Key{GroupHash(group), group.generation});
}

void FrameRouter::Only(const std::string& name) {
  const uint64_t only = GroupHash({name, 0});
  // The RPCs that this call refuses, with their generations.
  std::vector<std::pair<uint64_t, Visit>> over;
  {
    MutexLock lock(mutex_);
    only_ = only;
    for (auto it = waiting_.begin(); it != waiting_.end();) {
      if (it->first.first == only) {
        ++it;
        continue;
      }
      stats_.waiting -= it->second.size();
      stats_.refused_old += it->second.size();
      for (Visit& visit : it->second) over.emplace_back(it->first.second, std::move(visit));
      it = waiting_.erase(it);
    }
  }
  // The visits run outside the lock, because they may call this router again.
  for (auto& [generation, visit] : over) visit(nullptr, OverError(generation));
}

FrameRouter::Stats FrameRouter::stats() const {
  MutexLock lock(mutex_);
  return stats_;
}

}  // namespace cohort
