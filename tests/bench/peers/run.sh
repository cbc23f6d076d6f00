#!/usr/bin/env bash
# TensorFlow's ParameterServerStrategy beside Cohort on the same work, on this machine, one after the other: the MNIST
# MLP and a wide-and-deep click model with 2 ps and 3 workers, and a vector of 10 MB added to a variable. Prints our
# line, the peer's and the ratio of each. Makes a virtual environment of its own; where TensorFlow cannot be installed
# it says so and prints our lines alone.
# Usage: tests/bench/peers/run.sh [mnist] [embedding] [assign_add]     (without: all three; COHORT_DATA_DIR: mnist/*.gz)
# COHORT_PEERS_DIR: where the virtual environment lies and stays, instead of a temporary directory.
set -euo pipefail
cd "$(dirname "$0")/../../.."

bench=$PWD/build/release/bin/cohort_bench
peer=$PWD/tests/bench/peers/tensorflow_peer.py
dir=$(mktemp -d "${TMPDIR:-/tmp}/cohort-peers-XXXXXX")
trap 'rm -rf "$dir"' EXIT
python=${COHORT_PEERS_DIR:-$dir}/venv/bin/python

install_tensorflow() {
  [[ -x $python ]] || python3 -m venv "$(dirname "$(dirname "$python")")"
  "$python" -c 'import tensorflow, tf_keras' 2>/dev/null ||
    "$python" -m pip install --quiet tensorflow-cpu==2.21.0 tf_keras==2.21.0
}

tensorflow=true
if ! install_tensorflow >"$dir/install.log" 2>&1; then
  tensorflow=false
  echo "TensorFlow cannot be installed, so our side stands alone: $(tail -n 1 "$dir/install.log")" >&2
fi

field() { sed -n "s/.*\"$1\": *\([^,}]*\).*/\1/p" <<<"$2"; }

# compare CASE GOAL OURS [OPTIONS OF THE PEER]...
compare() {
  local name=$1 goal=$2 ours=$3 theirs
  shift 3
  echo "$ours"
  $tensorflow || return 0
  if ! theirs=$("$python" "$peer" "$name" "$@" 2>"$dir/peer.log"); then
    echo "TensorFlow's $name failed:" >&2
    tail -n 20 "$dir/peer.log" >&2
    return 1
  fi
  echo "$theirs"
  awk -v name="$name" -v goal="$goal" -v ours="$(field value "$ours")" -v theirs="$(field value "$theirs")" \
    'BEGIN { printf "{\"bench\":\"peers\",\"case\":\"%s\",\"ratio\":%.2f,\"goal\":%s}\n", name, ours / theirs, goal }'
}

mnist() { compare mnist 5 "$("$bench" step --workers 3 --epochs 6 2>"$dir/ours.log")" --epochs 6; }

embedding() {
  local buckets
  buckets=$("$bench" embedding --print_job true | python3 -c \
    'import json, sys; print(json.load(sys.stdin)["data"]["train"]["config"]["hash_buckets"])')
  "$bench" click_log --rows $((32 * 4096)) >"$dir/clicks"
  compare embedding 10 "$("$bench" embedding --workers 3 2>"$dir/ours.log")" \
    --epochs 4 --click_log "$dir/clicks" --buckets "$buckets"
}

assign_add() { compare assign_add 10 "$("$bench" assign_add 2>"$dir/ours.log")" --ps 1 --workers 1; }

for name in "${@:-mnist embedding assign_add}"; do
  for each in $name; do
    case $each in
      mnist | embedding | assign_add) "$each" ;;
      *) echo "$each: not one of mnist, embedding, assign_add" >&2; exit 2 ;;
    esac
  done
done
