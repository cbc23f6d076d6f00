#pragma once

// Calls with typed messages. The code here serializes the header of a message from a proto and
// parses it into a proto; the payload passes through unchanged.

#include <memory>
#include <string>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "common/wire/message.h"
#include "common/wire/transport.h"

namespace cohort {

// A message with a typed header: the header as a proto, and the payload.
template <typename Proto>
struct Envelope {
  Proto header;
  Payload payload;
  size_t answer_bytes = 0;  // approximate bytes of the answer's payload, as in Message
  absl::Duration silence = absl::InfiniteDuration();  // a request's limit of silence, as in Message
};

template <typename Proto>
Message Pack(Envelope<Proto> envelope) {
  return Message{envelope.header.SerializeAsString(), std::move(envelope.payload),
                 envelope.answer_bytes, envelope.silence};
}

// Parses the header of a message as a `Proto`. Errors: MalformedMessage.
template <typename Proto>
absl::StatusOr<Envelope<Proto>> Unpack(Message message) {
  Envelope<Proto> envelope;
  if (!envelope.header.ParseFromString(message.header)) {
    return MalformedMessage(absl::StrCat("malformed ", Proto::descriptor()->full_name()));
  }
  envelope.payload = std::move(message.payload);
  return envelope;
}

template <typename Response>
using TypedReply = absl::AnyInvocable<void(absl::StatusOr<Envelope<Response>>)>;

// Makes the Handler of one method. `handle` is called on a thread of the transport, as
// handle(Envelope<Request>, TypedReply<Response>).
template <typename Request, typename Response, typename Handle>
Handler MakeHandler(Handle handle) {
  return [handle = std::move(handle)](Message message, Reply reply) {
    absl::StatusOr<Envelope<Request>> request = Unpack<Request>(std::move(message));
    if (!request.ok()) return reply(request.status());
    handle(*std::move(request),
           [reply = std::move(reply)](absl::StatusOr<Envelope<Response>> response) mutable {
             if (!response.ok()) return reply(response.status());
             reply(Pack(*std::move(response)));
           });
  };
}

template <typename Response, typename Request>
std::unique_ptr<Call> StartCall(Channel& channel, absl::string_view method,
                                Envelope<Request> request, absl::Duration timeout,
                                TypedReply<Response> done) {
  return channel.Start(method, Pack(std::move(request)), timeout,
                       [done = std::move(done)](absl::StatusOr<Message> message) mutable {
                         if (!message.ok()) return done(message.status());
                         done(Unpack<Response>(*std::move(message)));
                       });
}

}  // namespace cohort
