#!/usr/bin/env bash
# `make test`: set-up, build, every unit test, then the end-to-end tests against the real models and the official clients.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"

"$ROOT/scripts/packages.sh" test
"$ROOT/scripts/fetch.sh" llama
"$ROOT/scripts/fetch.sh" models
"$ROOT/scripts/fetch.sh" suite
"$ROOT/scripts/build.sh"
"$BUILD/release/bin/gezel-engine" --self-test >"$BUILD/self-test.json" || die "the engine computes wrong on this machine; see $BUILD/self-test.json"

status=0
say "unit tests"
ctest --test-dir "$BUILD/release" --output-on-failure --parallel 2 || status=1

say "bridge tests"
# In the target folder of the library's own build: only the tests themselves are compiled.
if (quietly "$CACHE/logs/bridge-test.log" env CARGO_TARGET_DIR="$CACHE/work/bridge-target" \
    "$(find_cargo)" test --manifest-path "$ROOT/bridge/Cargo.toml" --release --locked --lib); then
  say "bridge tests: $(awk '/^test result:/ {passed += $4} END {print passed + 0}' "$CACHE/logs/bridge-test.log") passed"
else
  status=1
fi

say "end-to-end tests"
if [ ! -f "$ROOT/tests/e2e/node/node_modules/.package-lock.json" ]; then  # written last
  quietly "$CACHE/logs/npm.log" npm ci --prefix "$ROOT/tests/e2e/node" --no-audit --no-fund
fi
venv="$("$ROOT/scripts/python.sh")"
GEZEL_BIN="$BUILD/release/bin" "$venv/bin/python" -m pytest "$ROOT/tests/e2e" -q -p no:cacheprovider || status=1
exit $status
