// The search of the fuzz programs: it changes inputs at random and keeps those that reach code, or
// counts of it, that no input reached before. The code under test reports where it is through
// __sanitizer_cov_trace_pc.
//
//   FORMAT_fuzz [--seconds N] [--runs N] [--seed N] [FILE...]
//
// With files it runs each of them once and ends. An input that ends the process is left in
// crash-FORMAT_fuzz, in the working directory.

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "tests/fuzz/fuzz_target.h"

// A function of the sanitizers, if the build has one.
extern "C" void __sanitizer_set_death_callback(void (*callback)()) __attribute__((weak));

namespace cohort {
namespace {

constexpr size_t kPlaces = 1 << 16;
constexpr size_t kInputBytesMax = 1 << 20;
constexpr unsigned kSecondsMax = 20;  // of one input

// How often each place was passed in this run. Written by the code under test.
std::array<uint8_t, kPlaces> passed;
thread_local uintptr_t last_place = 0;

// The input that is being run, for the handler of signals.
const std::string* running = nullptr;
char crash_path[256] = "crash";

// Counts a place of the code under test.
void Pass(uintptr_t place) {
  // Two places in a row make an edge.
  uint8_t& count = passed[(place ^ (last_place << 1)) % kPlaces];
  if (count < 255) ++count;
  last_place = place;
}

void WriteRunning() {
  if (running == nullptr) return;
  const int fd = open(crash_path, O_CREAT | O_WRONLY | O_TRUNC, 0644);
  if (fd < 0) return;
  (void)!write(fd, running->data(), running->size());
  close(fd);
}

void OnSignal(int number) {
  WriteRunning();
  signal(number, SIG_DFL);
  raise(number);
}

// Returns a class of counts: 1, 2, 3, 4 to 7, ... Only a new class makes an input new.
uint8_t ClassOf(uint8_t count) {
  if (count < 4) return static_cast<uint8_t>(1 << count);
  if (count < 8) return 16;
  if (count < 32) return 32;
  return count < 128 ? 64 : 128;
}

// A search for inputs. Thread-compatible.
class Fuzzer {
 public:
  explicit Fuzzer(uint64_t seed) : random_(seed) {}

  void Run(const std::string& input) {
    passed.fill(0);
    last_place = 0;
    running = &input;
    alarm(kSecondsMax);
    FuzzOne(input);
    alarm(0);
    running = nullptr;
    ++runs_;
    bool is_new = false;
    for (size_t i = 0; i < kPlaces; ++i) {
      if (passed[i] == 0) continue;
      const uint8_t one = ClassOf(passed[i]);
      is_new = is_new || (seen_[i] & one) == 0;
      seen_[i] = static_cast<uint8_t>(seen_[i] | one);
    }
    if (is_new) inputs_.push_back(input);
  }

  // Runs a seed, which is kept whatever it reaches.
  void RunSeed(const std::string& seed) {
    const size_t kept = inputs_.size();
    Run(seed);
    if (inputs_.size() == kept) inputs_.push_back(seed);
  }

  void RunOneMore() {
    std::string input = inputs_[Below(inputs_.size())];
    for (size_t changes = 1 + Below(4); changes > 0; --changes) Change(input);
    if (input.size() <= kInputBytesMax) Run(input);
  }

  uint64_t runs() const { return runs_; }
  size_t inputs() const { return inputs_.size(); }
  size_t places() const {
    return static_cast<size_t>(
        std::count_if(seen_.begin(), seen_.end(), [](uint8_t one) { return one != 0; }));
  }

 private:
  size_t Below(size_t bound) { return bound == 0 ? 0 : random_() % bound; }

  void Change(std::string& input) {
    if (input.empty()) input.push_back('\0');
    const size_t at = PlaceIn(input);
    const size_t length = std::min(input.size() - at, size_t{1} << Below(7));
    switch (Below(9)) {
      case 0:
        input[at] = static_cast<char>(input[at] ^ (1 << Below(8)));
        return;
      case 1:
        input[at] = static_cast<char>(random_());
        return;
      case 2:
        return PutNumber(input, at);
      case 3:
        input[at] = static_cast<char>(input[at] + static_cast<int>(Below(35)) - 17);
        return;
      case 4:
        input.erase(at, length);
        return;
      case 5:
        input.insert(at, input.substr(PlaceIn(input), length));
        return;
      case 6: {
        const size_t from = PlaceIn(input);
        const size_t count = std::min(length, input.size() - from);
        std::memmove(input.data() + at, input.data() + from, std::min(count, input.size() - at));
        return;
      }
      case 7:
        input.resize(at);
        return;
      default: {
        const std::string& other = inputs_[Below(inputs_.size())];
        if (other.empty()) return;
        const size_t from = Below(other.size());
        input.replace(at, length, other.substr(from, length));
      }
    }
  }

