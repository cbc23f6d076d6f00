#!/usr/bin/env bash
# Fails for every C++ and CUDA source that clang-format 14 would write otherwise. To mend one: clang-format-14 -i FILE.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v clang-format-14 >/dev/null || {
  echo "skipped: needs clang-format-14"
  exit 77
}
find common coordinator ps_server worker tests docs -name build -prune -o -type f \
  \( -name "*.h" -o -name "*.cc" -o -name "*.cu" -o -name "*.cuh" \) -print0 |
  xargs -0 clang-format-14 --dry-run -Werror
