#!/bin/sh
# Starts this image's program with the arguments given. TF_CONFIG is taken as it is; without it, it is made from the host
# name (tf_config.sh).
set -eu
if [ -z "${TF_CONFIG:-}" ]; then
  TF_CONFIG=$(/opt/cohort/bin/tf_config.sh)
  export TF_CONFIG
fi
exec "/opt/cohort/bin/$COHORT_PROGRAM" "$@"
