#!/bin/sh
# Prints the TF_CONFIG of a task whose place follows from its host name, as a StatefulSet names its pods: cohort-ps-1 is
# ps 1, at cohort-ps-1.cohort-ps:2222.
#
#   COHORT_ROLE            ps, worker or chief (the coordinator); the images set it
#   COHORT_PS_SERVICE      headless Service (and StatefulSet) of the ps; default cohort-ps
#   COHORT_WORKER_SERVICE  the same of the workers; default cohort-worker
#   COHORT_PS_COUNT, COHORT_WORKER_COUNT  how many there are; required. Without ps (0) the workers train together, and the
#                          coordinator is no task of the cluster
#   COHORT_PORT            which port they serve on; default 2222
#   COHORT_HOSTNAME        default: the host's name
set -eu

fail() {
  echo "error: $1" >&2
  exit 2
}

count() { # variable value: a number above 0
  case $2 in
    '' | *[!0-9]* | 0*) fail "$1 is '$2'; set it to the number of tasks, at least 1" ;;
  esac
}

port=${COHORT_PORT:-2222}
ps_count=${COHORT_PS_COUNT:-}
worker_count=${COHORT_WORKER_COUNT:-}
[ "$ps_count" = 0 ] && [ "${COHORT_ROLE:-}" != ps ] || count COHORT_PS_COUNT "$ps_count"
count COHORT_WORKER_COUNT "$worker_count"

addresses() { # service count
  i=0
  while [ "$i" -lt "$2" ]; do
    [ "$i" -eq 0 ] || printf ', '
    printf '"%s-%d.%s:%s"' "$1" "$i" "$1" "$port"
    i=$((i + 1))
  done
}

index=0
limit=1
case ${COHORT_ROLE:-} in
  ps) limit=$ps_count ;;
  worker) limit=$worker_count ;;
  chief) ;;
  *) fail "COHORT_ROLE is '${COHORT_ROLE:-}'; set it to ps, worker or chief" ;;
esac
if [ "$COHORT_ROLE" != chief ]; then
  host=${COHORT_HOSTNAME:-$(cat /proc/sys/kernel/hostname)}
  index=${host##*-}
  case $index in
    '' | *[!0-9]* | 0?*) fail "host name '$host' does not end with '-' and a task index" ;;
  esac
  [ "$index" -lt "$limit" ] ||
    fail "host name '$host' is beyond the $limit $COHORT_ROLE tasks; raise COHORT_PS_COUNT or COHORT_WORKER_COUNT"
fi

workers() {
  printf '"worker": ['
  addresses "${COHORT_WORKER_SERVICE:-cohort-worker}" "$worker_count"
  printf ']}'
}

task() { printf ', "task": {"type": "%s", "index": %s}' "$COHORT_ROLE" "$index"; }

if [ "$ps_count" = 0 ]; then
  printf '{"cluster": {'
  workers
  [ "$COHORT_ROLE" = chief ] || task
  printf '}\n'
  exit 0
fi

# Nobody connects to the coordinator, so its address is only a name.
printf '{"cluster": {"chief": ["cohort-coordinator:%s"], "ps": [' "$port"
addresses "${COHORT_PS_SERVICE:-cohort-ps}" "$ps_count"
printf '], '
workers
task
printf '}\n'
