#!/usr/bin/env bash
# Unit tests under AddressSanitizer with UndefinedBehaviorSanitizer (all of them) and under ThreadSanitizer (those of the
# modules whose own code runs on several threads).
#   sanitize.sh [address|thread]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
threaded=(base scheduler worker engine replay engine_llama service http)
status=0
for variant in ${1:-address thread}; do
  targets=()
  filter=()
  # A thousand strings for each grammar, every vocabulary and a thousand interleavings of a real engine take minutes here
  # and run no code that others do not.
  left_out='-Gbnf/*:Grammar/EveryVocabulary*:GbnfAgreement*:*RandomInterleavingsGiveTheColdText*'
  if [ "$variant" = thread ]; then
    targets=("${threaded[@]/%/_test}")
    # ggml computes with threads of its own and is not instrumented, so what it synchronises looks like races.
    left_out+=':Sandbox.AModelLoadsAndDecodesInside:LoadProbe.*:*CacheEngine*:DraftStart*'
    filter=(-R "^($(IFS='|'; echo "${threaded[*]}"))$")
  fi
  "$ROOT/scripts/build.sh" --variant "$variant" "${targets[@]}"
  say "tests under the $variant sanitizer"
  GTEST_FILTER="*$left_out" ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    ctest --test-dir "$BUILD/$variant" --output-on-failure --parallel 2 "${filter[@]}" || status=1
done
exit $status
