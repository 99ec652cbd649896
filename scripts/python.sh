#!/usr/bin/env bash
# A Python environment in the cache with the pinned packages of scripts/requirements.txt; prints its folder on stdout.
# Used to fetch the pinned sources, to render templates with the reference renderer and to run the end-to-end tests.
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
requirements="$ROOT/scripts/requirements.txt"
python="${GEZEL_PYTHON:-python3}"
key="$( { "$python" -VV; cat "$requirements"; } | sha256sum | cut -c1-16)"
venv="$CACHE/python-$key"
[ -f "$venv/.complete" ] || lock_cache
if [ ! -f "$venv/.complete" ]; then
  say "creating the Python environment for set-up and tests"
  rm -rf "$venv"
  quietly "$CACHE/logs/venv.log" "$python" -m venv "$venv"
  quietly "$CACHE/logs/python.log" "$venv/bin/python" -m pip install --disable-pip-version-check --require-hashes -r "$requirements"
  touch "$venv/.complete"
fi
echo "$venv"
