#!/usr/bin/env bash
# usage: deploy/container/stage.sh BIN_DIR OUT
# Lays out one file tree per image under OUT/{coordinator,ps,worker}: the program, the shared libraries that it loads and
# the base system has not, the entry point. The C library stays the base image's: it must match the loader there.
set -euo pipefail
cd "$(dirname "$0")/../.."
bin_dir=$1
out=$2

for program in coordinator ps worker; do
  root=$out/$program/opt/cohort
  mkdir -p "$root/bin" "$root/lib" "$out/$program/etc/ld.so.conf.d"
  cp "$bin_dir/$program" "$root/bin/"
  strip "$root/bin/$program"
  cp deploy/container/entrypoint.sh deploy/container/tf_config.sh "$root/bin/"
  ldd "$bin_dir/$program" >"$out/$program.ldd"
  if grep -q "not found" "$out/$program.ldd"; then
    grep "not found" "$out/$program.ldd" >&2
    exit 1
  fi
  awk '$2 == "=>" { print $3 }' "$out/$program.ldd" | while read -r library; do
    case ${library##*/} in
      libc.so.* | libm.so.* | libdl.so.* | libpthread.so.* | librt.so.* | libresolv.so.*) ;;
      *) cp -L "$library" "$root/lib/" ;;
    esac
  done
  echo /opt/cohort/lib >"$out/$program/etc/ld.so.conf.d/cohort.conf"
  rm "$out/$program.ldd"
done
cp -r deploy/jobs "$out/coordinator/opt/cohort/"
