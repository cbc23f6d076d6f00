#!/usr/bin/env bash
# usage: tests/clang_tidy.sh [FILE...]
# Runs clang-tidy 14 with .clang-tidy over the named C++ sources; without names, over those that differ from the branch main.
# A header is seen through the source of its name, or through the first one that includes it. Fails for any finding. About
# 20 s a source. deploy/install_dependencies.sh --lint installs what it needs.
set -euo pipefail
cd "$(dirname "$0")/.."

for tool in clang++-14 clang-tidy-14; do
  command -v "$tool" >/dev/null || {
    echo "error: $tool is missing; deploy/install_dependencies.sh --lint installs it" >&2
    exit 1
  }
done

named=("$@")
if ((${#named[@]} == 0)); then
  base=HEAD
  for branch in origin/main main; do
    if git rev-parse -q --verify "$branch" >/dev/null; then
      base=$(git merge-base HEAD "$branch")
      break
    fi
  done
  mapfile -t named < <(
    git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cc'
    git ls-files --others --exclude-standard -- '*.h' '*.cc'
  )
fi

sources=()
for file in "${named[@]}"; do
  [[ -f $file ]] || {
    echo "error: there is no file $file" >&2
    exit 1
  }
  source=$file
  if [[ $file == *.h ]]; then
    source=${file%.h}.cc
    [[ -f $source ]] || source=$(git grep -lF "#include \"$file\"" -- '*.cc' | head -n 1 || true)
  fi
  [[ -n $source ]] || {
    echo "note: no source includes $file" >&2
    continue
  }
  sources+=("$source")
done
if ((${#sources[@]} == 0)); then
  echo "nothing to look at"
  exit 0
fi

# clang-tidy reads the compiler's options from the preset's build folder, and the headers that protoc makes.
build=build/clang-safety
cmake --preset clang-safety >/dev/null
generated=(proto/*.proto)
cmake --build --preset clang-safety --target "${generated[@]/%.proto/.pb.h}" >/dev/null

printf '%s\n' "${sources[@]}" | sort -u | xargs -P "$(nproc)" -n 1 clang-tidy-14 --quiet -p "$build"
