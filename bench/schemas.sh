#!/usr/bin/env bash
# Answers under the schemas of the public catalogue, judged by a validator of another make.
#   bench/schemas.sh [OPTION...]   the options of bench/schemas.py; default: 10,000 answers
# An interrupted run goes on where it ended; remove build/schemas.jsonl to begin again.
source "$(dirname "${BASH_SOURCE[0]}")/../scripts/common.sh"
"$ROOT/scripts/build.sh" gezel gezel-engine
"$ROOT/scripts/fetch.sh" models
catalogue="$("$ROOT/scripts/fetch.sh" schemas)"
venv="$("$ROOT/scripts/python.sh")"
exec "$venv/bin/python" "$ROOT/bench/schemas.py" --gezel "$BUILD/release/bin/gezel" --models "$CACHE/models" \
  --catalogue "$catalogue" --results "$BUILD/schemas.jsonl" "$@"
