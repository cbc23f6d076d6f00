#!/usr/bin/env bash
# On a machine with GPUs, CUDA and NCCL: builds the modules for them (preset cuda) and runs every test that has the label gpu.
# Prints what was skipped for want of more GPUs; fails where a test fails, or is skipped without need.
set -euo pipefail
cd "$(dirname "$0")/.."
compgen -G "/dev/nvidia[0-9]*" >/dev/null || {
  echo "error: this machine has no GPU (no /dev/nvidia0)" >&2
  exit 1
}
deploy/install_dependencies.sh
cmake --preset cuda
cmake --build --preset cuda --target nccl_test cohort_cuda
status=0
(cd build/cuda && ctest -L '^gpu$' --output-on-failure) || status=$?
tests/check_skips.sh build/cuda/Testing/Temporary/LastTest.log || status=1
exit "$status"
