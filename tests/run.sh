#!/usr/bin/env bash
# Installs what is missing, builds the release preset with its tests and runs them all. With CI=true it fails also for tests
# that were skipped without need. Data sets are taken from $COHORT_DATA_DIR (mnist/...), where that is set.
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/install_dependencies.sh --tests

if [[ -n ${COHORT_DATA_DIR:-} ]]; then
  for file in train-images-idx3-ubyte train-labels-idx1-ubyte t10k-images-idx3-ubyte t10k-labels-idx1-ubyte; do
    [[ -s $COHORT_DATA_DIR/mnist/$file.gz ]] || {
      echo "error: COHORT_DATA_DIR is set, but $COHORT_DATA_DIR/mnist/$file.gz is missing" >&2
      exit 1
    }
  done
fi

cmake --preset release
cmake --build --preset release

status=0
ctest --preset release --parallel "$(nproc)" || status=$?

if ! tests/check_skips.sh build/release/Testing/Temporary/LastTest.log; then
  [[ ${CI:-} != true ]] || status=1
fi
exit "$status"
