#!/usr/bin/env bash
# One host of a job that trains in all of its workers (strategy multi_worker_mirrored), without ps and chief: starts this
# host's worker and, on the host of worker 0, the coordinator beside it. Every host runs it with the same TF_CONFIG, which
# lists the workers: TF_CONFIG='{"cluster": {"worker": ["host-a:2222", "host-b:2222", "host-c:2222"]}}'
# Usage: deploy/multi_worker.sh INDEX JOB [...]      INDEX: which worker this is; further arguments go to the coordinator
# COHORT_BIN: the directory of the programs; default build/release/bin. COHORT_BIND: where the worker listens; default: the
# port of its own address, on all interfaces unless that is loopback.
# Exit code: the coordinator's on the host of worker 0, else the worker's.
set -euo pipefail

if [ $# -lt 2 ]; then
  echo "usage: TF_CONFIG=... $0 INDEX JOB [arguments of the coordinator]" >&2
  exit 2
fi
index=$1
job=$2
shift 2
bin=${COHORT_BIN:-$(dirname "$0")/../build/release/bin}
worker=("$bin/worker" --task_index "$index" ${COHORT_BIND:+--bind_address "$COHORT_BIND"})

if [ "$index" != 0 ]; then exec "${worker[@]}"; fi

"${worker[@]}" &
beside=$!
# When the job ends the coordinator has told all workers to end; otherwise this one must not stay behind.
trap 'kill -TERM "$beside" 2>/dev/null || true; wait "$beside" || true' EXIT
"$bin/coordinator" --job "$job" --set strategy.type=multi_worker_mirrored "$@"
