#!/usr/bin/env bash
# usage: deploy/install_dependencies.sh [--tests] [--lint]
# Installs the Debian 12 packages that Cohort builds with; with --tests also those that only its tests need, and with --lint
# clang, for the preset clang-safety, and clang-tidy, for tests/clang_tidy.sh. Needs root (or sudo) only when one is missing.
set -euo pipefail

packages=(
  build-essential g++ cmake ninja-build ccache mold pkg-config ca-certificates curl
  libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libabsl-dev libspdlog-dev libfmt-dev libcli11-dev nlohmann-json3-dev
  libonnx-dev libleveldb-dev libsnappy-dev libdnnl-dev zlib1g-dev libzip-dev libfarmhash-dev
  libjpeg62-turbo-dev libpng-dev
  libgtest-dev libgmock-dev libbenchmark-dev iproute2
)
for option in "$@"; do
  case $option in
    --tests) packages+=(clang-format-14) ;;
    --lint) packages+=(clang-14 clang-format-14 clang-tidy-14) ;;
    *)
      echo "error: unknown option $option; use --tests, --lint or both" >&2
      exit 2
      ;;
  esac
done

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ "$status" == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  exit 0
fi

as_root=()
if [[ $(id -u) != 0 ]]; then
  command -v sudo >/dev/null || {
    echo "error: missing packages: ${missing[*]}; run as root: apt-get install ${missing[*]}" >&2
    exit 1
  }
  as_root=(sudo)
fi
echo "installing: ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq >&2
"${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
