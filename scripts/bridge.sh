#!/usr/bin/env bash
# Builds the Rust bridge (bridge/) into the cache and prints the static library's path on stdout.
# Keyed by the bridge's sources and the compiler, so an unchanged bridge is built once per machine.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

cargo="$(find_cargo)" || die "Rust 1.$RUST_MINOR or newer is missing; run: scripts/packages.sh"

key="$( { "$cargo" --version; cd "$ROOT/bridge" && find . -path ./target -prune -o -type f \( -name '*.rs' -o -name 'Cargo.*' \) -print | LC_ALL=C sort | xargs sha256sum; } | sha256sum | cut -c1-16)"
prefix="$CACHE/bridge-$key"
library="$prefix/libgezel_bridge.a"
header="$prefix/llguidance.h"
if [ -f "$library" ] && [ -f "$header" ]; then echo "$library"; exit 0; fi

lock_cache
if [ -f "$library" ] && [ -f "$header" ]; then echo "$library"; exit 0; fi
say "building the Rust bridge: about a minute on two cores"
# The target folder is shared by all versions of the bridge: only what changed is compiled again.
quietly "$CACHE/logs/bridge.log" env CARGO_TARGET_DIR="$CACHE/work/bridge-target" \
  "$cargo" build --manifest-path "$ROOT/bridge/Cargo.toml" --release --locked
mkdir -p "$prefix"
# The header of llguidance's C API comes out of the very sources that were compiled.
host="$("$cargo" -vV | awk '$1 == "host:" {print $2}')"
"$cargo" metadata --manifest-path "$ROOT/bridge/Cargo.toml" --locked --format-version 1 --filter-platform "$host" |
  python3 -c 'import json, os, shutil, sys
manifest = next(p["manifest_path"] for p in json.load(sys.stdin)["packages"] if p["name"] == "llguidance")
shutil.copyfile(os.path.join(os.path.dirname(manifest), "llguidance.h"), sys.argv[1])' "$header.partial"
mv "$header.partial" "$header"
cp "$CACHE/work/bridge-target/release/libgezel_bridge.a" "$library.partial"
mv "$library.partial" "$library"
echo "$library"
