#pragma once

// Where the processor time of a program goes, by operator: every kernel of a registry is wrapped in
// one that measures each run. Processor time tells more than the clock while other programs compute
// on the machine; with several threads it counts them all, and those that wait for others, too.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort::bench {

// Returns the processor time that all threads of this process have used.
double ProcessorSeconds();

// Thread-compatible: the programs of the wrapped kernels run one after another.
class KernelTimes {
 public:
  struct Entry {
    std::string op;  // with the domain, if the operator is not one of ONNX's
    double seconds = 0;
    int64_t runs = 0;
  };

  // Returns the kernels of `registry`, which add their times to this object. It must outlive the
  // programs that are compiled with them.
  KernelRegistry Wrap(const KernelRegistry& registry);
  // Forgets what was measured.
  void Clear();
  // Returns the operators that ran, the slowest first.
  std::vector<Entry> Slowest() const;

 private:
  std::map<std::string, Entry> entries_;
};

}  // namespace cohort::bench
