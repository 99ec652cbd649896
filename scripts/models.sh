#!/usr/bin/env bash
# Puts the two test models into the model store of GEZEL_HOME, by the project's own import command.
#   models.sh [starter|all]
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
which="${1:-starter}"
gezel="$BUILD/release/bin/gezel"
home="${GEZEL_HOME:-$HOME/.gezel}"

# install ID NAME FILE
install_model() {
  [ -f "$home/engines/llama-cpp/models/$1/manifest.json" ] && return 0
  "$ROOT/scripts/fetch.sh" "$([ "$which" = all ] && echo models || echo starter)"
  say "installing $2"
  # A hard link costs no disk; across file systems it is a copy.
  "$gezel" import "$CACHE/models/$3" --id "$1" --name "$2" --mode link >/dev/null 2>&1 ||
    "$gezel" import "$CACHE/models/$3" --id "$1" --name "$2" --mode copy >/dev/null
}
install_model smollm2-135m-instruct "SmolLM2 135M Instruct" SmolLM2-135M-Instruct.Q4_1.gguf
[ "$which" = all ] && install_model gemma3-270m "Gemma 3 270M" gemma-3-270m-q4_k_m.gguf
exit 0
