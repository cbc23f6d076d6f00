#!/usr/bin/env bash
# Trains MNIST once undisturbed and once while a process is killed every three seconds, and says what it cost: kills by
# role, of them during a checkpoint and during another recovery, steps that ran again, pushes that were dropped as
# duplicates, and both test accuracies. Fails where the kills met less than they have to: 18 kills, 6 of each role, 2 in a
# checkpoint and 1 in a recovery; or where the accuracy differs by more than half a point. Not part of ctest: it takes minutes.
# Usage: tests/process/chaos.sh [EPOCHS] [KILLS] [shared|private]
# private: each ps has a directory of its own in the place of the checkpoints, and finds it empty after its kill; needs
# root. What is being written then lies with the coordinator.
set -euo pipefail
cd "$(dirname "$0")/../.."

epochs=${1:-110}
kills=${2:-18}
disks=${3:-shared}
bin=build/release/bin
dir=$(mktemp -d "${TMPDIR:-/tmp}/cohort-chaos-XXXXXX")
state=$dir/state
coordinator=0
trap 'kill -KILL $coordinator 2>/dev/null || true; rm -rf "$dir"' EXIT

if [[ $disks == private ]]; then
  mkdir -p "$dir/bin" "$state/recovery"
  cp "$bin/coordinator" "$bin/worker" "$dir/bin/"
  cp "$bin/ps" "$dir/ps"
  printf '#!/bin/sh\nexec unshare --mount sh -c '\''mount -t tmpfs none "$0" && exec %s "$@"'\'' %s "$@"\n' \
    "$dir/ps" "$state/recovery" >"$dir/bin/ps"
  chmod +x "$dir/bin/ps"
  bin=$dir/bin
fi

field() { sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$2"; }

train() { # output file; in the background
  "$bin/coordinator" --job deploy/jobs/mnist_mlp.json --local ps=2,worker=3 --state_dir "$state" \
    --set fit.epochs="$epochs" --set recovery.interval_ms=1000 >"$1" 2>>"$dir/log" &
  coordinator=$!
}

pid_of() { sed -n 's/.*"pid": *\([0-9]*\).*/\1/p' "$state/$1.process" 2>/dev/null || true; }
kill_task() { local pid; pid=$(pid_of "$1"); [[ -n $pid ]] && kill -KILL "$pid" 2>/dev/null; }
lines() { grep -c "$1" "$dir/log" || true; }
# Waits, for 3 s at most, until the log has more lines with $1 than $2.
await_line() {
  for ((i = 0; i < 600; i++)); do
    (($(lines "$1") > $2)) && return 0
    read -rt 0.005 <> <(:) || true
  done
  return 1
}
pause() { read -rt "$1" <> <(:) || true; }

train "$dir/undisturbed"
wait "$coordinator"
undisturbed=$(tail -1 "$dir/undisturbed")
rm -rf "$state"
mkdir -p "$state/recovery"
: >"$dir/log"

declare -A killed=([worker]=0 [ps]=0 [coordinator]=0)
in_checkpoint=0
in_recovery=0
started=$SECONDS
train "$dir/disturbed"
for ((kill = 0; kill < kills; kill++)); do
  pause 3
  kill -0 "$coordinator" 2>/dev/null || break
  case $((kill % 3)) in
    0)
      kill_task "worker-$((kill % 2))" && killed[worker]=$((killed[worker] + 1))
      ;;
    1)
      if ((kill % 6 == 1)); then
        # A data shard under its temporary name is a checkpoint that is being written.
        until=$((SECONDS + 5))
        while ((SECONDS < until)); do
          compgen -G "$state/recovery/*.data-*.tmp" >/dev/null && in_checkpoint=$((in_checkpoint + 1)) && break
        done
      fi
      kill_task ps-0 && killed[ps]=$((killed[ps] + 1))
      if ((kill % 6 == 4)); then
        seen=$(lines event=recovery_started)
        if await_line event=recovery_started "$seen" && kill_task ps-1; then
          killed[ps]=$((killed[ps] + 1))
          in_recovery=$((in_recovery + 1))
        fi
      fi
      ;;
    2)
      kill -KILL "$coordinator"
      wait "$coordinator" 2>/dev/null || true
      killed[coordinator]=$((killed[coordinator] + 1))
      train "$dir/disturbed"
      ;;
  esac
done
wait "$coordinator"
disturbed=$(tail -1 "$dir/disturbed")
replayed=$(sed -n 's/.*event=resumed .*replays=\([0-9]*\).*/\1/p' "$dir/log" | awk '{s += $1} END {print s + 0}')
open=$(sed -n 's/.*event=training_resumed .*open=\([0-9]*\).*/\1/p' "$dir/log" | awk '{s += $1} END {print s + 0}')
printf '{"mode":"%s","kills_worker":%d,"kills_ps":%d,"kills_coordinator":%d,"in_checkpoint":%d,"in_recovery":%d,' \
  "$(sed -n 's/.*event=checkpoint_mode .*mode=\([a-z]*\).*/\1/p' "$dir/log" | sort -u | paste -sd,)" \
  "${killed[worker]}" "${killed[ps]}" "${killed[coordinator]}" "$in_checkpoint" "$in_recovery"
printf '"seconds":%d,"replayed_steps":%d,"open_steps_at_restarts":%d,"duplicate_slices_dropped":%s,' \
  $((SECONDS - started)) "$replayed" "$open" "$(field ps_duplicate_slices "$disturbed")"
printf '"undisturbed_seconds":%s,"undisturbed_accuracy":%s,"accuracy":%s,"steps":%s}\n' \
  "$(field train_seconds "$undisturbed")" "$(field test_accuracy "$undisturbed")" \
  "$(field test_accuracy "$disturbed")" "$(field steps "$disturbed")"
((killed[worker] + killed[ps] + killed[coordinator] >= 18 && killed[worker] >= 6 && killed[ps] >= 6 && killed[coordinator] >= 6)) ||
  { echo "error: fewer kills than asked for: the job ended first; give it more epochs" >&2; exit 1; }
((in_checkpoint >= 2 && in_recovery >= 1)) ||
  { echo "error: no two kills met a checkpoint, or none met a recovery: run it again, on a less busy machine" >&2; exit 1; }
awk -v a="$(field test_accuracy "$undisturbed")" -v b="$(field test_accuracy "$disturbed")" \
  'BEGIN { exit !(a - b <= 0.005) }' || { echo "error: the kills cost more than half a point of accuracy" >&2; exit 1; }
