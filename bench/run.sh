#!/usr/bin/env bash
# `make bench`: our figures beside those of llama-bench and llama-server of the same libllama, in one run, with ratios.
#   bench/run.sh [SCENARIO...] [--rounds N]   default: every scenario; --help says what each does
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
for word in "$@"; do
  case "$word" in -h|--help) exec python3 "$ROOT/bench/bench.py" --help ;; esac
done
"$ROOT/scripts/build.sh" gezel gezel-engine gguf_bench
"$ROOT/scripts/fetch.sh" models
peers="$("$ROOT/scripts/llama.sh" peers)"
venv="$("$ROOT/scripts/python.sh")"
exec "$venv/bin/python" "$ROOT/bench/bench.py" \
  --gezel "$BUILD/release/bin/gezel" --peers "$peers/bin" --models "$CACHE/models" \
  --header-bench "$BUILD/release/src/gguf_bench" --vocabulary "$LLAMA_SOURCE/vendor/llama.cpp/models/ggml-vocab-qwen2.gguf" "$@"
