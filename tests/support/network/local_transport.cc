#include "tests/support/network/local_transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/wire/frames/io_loop.h"
#include "common/wire/frames/local_channel.h"
#include "common/wire/frames/local_server.h"
#include "common/wire/frames/local_socket.h"
#include "common/wire/frames/shared_memory.h"

namespace cohort {

LocalTransport::LocalTransport() : LocalTransport(Options()) {}
LocalTransport::LocalTransport(Options options)
    : options_(options), loops_(std::make_unique<const LocalLoops>()) {}
LocalTransport::~LocalTransport() = default;

absl::StatusOr<std::unique_ptr<Server>> LocalTransport::Listen(const std::string& address,
                                                               std::vector<Service> services) {
  std::string name = address;
  absl::string_view host = address;
  if (absl::ConsumeSuffix(&host, ":0")) name = absl::StrCat(host, ":", NewSocketNumber());
  return StartLocalServer(
      *loops_, {name, name, std::move(services), options_.message_bytes_max, options_.blocks});
}

std::shared_ptr<Channel> LocalTransport::Connect(const std::string& address, Lane lane) {
  return std::make_shared<LocalChannel>(
      *loops_,
      LocalSession::Options{address, address, options_.message_bytes_max, options_.blocks});
}

AllocateBuffer LocalTransport::MemoryToSend() const {
  return options_.blocks ? SharedMemoryMaker() : Buffer::Allocate;
}

}  // namespace cohort
