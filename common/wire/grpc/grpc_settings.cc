#include "common/wire/grpc/grpc_settings.h"

#include <algorithm>
#include <limits>

#include "common/wire/frame_limits.h"

namespace cohort {

namespace {

// A caller notices a dead connection within the sum of the two when it is idle, and within the
// second, which is the default lease of tasks, when something was sent: it opens another one. A
// server has more patience with callers that stand still; what it holds for a dead one is little.
constexpr int kKeepaliveTimeMs = 2'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kServerKeepaliveTimeMs = 10'000;
constexpr int kServerKeepaliveTimeoutMs = 20'000;
// Else a server would answer so many pings with "too many pings" and close.
constexpr int kPingIntervalMinMs = 500;

constexpr int kReconnectBackoffFirstMs = 50;
constexpr int kReconnectBackoffMaxMs = 1'000;
constexpr int kConnectTimeoutMs = 5'000;
constexpr int kResolveIntervalMinMs = 500;

// The bytes of one read: they are still in the cache when they are looked at.
constexpr int kTcpReadChunkBytes = 256 << 10;
constexpr int kTcpReadChunkBytesMax = 512 << 10;
constexpr int kLookaheadBytes = 64 << 20;
constexpr int kMetadataBytesMax = 64 << 10;
// Tag and length of the payload; of a call on a stream id and method, too.
constexpr size_t kFrameOverheadBytesMax = 512;

int MessageBytesMax(size_t message_bytes_max) {
  return static_cast<int>(std::min<size_t>(message_bytes_max + kFrameOverheadBytesMax,
                                           std::numeric_limits<int>::max()));
}

// Applies the settings that both ends share: `set` takes name and number.
template <typename Set>
void SharedSettings(const Set& set) {
  set(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  set(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  set(GRPC_ARG_MAX_METADATA_SIZE, kMetadataBytesMax);
  // A part that is written with the hint that more follows counts as written when no more than this
  // of it is left, so that the next is at hand when it has gone.
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
  // With retries gRPC would keep what was sent, and send again memory that has changed since.
  set(GRPC_ARG_ENABLE_RETRIES, 0);
  // Otherwise channels with equal settings share one connection, and control waits behind tensors.
  set(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  set(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, kReconnectBackoffFirstMs);
  set(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, kReconnectBackoffMaxMs);
  set(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, kConnectTimeoutMs);
  // A task that is not in the name service yet is asked for again soon.
  set(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, kResolveIntervalMinMs);
  set(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  set(GRPC_ARG_ENABLE_HTTP_PROXY, 0);  // the environment is read in common/cluster alone
  if (lane != Lane::kControl) set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);
  arguments.SetMaxReceiveMessageSize(MessageBytesMax(message_bytes_max));
  arguments.SetMaxSendMessageSize(-1);  // checked before it gets there
  return arguments;
}

void ApplyServerSettings(size_t message_bytes_max, grpc::ServerBuilder& builder) {
  const auto set = [&](const char* name, int value) { builder.AddChannelArgument(name, value); };
  SharedSettings(set);
  set(GRPC_ARG_KEEPALIVE_TIME_MS, kServerKeepaliveTimeMs);
  set(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kServerKeepaliveTimeoutMs);
  set(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, kPingIntervalMinMs);
  set(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, kLookaheadBytes);  // a server cannot tell lanes apart
  set(GRPC_ARG_ALLOW_REUSEPORT, 0);  // two daemons on one port are a mistake
  builder.SetMaxReceiveMessageSize(MessageBytesMax(message_bytes_max));
  builder.SetMaxSendMessageSize(-1);
}

}  // namespace cohort
