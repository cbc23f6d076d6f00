#!/usr/bin/env bash
# On a machine with GPUs, CUDA, cuDNN and NCCL: builds the modules for them (preset cuda) and runs every test that has the label gpu.
# Prints what was skipped for want of more GPUs; fails where a test fails, or is skipped without need.
set -euo pipefail
cd "$(dirname "$0")/.."
compgen -G "/dev/nvidia[0-9]*" >/dev/null || {
  echo "error: this machine has no GPU (no /dev/nvidia0)" >&2
  exit 1
}
deploy/install_dependencies.sh
# Kernels for the GPUs that are here, such as "80;90": those for the default one do not run on an older one.
architectures=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | tr -d . | sort -u | paste -sd ';')
cmake --preset cuda -DCMAKE_CUDA_ARCHITECTURES="$architectures"
cmake --build --preset cuda --target nccl_test device_test device_training_test
status=0
(cd build/cuda && ctest -L '^gpu$' --output-on-failure) || status=$?
tests/check_skips.sh build/cuda/Testing/Temporary/LastTest.log || status=1
exit "$status"
