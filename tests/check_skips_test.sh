#!/usr/bin/env bash
# Shows that check_skips.sh accepts a reason that holds and refuses one that does not.
set -euo pipefail
here=$(dirname "$0")
scratch=$(mktemp -d)
trap 'rm -r "$scratch"' EXIT

gtest_skip() { printf '[ RUN      ] A.B\nfile.cc:12: Skipped\n%s\n\n[  SKIPPED ] A.B (0 ms)\n' "$1"; }
expect() { # expect accepted|refused WHAT
  local got=refused
  if "$here/check_skips.sh" "$scratch/log" >/dev/null 2>&1; then got=accepted; fi
  [[ $got == "$1" ]] || { echo "$2: $got, not $1"; exit 1; }
}

echo "100% tests passed" >"$scratch/log"
expect accepted "a log without skips"
gtest_skip "because" >"$scratch/log"
expect refused "an unknown reason"
gtest_skip "" >"$scratch/log"
expect refused "no reason"
gtest_skip "needs data mnist" >"$scratch/log"
COHORT_DATA_DIR=x expect refused "data that is there"
COHORT_DATA_DIR="" expect accepted "data that is not there"
gtest_skip "needs kubectl" >"$scratch/log"
if command -v kubectl >/dev/null; then expect refused kubectl; else expect accepted kubectl; fi
echo "skipped: because" >"$scratch/log"
expect refused "a script's unknown reason"
{ gtest_skip "needs data a"; gtest_skip "because"; } >"$scratch/log"
COHORT_DATA_DIR="" expect refused "one good and one bad reason"
gtest_skip "needs 4096 GPUs" >"$scratch/log"
expect accepted "more GPUs than there are"
gtest_skip "needs 0 GPUs" >"$scratch/log"
expect refused "GPUs that are there"
mkdir -p "$scratch/build/Testing/Temporary"
for module in NCCL CUDA; do
  gtest_skip "needs a build with $module" >"$scratch/build/Testing/Temporary/log"
  for built in ON OFF; do
    printf 'COHORT_HAVE_%s:INTERNAL=%s\n' "$module" "$built" >"$scratch/build/CMakeCache.txt"
    got=refused
    if "$here/check_skips.sh" "$scratch/build/Testing/Temporary/log" >/dev/null 2>&1; then got=accepted; fi
    [[ $got == "$([[ $built == ON ]] && echo refused || echo accepted)" ]] || { echo "$module $built: $got"; exit 1; }
  done
done
