#!/usr/bin/env bash
# From a fresh Debian 12 to a trained model: installs what is missing, builds, starts 2 ps, 3 workers and 1 coordinator
# as real processes on free loopback ports with TF_CONFIG, trains MNIST, saves a checkpoint, stops everything. The last
# line of stdout is the job's summary as one line of JSON; everything else goes to stderr.
# Usage: deploy/quickstart.sh [--set fit.epochs=3 ...]      (arguments go to the coordinator)
set -euo pipefail
cd "$(dirname "$0")/.."

num_ps=2
num_workers=3

deploy/install_dependencies.sh
echo "building (release preset)" >&2
cmake --preset release >&2
cmake --build --preset release --target coordinator ps worker >&2

bin=build/release/bin
run_dir=$(mktemp -d "${TMPDIR:-/tmp}/cohort-quickstart-XXXXXX")
pids=()
stop_all() {
  for pid in "${pids[@]}"; do kill -TERM "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
}
trap stop_all EXIT

mapfile -t ports < <("$bin/coordinator" --free_ports $((num_ps + num_workers)))
quoted() { printf '"127.0.0.1:%s",' "$@" | sed 's/,$//'; }
cluster="{\"chief\": [\"127.0.0.1:1\"], \"ps\": [$(quoted "${ports[@]:0:num_ps}")], \"worker\": [$(quoted "${ports[@]:num_ps}")]}"

start() { # role index
  TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"$1\", \"index\": $2}}" \
    "$bin/$1" --bind_address "$3" >"$run_dir/$1-$2.log" 2>&1 &
  pids+=($!)
}
# The processes of one machine share its processors.
threads=$(($(nproc) / num_workers))
((threads > 0)) || threads=1
for ((i = 0; i < num_ps; i++)); do start ps "$i" "127.0.0.1:${ports[i]}"; done
for ((i = 0; i < num_workers; i++)); do start worker "$i" "127.0.0.1:${ports[num_ps + i]}"; done

echo "training; logs of the tasks are in $run_dir" >&2
TF_CONFIG="{\"cluster\": $cluster, \"task\": {\"type\": \"chief\", \"index\": 0}}" \
  "$bin/coordinator" --job deploy/jobs/mnist_mlp.json \
  --set "checkpoint.directory=$run_dir/checkpoints" --set "export.onnx=$run_dir/model.onnx" "$@" |
  tee "$run_dir/summary"
# The job says `otherwise`, so that it trains without a network, too. Nobody shall take its accuracy for MNIST's.
if grep -q '"data":"synthetic_digits"' "$run_dir/summary"; then
  echo "NOT MNIST: there was none in COHORT_DATA_DIR and it could not be downloaded, so this model was trained and tested on" \
    "digits that the program makes, which are easier. Set COHORT_DATA_DIR to a directory that has mnist/ and start again." >&2
fi
