#!/usr/bin/env bash
# A short run of every fuzz target; a crash leaves its input beside the log.
#   fuzz.sh [SECONDS per target, default 20]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
seconds="${1:-20}"
"$ROOT/scripts/build.sh" --variant address
# fuzz TARGET: one short run; its log's end is shown when it fails.
fuzz() {
  local target="$1" name; name="$(basename "$target")"
  local corpus="$CACHE/fuzz/$name" seeds=()
  mkdir -p "$corpus" "$BUILD/address/artifacts"
  [ -d "$ROOT/testdata/fuzz/$name" ] && seeds+=("$ROOT/testdata/fuzz/$name")
  say "fuzzing $name for $seconds s"
  "$target" -max_total_time="$seconds" -max_len=65536 -timeout=10 -rss_limit_mb=4096 -print_final_stats=0 \
    -artifact_prefix="$BUILD/address/artifacts/$name-" "$corpus" "${seeds[@]}" >"$BUILD/address/$name.log" 2>&1 && return
  tail -n 40 "$BUILD/address/$name.log" >&2
  return 1
}

status=0
# Two at a time: each is one thread.
while read -r target; do
  while [ "$(jobs -rp | wc -l)" -ge 2 ]; do wait -n || status=1; done
  fuzz "$target" &
done < <(find "$BUILD/address/src" -maxdepth 1 -type f -executable -name '*_fuzz' | LC_ALL=C sort)
while [ "$(jobs -p | wc -l)" -gt 0 ]; do wait -n || status=1; done
exit $status
