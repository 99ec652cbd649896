#!/usr/bin/env bash
# Configures and builds the project; does nothing when nothing changed.
#   build.sh [--variant release|address|thread] [TARGET...]
# The address variant also has the undefined-behaviour sanitizer and the fuzz targets.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
variant=release
if [ "${1:-}" = --variant ]; then variant="$2"; shift 2; fi

llama=native
options=()
case "$variant" in
  release) ;;
  address) llama=sanitize; options+=(-DGEZEL_SANITIZE=address -DGEZEL_FUZZERS=ON) ;;
  thread)  llama=sanitize; options+=(-DGEZEL_SANITIZE=thread) ;;
  *) die "unknown variant '$variant' (release, address or thread)" ;;
esac
have "${GEZEL_CXX:-clang++-19}" || die "${GEZEL_CXX:-clang++-19} is missing; run: scripts/packages.sh"

dir="$BUILD/$variant"
mkdir -p "$dir"
prefix="$("$ROOT/scripts/llama.sh" "$llama")"
bridge="$("$ROOT/scripts/bridge.sh")"

exec 8>"$dir/.build-lock"
flock 8
stamp="$prefix $bridge ${GEZEL_CXX:-clang++-19} ${options[*]:-}"
if [ ! -f "$dir/build.ninja" ] || [ "$(cat "$dir/.configured" 2>/dev/null)" != "$stamp" ]; then
  say "configuring ($variant)"
  # From scratch, because a folder remembers its compiler.
  quietly "$dir/configure.log" cmake --fresh -S "$ROOT" -B "$dir" -G Ninja \
    -DCMAKE_C_COMPILER="${GEZEL_CC:-clang-19}" -DCMAKE_CXX_COMPILER="${GEZEL_CXX:-clang++-19}" \
    -DGEZEL_LLAMA_PREFIX="$prefix" -DGEZEL_BRIDGE_LIBRARY="$bridge" "${options[@]}"
  echo "$stamp" >"$dir/.configured"
fi
# Progress is shown on a terminal; elsewhere only what went wrong.
if [ -t 2 ]; then
  ninja -C "$dir" "$@" >&2
else
  ninja -C "$dir" "$@" >"$dir/build.log" 2>&1 || { grep -vE '^\[[0-9]+/[0-9]+\] (Building|Linking|Re-checking)' "$dir/build.log" | tail -n 80 >&2; exit 1; }
fi
