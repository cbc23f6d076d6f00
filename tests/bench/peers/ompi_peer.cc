// Open MPI's all-reduce, as a rank of `cohort_bench collective`; mpirun's options say over what.
// Usage: mpirun ... cohort_ompi_peer BENCH

#include <mpi.h>

#include <vector>

#include "tests/bench/peers/rank_link.h"

namespace {

class MpiWork final : public cohort::bench::RankWork {
 public:
  float* Prepare(size_t count) override {
    values_ = std::vector<float>(count);
    return values_.data();
  }

  bool AllReduce(int times) override {
    for (int i = 0; i < times; ++i) {
      if (MPI_Allreduce(MPI_IN_PLACE, values_.data(), static_cast<int>(values_.size()), MPI_FLOAT,
                        MPI_SUM, MPI_COMM_WORLD) != MPI_SUCCESS) {
        return false;
      }
    }
    return true;
  }

  bool Barrier() override { return MPI_Barrier(MPI_COMM_WORLD) == MPI_SUCCESS; }

 private:
  std::vector<float> values_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2 || MPI_Init(&argc, &argv) != MPI_SUCCESS) return 2;
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MpiWork work;
  const int result = cohort::bench::ServeBench(argv[1], rank, ranks, work);
  MPI_Finalize();
  return result;
}
