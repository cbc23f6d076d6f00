#include "common/wire/frames/stream_greeting.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// The start of a greeting. No HTTP client begins in this way: an HTTP/2 client begins with "PRI ",
// and an HTTP/1 client with a method in capital letters.
constexpr absl::string_view kMark = "cohort-frames-1 ";

}  // namespace

std::string StreamGreeting(StreamKind kind, const std::string& name) {
  return absl::StrCat(kMark, kind == StreamKind::kParts ? "parts" : "calls", " ", name, "\n");
}

size_t StreamGreetingBytes(const std::string& name) {
  return StreamGreeting(StreamKind::kCalls, name).size();
}

Greeted ReadGreeting(absl::string_view bytes, const std::string& name) {
  // The bytes are compared while they arrive, because even the first byte alone can show that the
  // peer speaks another protocol.
  const size_t marked = std::min(bytes.size(), kMark.size());
  if (bytes.substr(0, marked) != kMark.substr(0, marked)) return {FirstBytes::kOther};
  if (bytes.size() < StreamGreetingBytes(name)) return {FirstBytes::kTooFew};
  // The greetings for both kinds of connection have the same length, so the bytes can be compared
  // with each of the two.
  for (const StreamKind kind : {StreamKind::kCalls, StreamKind::kParts}) {
    if (bytes == StreamGreeting(kind, name)) return {FirstBytes::kGreeting, kind};
  }
  return {FirstBytes::kStranger};
}

}  // namespace cohort
