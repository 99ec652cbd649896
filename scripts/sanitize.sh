#!/usr/bin/env bash
# Every unit test under AddressSanitizer with UndefinedBehaviorSanitizer, then under ThreadSanitizer.
#   sanitize.sh [address|thread]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
status=0
for variant in ${1:-address thread}; do
  "$ROOT/scripts/build.sh" --variant "$variant"
  say "tests under the $variant sanitizer"
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
  TSAN_OPTIONS="suppressions=$ROOT/scripts/tsan.supp" \
    ctest --test-dir "$BUILD/$variant" --output-on-failure --parallel 2 || status=1
done
exit $status
