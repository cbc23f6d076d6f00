#!/usr/bin/env bash
# One process per role with TF_CONFIG, as an engineer starts them by hand on several machines; here all of them on one, at the ports
# from BASE_PORT (2220) on. Replace the addresses in `cluster` with those of your machines, and start each line on its own.
# Usage: deploy/by_hand.sh [JOB] [--set fit.epochs=1 ...]
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${COHORT_BIN:-build/release/bin}
base=${BASE_PORT:-2220}
job=${1:-deploy/jobs/mnist_mlp.json}
shift || true

at() { echo "\"127.0.0.1:$((base + $1))\""; }
cluster="{\"chief\": [$(at 0)], \"ps\": [$(at 1), $(at 2)], \"worker\": [$(at 3), $(at 4), $(at 5)]}"
as() { # type index: the TF_CONFIG of one task
  echo "{\"cluster\": $cluster, \"task\": {\"type\": \"$1\", \"index\": $2}}"
}

for i in 0 1; do TF_CONFIG=$(as ps $i) "$bin/ps" & done
for i in 0 1 2; do TF_CONFIG=$(as worker $i) "$bin/worker" & done
TF_CONFIG=$(as chief 0) "$bin/coordinator" --job "$job" "$@"
wait
