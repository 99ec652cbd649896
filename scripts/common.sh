# Shared by every script: where things are cached, which versions are pinned, how progress is said.
# Sourced, never run. Needs bash.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
CACHE="${XDG_CACHE_HOME:-$HOME/.cache}/gezel-inference"
BUILD="${GEZEL_BUILD_DIR:-$ROOT/build}"

# One pin a line: what we fetch, and the digest it must have.
LLAMA_PACKAGE="llama-cpp-python"
LLAMA_VERSION="0.3.36"
LLAMA_SHA256="832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
LLAMA_SOURCE="$CACHE/src/llama-cpp-python-$LLAMA_VERSION"

say()  { printf '\033[1m==>\033[0m %s\n' "$*" >&2; }
die()  { printf 'error: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

# Debian 12's cargo is too old; that of its package cargo-web is not. A toolchain that is already there and new enough wins.
RUST_MINOR=87
# find_cargo: prints the cargo of the first toolchain that is new enough; false when there is none.
find_cargo() {
  local candidate
  # A toolchain of this user's own may not be on the PATH yet.
  for candidate in cargo "${CARGO_HOME:-$HOME/.cargo}/bin/cargo"; do
    have "$candidate" || continue
    "$candidate" --version | awk -v minor="$RUST_MINOR" '{split($2, v, "."); exit !(v[1] > 1 || v[2] >= minor)}' || continue
    echo "$candidate"
    return 0
  done
  return 1
}

# sha256_is FILE DIGEST: true when FILE exists and has that digest.
sha256_is() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }

# quietly LOG COMMAND...: runs a long command with its output in LOG; on failure shows the log's end.
quietly() {
  local log="$1"; shift
  mkdir -p "$(dirname "$log")"
  if ! "$@" >"$log" 2>&1; then
    tail -n 40 "$log" >&2
    die "'$1' failed; the whole output is in $log"
  fi
}

# Only one set-up may fill the shared cache at a time; a second clone waits and then finds the work done. Scripts that one
# with the lock calls belong to the same set-up.
lock_cache() {
  [ -z "${GEZEL_CACHE_LOCKED:-}" ] || return 0
  export GEZEL_CACHE_LOCKED=1
  mkdir -p "$CACHE"
  exec 9>"$CACHE/.lock"
  flock -n 9 || { say "another set-up is using the cache; waiting for it"; flock 9; }
}
