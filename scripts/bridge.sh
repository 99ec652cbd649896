#!/usr/bin/env bash
# Builds the Rust bridge (bridge/) into the cache and prints the static library's path on stdout.
# Keyed by the bridge's sources and the compiler, so an unchanged bridge is built once per machine.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

# Debian 12's own rustc is too old; its rustc-web and cargo-web are not. A newer Rust that is already there wins.
for candidate in cargo cargo-web; do
  if have "$candidate" && "$candidate" --version | awk '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= 87)}'; then
    cargo="$candidate"; break
  fi
done
[ -n "${cargo:-}" ] || die "Rust 1.87 or newer is missing; run: scripts/packages.sh"

key="$( { "$cargo" --version; cd "$ROOT/bridge" && find . -path ./target -prune -o -type f \( -name '*.rs' -o -name 'Cargo.*' \) -print | LC_ALL=C sort | xargs sha256sum; } | sha256sum | cut -c1-16)"
prefix="$CACHE/bridge-$key"
library="$prefix/libgezel_bridge.a"
if [ -f "$library" ]; then echo "$library"; exit 0; fi

lock_cache
if [ -f "$library" ]; then echo "$library"; exit 0; fi
say "building the Rust bridge: about a minute on two cores"
# The target folder is shared by all versions of the bridge: only what changed is compiled again.
quietly "$CACHE/logs/bridge.log" env CARGO_TARGET_DIR="$CACHE/work/bridge-target" \
  "$cargo" build --manifest-path "$ROOT/bridge/Cargo.toml" --release --locked
mkdir -p "$prefix"
cp "$CACHE/work/bridge-target/release/libgezel_bridge.a" "$library.partial"
mv "$library.partial" "$library"
echo "$library"
