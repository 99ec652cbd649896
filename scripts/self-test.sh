#!/usr/bin/env bash
# Runs the engine's self-test once per engine build and processor; silent when that was done before.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
engine="$BUILD/release/bin/gezel-engine"
key="$( { sha256sum <"$engine"; grep -m1 -E '^model name' /proc/cpuinfo; } | sha256sum | cut -c1-16)"
report="$CACHE/self-test/$key.json"
[ -f "$report" ] && exit 0
mkdir -p "$CACHE/self-test"
say "self-testing the engine on this processor"
if ! "$engine" --self-test >"$report.partial"; then
  cat "$report.partial" >&2
  say "some kernels fail on this machine; they will not be used (gezel doctor --deep shows them)"
fi
mv "$report.partial" "$report"
