#!/usr/bin/env bash
# usage: tests/check_skips.sh LOG
# Reads the log of ctest (Testing/Temporary/LastTest.log) and fails for every test that was skipped although this machine
# could have run it. A skip states its reason: GTEST_SKIP() << "needs a GPU", or a script prints "skipped: needs kubectl"
# and exits with 77. A reason that is not listed below counts as "could have run".
set -euo pipefail

# True where the reason holds on this machine.
reason_holds() {
  case "$1" in
    "needs a GPU"*) ! compgen -G "/dev/nvidia[0-9]*" >/dev/null ;;
    "needs "[0-9]*" GPUs"*) (($(compgen -G "/dev/nvidia[0-9]*" | wc -l) < $(tr -dc 0-9 <<<"$1"))) ;;
    "needs a build with NCCL"* | "needs a build with CUDA"*)
      local -a module
      read -ra module <<<"$1"
      grep -q "^COHORT_HAVE_${module[4]}:INTERNAL=OFF$" "$cache"
      ;;
    "needs root"*) [[ $(id -u) != 0 ]] ;;
    "needs network namespaces"*) ! unshare --net true 2>/dev/null ;;
    "needs a bridge between network namespaces"*)
      ! unshare --net sh -c "ip link add a type veth peer name b && ip link add c type bridge" 2>/dev/null
      ;;
    "needs a user other than root"*) [[ $(id -u) == 0 ]] ;;
    "needs TensorFlow"*) ! python3 -c "import tensorflow" 2>/dev/null ;;
    "needs onnxruntime"*) ! python3 -c "import onnxruntime" 2>/dev/null ;;
    "needs AVX-512"*) ! grep -qw avx512f /proc/cpuinfo ;;
    "needs AVX2"*) ! grep -qw avx2 /proc/cpuinfo ;;
    "needs IPv6"*) [[ ! -s /proc/net/if_inet6 ]] ;;
    "needs a build without sanitizers"*) ! grep -q "^COHORT_SANITIZE:STRING=$" "$cache" ;;
    "needs docker-compose"* | "needs kubectl"* | "needs podman"* | "needs runc"* | "needs python3"* | "needs clang-format-14"*)
      local -a words
      read -ra words <<<"$1"
      ! command -v "${words[1]}" >/dev/null
      ;;
    "COHORT_DATA_DIR is not set"* | "needs data"*) [[ -z ${COHORT_DATA_DIR:-} ]] ;;
    *) false ;;
  esac
}

log=$1
cache=$(dirname "$log")/../../CMakeCache.txt
unjustified=0
total=0
while IFS= read -r reason; do
  total=$((total + 1))
  if reason_holds "$reason"; then
    echo "skipped: $reason"
  else
    echo "error: skipped although this machine could run it: $reason" >&2
    unjustified=$((unjustified + 1))
  fi
done < <(awk '
  after_skip { print ($0 == "" ? "(no reason given)" : $0); after_skip = 0; next }
  /: Skipped$/ { after_skip = 1; next }
  /^skipped: / { sub(/^skipped: /, ""); print }' "$log")
echo "$total skipped, $unjustified of them without need"
((unjustified == 0))
