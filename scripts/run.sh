#!/usr/bin/env bash
# `make run`: from a clone to a streamed answer, with the service left running.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
prompt="${PROMPT:-Explain in two sentences what a hash table is.}"
model=llama-cpp:smollm2-135m-instruct
gezel="$BUILD/release/bin/gezel"
home="${GEZEL_HOME:-$HOME/.gezel}"

# Once per engine build and processor. The result is kept where the daemon looks for it: what fails is not used.
self_test() {
  local record="$home/engines/embedded/self-test.json"
  [ "$record" -nt "$gezel-engine" ] && return 0
  say "self-testing the engine on this processor"
  "$gezel" doctor --deep >"$BUILD/doctor.txt" 2>&1 || { cat "$BUILD/doctor.txt" >&2; say "see above; what fails is not used"; }
}

"$ROOT/scripts/packages.sh"
"$ROOT/scripts/build.sh" gezel gezel-engine
self_test
# A daemon that was started before the last build runs old code; the new one takes its place.
if [ -f "$home/runtime/port" ] && [ "$gezel" -nt "$home/runtime/port" -o "$gezel-engine" -nt "$home/runtime/port" ]; then
  "$gezel" stop --force >/dev/null 2>&1 || true
fi
"$ROOT/scripts/models.sh" starter

say "asking: $prompt"
"$gezel" run "$model" "$prompt" --max-tokens 200
port="$(cat "$home/runtime/port")"
key="$("$gezel" key)"
cat <<EOT

The service runs on http://127.0.0.1:$port and speaks the OpenAI API.
  base URL  http://127.0.0.1:$port/v1
  API key   $key
  model     $model

Try:
  $gezel chat $model
  curl http://127.0.0.1:$port/v1/models -H "Authorization: Bearer $key"
  curl http://127.0.0.1:$port/v1/chat/completions -H "Authorization: Bearer $key" \\
    -d '{"model":"$model","stream":true,"messages":[{"role":"user","content":"Hello!"}]}'

Stop it with: make stop
EOT
