#!/usr/bin/env bash
# `make test`: set-up, build, every unit test, then the end-to-end tests against the real models and the official clients.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/packages.sh"
"$ROOT/scripts/fetch.sh" llama
"$ROOT/scripts/fetch.sh" models
"$ROOT/scripts/build.sh"
"$ROOT/scripts/self-test.sh"

status=0
say "unit tests"
ctest --test-dir "$BUILD/release" --output-on-failure --parallel 2 || status=1

say "end-to-end tests"
if [ ! -d "$ROOT/tests/e2e/node/node_modules/openai" ]; then
  quietly "$CACHE/logs/npm.log" npm ci --prefix "$ROOT/tests/e2e/node" --no-audit --no-fund
fi
GEZEL_BIN="$BUILD/release/bin" "$("$ROOT/scripts/python.sh")/bin/python" -m pytest "$ROOT/tests/e2e" -q -p no:cacheprovider || status=1
exit $status
