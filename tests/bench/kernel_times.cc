#include "tests/bench/kernel_times.h"

#include <time.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort::bench {

namespace {

// A kernel that measures another one. Thread-compatible.
class TimedKernel : public Kernel {
 public:
  TimedKernel(std::unique_ptr<Kernel> kernel, KernelTimes::Entry& entry)
      : kernel_(std::move(kernel)), entry_(entry) {}

  absl::Status Run(KernelContext& context) const override {
    const double start = ProcessorSeconds();
    absl::Status status = kernel_->Run(context);
    entry_.seconds += ProcessorSeconds() - start;
    ++entry_.runs;
    return status;
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  KernelTimes::Entry& entry_;
};

}  // namespace

double ProcessorSeconds() {
  timespec time = {};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

KernelRegistry KernelTimes::Wrap(const KernelRegistry& registry) {
  KernelRegistry wrapped;
  for (const auto& [domain, op] : registry.Names()) {
    KernelDefinition definition = *registry.Find(domain, op);
    Entry& entry = entries_[domain.empty() ? op : absl::StrCat(domain, ".", op)];
    entry.op = domain.empty() ? op : absl::StrCat(domain, ".", op);
    definition.make = [make = std::move(definition.make), &entry](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make(node));
      // A kernel that waits for other replicas computes nothing in Run.
      if (kernel->AsWaiting() != nullptr) return kernel;
      return std::make_unique<TimedKernel>(std::move(kernel), entry);
    };
    wrapped.Add(domain, op, std::move(definition));
  }
  return wrapped;
}

void KernelTimes::Clear() {
  for (auto& [op, entry] : entries_) entry = {op};
}

std::vector<KernelTimes::Entry> KernelTimes::Slowest() const {
  std::vector<Entry> ran;
  for (const auto& [op, entry] : entries_) {
    if (entry.runs > 0) ran.push_back(entry);
  }
  std::sort(ran.begin(), ran.end(),
            [](const Entry& a, const Entry& b) { return a.seconds > b.seconds; });
  return ran;
}

}  // namespace cohort::bench
