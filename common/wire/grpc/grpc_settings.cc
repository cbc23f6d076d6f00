#include "common/wire/grpc/grpc_settings.h"

#include <grpc/support/log.h>

#include <algorithm>
#include <limits>

#include "absl/synchronization/mutex.h"
#include "common/base/log.h"
#include "common/wire/frame_limits.h"

namespace cohort {

namespace {

// The keepalive times. If something was sent, a caller notices that its connection is dead within
// kKeepaliveTimeoutMs, the default lease of tasks. If the connection is idle, the caller notices it
// within the sum of kKeepaliveTimeMs and kKeepaliveTimeoutMs. The caller then opens another
// connection. A server waits longer for a silent caller, because a dead caller costs it little
// memory.
constexpr int kKeepaliveTimeMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kServerKeepaliveTimeMs = 10'000;
constexpr int kServerKeepaliveTimeoutMs = 20'000;
// The shortest interval of pings that a server allows. With gRPC's default, the server would answer
// more frequent pings with "too many pings" and close the connection.
constexpr int kPingIntervalMinMs = 500;

// A task may start later than its callers, so callers try to connect again soon.
constexpr int kReconnectBackoffFirstMs = 50;
constexpr int kReconnectBackoffMaxMs = 1'000;
constexpr int kConnectTimeoutMs = 5'000;
constexpr int kResolveIntervalMinMs = 500;

// The bytes of one read of a socket: so few that they are still in the processor's cache when they
// are used.
constexpr int kTcpReadChunkBytes = 256 << 10;
constexpr int kTcpReadChunkBytesMax = 512 << 10;
// The bytes that one end may send before the other end has read them (HTTP/2's flow control).
constexpr int kLookaheadBytes = 64 << 20;
constexpr int kMetadataBytesMax = 64 << 10;
// The most bytes that a message of gRPC has beside header and payload: tag and length of the
// payload, and what a frame adds.
constexpr size_t kFrameOverheadBytesMax = (size_t{1} << 20) + 512;

// Returns the largest message of gRPC, as the int that gRPC takes.
int MessageBytesMax(size_t message_bytes_max) {
  return static_cast<int>(std::min<size_t>(message_bytes_max + kFrameOverheadBytesMax,
                                           std::numeric_limits<int>::max()));
}

// Applies the settings that clients and servers share. `set` takes the name and the value of a
// setting.
template <typename Set>
void SharedSettings(const Set& set) {
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // gRPC reports a message that was written with the buffer hint as written when at most this many
  // of its bytes are unsent. So the next message is ready when all bytes have been sent.
  set(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, static_cast<int>(kPartBytes));
  set(GRPC_ARG_TCP_READ_CHUNK_SIZE, kTcpReadChunkBytes);
  set(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, kTcpReadChunkBytesMax);
}

}  // namespace

grpc::ChannelArguments ChannelSettings(Lane lane, size_t message_bytes_max) {
  grpc::ChannelArguments arguments;
  const auto set = [&](const char* name, int value) { arguments.SetInt(name, value); };
  SharedSettings(set);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveTimeMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeoutMs);
  // With retries, gRPC would keep messages after sending them, and might send memory that has
  // changed in the meantime.
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  // Without this setting, channels with equal settings would share one connection, and control
  // calls would wait behind tensors.
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffFirstMs);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMaxMs);
  // gRPC uses the minimal backoff as the time limit of an attempt to connect.
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  // A task that the name service does not know yet is looked up again soon.
  set(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveIntervalMinMs);
  set(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  // With a proxy enabled, gRPC would read the environment, which only common/cluster may do.
  set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  if (lane != Lane::kControl) set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  arguments.SetMaxReceiveMessageSize(MessageBytesMax(message_bytes_max));
  // gRPC needs no limit for messages that are sent, because CheckSize has checked each message.
  arguments.SetMaxSendMessageSize(-1);
  return arguments;
}

void ApplyServerSettings(size_t message_bytes_max, grpc::ServerBuilder& builder) {
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  SharedSettings(set);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveTimeMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveTimeoutMs);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingIntervalMinMs);
  // A server does not know the purpose of a connection (Lane), so every client gets the
  // flow-control window for tensors.
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  // Two daemons on one port are a mistake, so the second daemon fails to listen.
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.SetMaxReceiveMessageSize(MessageBytesMax(message_bytes_max));
  builder.SetMaxSendMessageSize(-1);
}

void SetUpGrpc() {
  gpr_set_log_function([](gpr_log_func_args* line) {
    Log(LogLevel::kDebug, "grpc", {{"text", line->message}});
  });
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
}

}  // namespace cohort
