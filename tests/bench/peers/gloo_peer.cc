// Gloo's all-reduce over TCP, as a rank of `cohort_bench collective`.
// Usage: cohort_gloo_peer BENCH RANK RANKS DIRECTORY ring|bcube

#include <gloo/allreduce.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "tests/bench/peers/rank_link.h"

namespace {

using gloo::AllreduceOptions;

class GlooWork final : public cohort::bench::RankWork {
 public:
  GlooWork(std::shared_ptr<gloo::Context> context, AllreduceOptions::Algorithm algorithm)
      : context_(std::move(context)), algorithm_(algorithm) {}

  float* Prepare(size_t count) override {
    values_ = std::vector<float>(count);
    return values_.data();
  }

  bool AllReduce(int times) override {
    AllreduceOptions options(context_);
    options.setOutput(values_.data(), values_.size());
    options.setAlgorithm(algorithm_);
    options.setReduceFunction(
        static_cast<void (*)(void*, const void*, const void*, size_t)>(&gloo::sum<float>));
    for (int i = 0; i < times; ++i) gloo::allreduce(options);
    return true;
  }

  bool Barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
    return true;
  }

 private:
  const std::shared_ptr<gloo::Context> context_;
  const AllreduceOptions::Algorithm algorithm_;
  std::vector<float> values_;
};

int Run(const std::vector<std::string>& arguments) {
  const int rank = std::atoi(arguments[1].c_str());
  const int ranks = std::atoi(arguments[2].c_str());
  gloo::transport::tcp::attr attributes;
  attributes.hostname = "127.0.0.1";
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore store(arguments[3]);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->connectFullMesh(store, device);
  GlooWork work(context, arguments[4] == "bcube" ? AllreduceOptions::Algorithm::BCUBE
                                                 : AllreduceOptions::Algorithm::RING);
  return cohort::bench::ServeBench(arguments[0], rank, ranks, work);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6) {
    std::fprintf(stderr, "usage: cohort_gloo_peer BENCH RANK RANKS DIRECTORY ring|bcube\n");
    return 2;
  }
  try {
    return Run(std::vector<std::string>(argv + 1, argv + argc));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cohort_gloo_peer: %s\n", error.what());
    return 1;
  }
}
