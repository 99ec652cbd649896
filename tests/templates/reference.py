#!/usr/bin/env python3
"""Renders chat templates with Python's jinja2, the reference for our renderer.

Reads JSON lines {"template": TEXT, "context": JSON TEXT} from standard input and writes one JSON line each to standard
output: {"text": RESULT} or {"error": MESSAGE}. The environment is the one that the field's Python tools use for chat
templates: sandboxed, trim_blocks, lstrip_blocks, loop controls, tojson without HTML escaping. The clock is injected:
--now SECONDS, taken as local time without a zone.
"""

import argparse
import json
import re
import sys
from datetime import datetime, timedelta

from jinja2.exceptions import TemplateError
from jinja2.ext import loopcontrols
from jinja2.sandbox import SandboxedEnvironment

# `generation` marks are for training. A block that always renders has the same white-space rules as the mark.
GENERATION = re.compile(r"\{%([-+]?)\s*(end)?generation\s*([-+]?)%\}")


def without_generation(source):
    return GENERATION.sub(lambda m: "{%%%s %s %s%%}" % (m[1], "endif" if m[2] else "if true", m[3]), source)


def environment(now):
    def raise_exception(message):
        raise TemplateError(message)

    def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
        return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)

    env = SandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = now.strftime
    return env


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--now", type=int, required=True)
    now = datetime(1970, 1, 1) + timedelta(seconds=parser.parse_args().now)
    env = environment(now)
    compiled = {}
    for line in sys.stdin:
        case = json.loads(line)
        try:
            source = case["template"]
            if source not in compiled:
                compiled[source] = env.from_string(without_generation(source))
            answer = {"text": compiled[source].render(**json.loads(case["context"]))}
        except Exception as error:  # noqa: BLE001: whatever it is, the reference refuses this case
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=False)


if __name__ == "__main__":
    main()
