#!/usr/bin/env bash
# Trains deploy/jobs/mnist_cnn.json on MNIST once under each strategy, changing its type and devices alone, and prints of
# each the loss of the last epoch, the test accuracy and the rate. Fails where the accuracy is below 0.985. With "together"
# the statistics of BatchNormalization are those of all replicas of a step. The longest test: two minutes where nobody
# else computes.
# Usage: COHORT_DATA_DIR=DIR tests/process/mnist_cnn_strategies.sh [EPOCHS] [each|together] [TYPE...]
set -euo pipefail
cd "$(dirname "$0")/../.."

epochs=${1:-4}
statistics=${2:-each}
shift $(($# < 2 ? $# : 2))
types=("$@")
if ((${#types[@]} == 0)); then
  types=(one_device mirrored central_storage default parameter_server multi_worker_mirrored)
fi
two='["cpu:0","cpu:1"]'

if [[ -z ${COHORT_DATA_DIR:-} ]]; then
  echo "skipped: needs data: COHORT_DATA_DIR names a directory with MNIST"
  exit 77
fi
coordinator=${COHORT_BIN:-build/release/bin}/coordinator

field() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$2"; }

bad=0
printf '%-18s %-9s %-12s %-14s %s\n' strategy statistics train_loss test_accuracy examples/s
for type in "${types[@]}"; do
  arguments=(--job deploy/jobs/mnist_cnn.json --set fit.epochs="$epochs" --set strategy.type="$type"
    --set strategy.devices="$two" --set strategy.compute_devices="$two")
  # Where replicas meet across workers there have to be several.
  if [[ $type == multi_worker_mirrored ]]; then arguments+=(--local worker=2); fi
  if [[ $statistics == together ]]; then
    for layer in 2 6; do
      arguments+=(--set "model.config.layers.$layer.config.synchronized=true")
    done
  fi
  summary=$(TF_CONFIG='' "$coordinator" "${arguments[@]}" 2>/dev/null | tail -1)
  accuracy=$(field test_accuracy "$summary")
  printf '%-18s %-9s %-12.6f %-14s %.0f\n' "$type" "$statistics" "$(field train_loss "$summary")" \
    "$accuracy" "$(field examples_per_second "$summary")"
  awk -v accuracy="${accuracy:-0}" 'BEGIN { exit !(accuracy < 0.985) }' && bad=1
done
exit $bad