  // Returns a position that more often has something: files have long runs of zeros.
  size_t PlaceIn(const std::string& input) {
    size_t at = Below(input.size());
    for (int tries = 0; tries < 8 && input[at] == '\0'; ++tries) at = Below(input.size());
    return at;
  }

  // Writes a number at which programs err, in 1 to 8 bytes.
  void PutNumber(std::string& input, size_t at) {
    static constexpr uint64_t kNumbers[] = {0,          1,          2,          127,        128,
                                            255,        256,        32767,      65535,      65536,
                                            0x7fffffff, 0x80000000, 0xffffffff, 1ull << 32, ~0ull,
                                            ~0ull >> 1, 1ull << 63, 1ull << 62};
    uint64_t number = kNumbers[Below(std::size(kNumbers))];
    if (Below(4) == 0) number = input.size() - Below(16);
    const size_t width = std::min(input.size() - at, size_t{1} << Below(4));
    std::memcpy(input.data() + at, &number, width);
  }

  std::mt19937_64 random_;
  std::array<uint8_t, kPlaces> seen_{};
  std::vector<std::string> inputs_;
  uint64_t runs_ = 0;
};

struct Options {
  int64_t seconds = 20;
  int64_t runs = INT64_MAX;
  uint64_t seed = 1;
  std::vector<std::string> files;
};

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument.rfind("--", 0) != 0) {
      options.files.push_back(argument);
      continue;
    }
    const std::string value = i + 1 < argc ? argv[++i] : "";
    const bool known = (argument == "--seconds" && absl::SimpleAtoi(value, &options.seconds)) ||
                       (argument == "--runs" && absl::SimpleAtoi(value, &options.runs)) ||
                       (argument == "--seed" && absl::SimpleAtoi(value, &options.seed));
    if (!known) return false;
  }
  return true;
}

std::string BytesIn(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << in.rdbuf();
  return bytes.str();
}

int Main(int argc, char** argv) {
  Options options;
  if (!Parse(argc, argv, options)) {
    std::fprintf(stderr, "usage: %s [--seconds N] [--runs N] [--seed N] [FILE...]\n", argv[0]);
    return 2;
  }
  const std::string name = std::string(argv[0]).substr(std::string(argv[0]).rfind('/') + 1);
  std::snprintf(crash_path, sizeof(crash_path), "crash-%s", name.c_str());
  for (const int number : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL, SIGALRM}) {
    // A sanitizer's own handlers report more, and then call the death callback.
    if (number == SIGALRM || &__sanitizer_set_death_callback == nullptr) signal(number, OnSignal);
  }
  if (&__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(WriteRunning);
  Fuzzer fuzzer(options.seed);
  for (const std::string& file : options.files) fuzzer.Run(BytesIn(file));
  if (!options.files.empty()) return 0;
  for (const std::string& seed : FuzzSeeds()) fuzzer.RunSeed(seed);
  if (fuzzer.inputs() == 0) {
    std::fprintf(stderr, "%s: no seeds\n", name.c_str());
    return 1;
  }
  const absl::Time end = absl::Now() + absl::Seconds(options.seconds);
  const uint64_t runs = static_cast<uint64_t>(options.runs);
  while (fuzzer.runs() < runs && absl::Now() < end) fuzzer.RunOneMore();
  std::printf("%s: seed %llu, %llu inputs, %zu kept, %zu places\n", name.c_str(),
              static_cast<unsigned long long>(options.seed),
              static_cast<unsigned long long>(fuzzer.runs()), fuzzer.inputs(), fuzzer.places());
  return 0;
}

}  // namespace
}  // namespace cohort

// What the compiler calls at every place of the code under test.
extern "C" void __sanitizer_cov_trace_pc() {
  cohort::Pass(reinterpret_cast<uintptr_t>(__builtin_return_address(0)));
}

int main(int argc, char** argv) { return cohort::Main(argc, argv); }
