#!/usr/bin/env bash
# Installs what `cohort_bench collective` compares with, Gloo and Open MPI, from the distribution's packages, and builds
# their ranks beside the bench. Without them the bench says so and prints our side alone.
# Usage: tests/bench/peers/install_collectives.sh     (as root; then: build/release/bin/cohort_bench collective)
set -euo pipefail
cd "$(dirname "$0")/../../.."

apt-get update -q
apt-get install -q -y --no-install-recommends libgloo-dev libopenmpi-dev openmpi-bin
cmake --preset release
cmake --build build/release --target cohort_bench
