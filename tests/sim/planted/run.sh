#!/usr/bin/env bash
# Plants bugs into a copy of the sources, one at a time, and asks whether the seeds find them. Each
# NAME.patch beside this file is one bug in production code; its first line says what is wrong.
#   run.sh [--seeds N] [NAME ...]   one row of a table for each; fails when one is not found
#   run.sh --check [NAME ...]       only whether every patch still applies; nothing is built
# The copy lies in build/planted and is kept: the next run builds only what a patch touches. What is
# not committed is planted into as well.
set -euo pipefail

planted=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$planted/../../.." && pwd)
tree=$root/build/planted/tree
seeds=300
check=
seconds_max=150  # of one bug: a seed that never comes back ends the others
names=()
while [ $# -gt 0 ]; do
  case $1 in
    --seeds) seeds=$2; shift ;;
    --check) check=1 ;;
    *) names+=("$1") ;;
  esac
  shift
done
if [ ${#names[@]} -eq 0 ]; then
  for patch in "$planted"/*.patch; do names+=("$(basename "$patch" .patch)"); done
fi

if [ -n "$check" ]; then
  failed=0
  for name in "${names[@]}"; do
    (cd "$root" && patch -p1 -F0 -f -s --dry-run <"$planted/$name.patch") ||
      { echo "$name.patch does not apply: make it again"; failed=1; }
    head -1 "$planted/$name.patch" | grep -q '[a-z]\.$' ||
      { echo "$name.patch: the first line has to say what is wrong"; failed=1; }
  done
  exit $failed
fi

# Files that are as they were keep their times, so that they are not built again.
sync_tree() {
  mkdir -p "$tree"
  (cd "$root" && git ls-files -z --cached --others --exclude-standard) |
    while IFS= read -r -d '' file; do
      [ -f "$root/$file" ] || continue
      cmp -s "$root/$file" "$tree/$file" && continue
      mkdir -p "$tree/$(dirname "$file")"
      cp "$root/$file" "$tree/$file"
    done
}

build() {
  if [ ! -f "$tree/build/release/build.ninja" ]; then
    (cd "$tree" && cmake --preset release >"$tree/cmake.log")
  fi
  ninja -C "$tree/build/release" -j "${COHORT_JOBS:-2}" run_seeds >"$tree/build.log" 2>&1 ||
    { tail -30 "$tree/build.log"; return 1; }
}

# All seeds, also behind one that ends the process. A line for each that fails. Bugs of partitions,
# which are named so, are looked for where nothing else strikes.
run_seeds() {
  local from=1 output=$tree/seeds.log
  local -a how=()
  [[ $1 != part_* ]] || how=(--parts)
  local -r end=$(($(date +%s) + seconds_max))
  while [ "$from" -le "$seeds" ] && [ "$(date +%s)" -lt "$end" ]; do
    timeout "$seconds_max" "$tree/build/release/bin/run_seeds" --from "$from" \
      --count $((seeds - from + 1)) --keep-going --brief "${how[@]}" >"$output" 2>"$tree/stderr.log" ||
      { [ $? != 124 ] || touch "$tree/hung"; }
    local died said
    died=$(sed -n 's/^seed \([0-9]*\) failed: the process died.*/\1/p' "$output" | tail -1)
    said=$(grep -o 'check failed.*' "$tree/stderr.log" | tail -1 | tr -d '/&\\')
    grep '^seed [0-9]* failed: ' "$output" | sed "s/what it said is on stderr/$said/" || true
    [ -n "$died" ] || break
    from=$((died + 1))
    [ "$from" -gt "$seeds" ] || [ "$(date +%s)" -lt "$end" ] || echo "$died" >"$tree/late"
  done
}

sync_tree
build
echo "| Planted bug | First seed | Seeds of $seeds | What was violated first |"
echo "|---|---|---|---|"
missed=0
for name in "${names[@]}"; do
  (cd "$tree" && patch -p1 -F0 -f -s --no-backup-if-mismatch <"$planted/$name.patch")
  build  # a patch that does not build is an error, not a bug that was not found
  rm -f "$tree/hung" "$tree/late"
  found=$(run_seeds "$name")
  (cd "$tree" && patch -R -p1 -F0 -f -s --no-backup-if-mismatch <"$planted/$name.patch")
  first=$(head -1 <<<"$found")
  count=$(grep -c . <<<"$found" || true)
  [ ! -f "$tree/hung" ] || count="$count, then one hangs"
  [ ! -f "$tree/late" ] || count="$count of the first $(cat "$tree/late"), then time was up"
  if [ -z "$found" ]; then
    missed=1
    echo "| $name | none | 0 | |"
    continue
  fi
  seed=$(sed 's/seed \([0-9]*\) .*/\1/' <<<"$first")
  echo "| $name | $seed | $count | $(sed 's/^seed [0-9]* failed: //; s/|/ /g' <<<"$first" | cut -c1-200) |"
done
exit $missed
