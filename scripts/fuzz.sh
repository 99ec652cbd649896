#!/usr/bin/env bash
# A short run of every fuzz target; a crash leaves its input beside the log.
#   fuzz.sh [SECONDS per target, default 20]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds="${1:-20}"
"$ROOT/scripts/build.sh" --variant address
status=0
while read -r target; do
  name="$(basename "$target")"
  corpus="$CACHE/fuzz/$name"
  mkdir -p "$corpus" "$BUILD/address/artifacts"
  seeds=()
  [ -d "$ROOT/testdata/fuzz/$name" ] && seeds+=("$ROOT/testdata/fuzz/$name")
  say "fuzzing $name for $seconds s"
  if ! "$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 \
      -artifact_prefix="$BUILD/address/artifacts/$name-" "$corpus" "${seeds[@]}" >"$BUILD/address/$name.log" 2>&1; then
    tail -n 40 "$BUILD/address/$name.log" >&2
    status=1
  fi
done < <(find "$BUILD/address/src" -maxdepth 1 -type f -executable -name '*_fuzz' | LC_ALL=C sort)
exit $status
