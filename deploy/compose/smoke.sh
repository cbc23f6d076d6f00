#!/usr/bin/env bash
# Trains MNIST in containers: builds the three images, brings deploy/compose/parameter_server.yml up with podman, runc and
# docker-compose, runs the coordinator, checks its JSON summary, takes everything down. The summary is the last line of
# stdout; everything else goes to stderr.
#
# usage: deploy/compose/smoke.sh [--prebuilt BIN_DIR] [--set fit.epochs=1 ...]
#   --prebuilt BIN_DIR  put the programs of this Debian 12 machine (build/release/bin) into the images instead of
#                       compiling in a container
#   the rest            arguments of the coordinator; default --set fit.epochs=1
# COHORT_DATA_DIR: directory with mnist/*.gz. COHORT_BASE: a base image that podman can get; without it, one is made with
# debootstrap, once. COHORT_SMOKE_DIR: where base and image layers are kept between runs (default /var/tmp/cohort-smoke).
# Needs root and the Debian packages podman, runc, docker-compose, netavark, aardvark-dns, iptables and, for the base,
# debootstrap. Nothing of the host's own container storage is used.
set -euo pipefail
cd "$(dirname "$0")/../.."

fail() {
  echo "error: $1" >&2
  exit 1
}

prebuilt=
if [[ ${1:-} == --prebuilt ]]; then
  prebuilt=${2:?--prebuilt needs a directory}
  shift 2
fi
job_flags=("$@")
((${#job_flags[@]})) || job_flags=(--set fit.epochs=1)

[[ $(id -u) == 0 ]] || fail "needs root: run with sudo"
for program in podman runc docker-compose iptables; do
  command -v "$program" >/dev/null || fail "$program is missing: apt-get install $program"
done

state=${COHORT_SMOKE_DIR:-/var/tmp/cohort-smoke}
run=$(mktemp -d /tmp/cohort-smoke-XXXXXX)
mkdir -p "$state"

# Containers get lower limits than the engine's defaults, which a root without CAP_SYS_RESOURCE may not set.
cat >"$run/containers.conf" <<CONF
[containers]
default_ulimits = ["nofile=16384:16384", "nproc=8192:8192"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
tmp_dir = "$state/tmp"
CONF
cat >"$run/storage.conf" <<CONF
[storage]
driver = "overlay"
graphroot = "$state/storage"
runroot = "$state/run"
CONF
echo '{"default": [{"type": "insecureAcceptAnything"}]}' >"$run/policy.json"
export CONTAINERS_CONF=$run/containers.conf CONTAINERS_STORAGE_CONF=$run/storage.conf
export DOCKER_HOST=unix://$run/podman.sock COMPOSE_PROJECT_NAME=cohort_smoke COMPOSE_HTTP_TIMEOUT=300
export COHORT_TAG=smoke

compose() { docker-compose -f deploy/compose/parameter_server.yml "$@"; }

service_pid=
tear_down() {
  status=$?
  trap - EXIT
  if [[ -n $service_pid ]]; then
    if ((status != 0)); then compose logs --no-color --tail 20 >&2 || true; fi
    compose down --volumes --timeout 15 >&2 || true
    kill "$service_pid" 2>/dev/null || true
    wait "$service_pid" 2>/dev/null || true
  fi
  umount "$state/storage/overlay" 2>/dev/null || true
  rm -rf "$run" || true
  exit "$status"
}
trap tear_down EXIT

if [[ -z ${COHORT_BASE:-} ]]; then
  COHORT_BASE=localhost/cohort-base:bookworm
  if ! podman image exists "$COHORT_BASE"; then
    command -v debootstrap >/dev/null || fail "debootstrap is missing: apt-get install debootstrap, or set COHORT_BASE"
    echo "making the base image" >&2
    debootstrap --variant=minbase bookworm "$run/root" >&2
    tar -C "$run/root" -c . | podman import - "$COHORT_BASE" >&2
    rm -rf "$run/root"
  fi
fi
export COHORT_BASE

COHORT_STAGED=build
if [[ -n $prebuilt ]]; then
  COHORT_STAGED=localhost/cohort-staged:smoke
  deploy/container/stage.sh "$prebuilt" "$run/tree/staged"
  tar -C "$run/tree" -c . | podman import - "$COHORT_STAGED" >&2
fi
export COHORT_STAGED

for target in ps worker coordinator; do
  echo "building image cohort-$target" >&2
  podman build --isolation chroot --signature-policy "$run/policy.json" -f deploy/Dockerfile --target "$target" \
    --build-arg "BASE=$COHORT_BASE" --build-arg "STAGED=$COHORT_STAGED" -t "docker.io/library/cohort-$target:smoke" . >&2
done

podman system service --time=0 "$DOCKER_HOST" >"$run/service.log" 2>&1 &
service_pid=$!
for ((i = 0; i < 100; i++)); do
  [[ -S $run/podman.sock ]] && break
  sleep 0.1
done
[[ -S $run/podman.sock ]] || fail "podman's service did not start: $(cat "$run/service.log")"

compose up -d --no-build ps-0 ps-1 worker-0 worker-1 worker-2 >&2
echo "training: ${job_flags[*]}" >&2
compose run --rm -T --no-deps coordinator --job /opt/cohort/jobs/mnist_mlp.json \
  --set checkpoint.directory=/var/lib/cohort/checkpoints --set export.onnx=/var/lib/cohort/model.onnx \
  "${job_flags[@]}" >"$run/stdout"

summary=$(tail -n 1 "$run/stdout")
for field in data epochs steps train_seconds steps_per_second examples_per_second test_accuracy checkpoint model; do
  [[ $summary == \{*"\"$field\":"*\} ]] || fail "the summary has no '$field': $summary"
done
# The ps and the coordinator wrote one checkpoint on the volume that they share. The tasks end with the job, so a
# container of its own looks at it.
podman run --rm --network none --volume "${COMPOSE_PROJECT_NAME}_cohort-state:/state:ro" --entrypoint /bin/sh \
  docker.io/library/cohort-worker:smoke -c \
  'set -e; cd /state; test -s model.onnx; test -s checkpoints/checkpoint; ls checkpoints/*.index checkpoints/*.data-00001-of-00002' >&2
echo "$summary"
