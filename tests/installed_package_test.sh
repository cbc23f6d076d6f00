#!/usr/bin/env bash
# usage: tests/installed_package_test.sh BUILD
# Installs the build into an empty folder, builds docs/examples in another one with find_package(cohort), as a user would, and
# runs each: with the daemons that were installed, found by their names in PATH.
set -euo pipefail
source=$(cd "$(dirname "$0")/.." && pwd)
build=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cmake --install "$build" --prefix "$work/prefix" >"$work/install.log"
# Only what cohort.h reaches is installed.
[[ ! -e $work/prefix/include/cohort/coordinator/schedule/scheduler.h ]] || { echo "the scheduler's header is installed"; exit 1; }
cp -r "$source/docs/examples" "$work/examples"
cmake -S "$work/examples" -B "$work/build" -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG=-O0 \
  -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/configure.log"
cmake --build "$work/build" --parallel 2 >"$work/build.log" 2>&1 || { tail -40 "$work/build.log"; exit 1; }

export PATH=$work/prefix/bin:$PATH
unset TF_CONFIG
failed=0
# Runs an example and looks for a line in its output.
expect() {
  local example=$1 line=$2
  if ! "$work/build/$example" "$work/run-$example" >"$work/$example.out" 2>"$work/$example.err" ||
    ! grep -qF -- "$line" "$work/$example.out"; then
    echo "$example: no line '$line' in its output:"
    cat "$work/$example.out" "$work/$example.err"
    failed=1
  fi
}
expect custom_loop "w0 2.000 w1 -3.000"
expect embedding_table "key 1099511627776 rating 3.00"
expect mirrored_step "w 4.500, the batch's mean on each replica: 4.500 4.500 4.500 4.500"
expect evaluation "epoch 10: squared error of 5 examples 0.0000"

# Killed in the middle, and started again.
mkfifo "$work/said"
"$work/build/resume" "$work/run-resume" >"$work/said" 2>"$work/resume.err" &
pid=$!
while read -r line; do
  [[ $line == "at 5000" ]] || continue
  # Behind a first recovery checkpoint, or the next start has nothing to go on from.
  while kill -0 "$pid" 2>/dev/null && ! ls "$work"/run-resume/recovery/*.index >/dev/null 2>&1; do sleep 0.02; done
  kill -9 "$pid" || true
done <"$work/said"
wait "$pid" 2>/dev/null || true
expect resume "counter 20000"
grep -q "^begin at 1$" "$work/resume.out" && { echo "resume: began anew after the kill"; failed=1; }

"$work/prefix/bin/cohort-coordinator" --version | grep -q "0.2.0" || { echo "the version is not 0.2.0"; failed=1; }
exit "$failed"
