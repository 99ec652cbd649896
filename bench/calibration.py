"""What calibration is to bring on the machine it runs on, and what it may not cost.

`first`: the time to the first token of the first request, the load included, where a model is not measured yet, beside one
with calibration switched off; at most 5 % more. `choice`: of what was measured of each model, the chosen setting beside the
best one at every depth; at most 10 % slower. `default`: the chosen setting beside the library's own (flash attention on) at a
depth of 2,048 tokens. Wants a quiet machine.
"""

import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys

from harness import MODELS, Stream, user
from memory import CACHE, ROOT, Home

LIBRARY_DEPTH = 2_048


def first_token(home, model, flag):
    """Of a daemon and a model that know nothing of their speeds."""
    shutil.rmtree(home.folder / "calibration", ignore_errors=True)
    server = home.serve("--ctx", 2048, *flag)
    try:
        return Stream(server, user("Name three rivers."), 8, model=model).done().first_token_ms
    finally:
        server.end()


def first(home, model, rounds):
    first_token(home, model, [])  # the self-test and the dry run are made once for all
    on, off = [], []
    for _ in range(rounds):
        off.append(first_token(home, model, ["--no-calibration"]))
        on.append(first_token(home, model, []))
    ratio = statistics.median(on) / statistics.median(off)
    print(f"first    {model:22} {statistics.median(on):8.0f} ms, without calibration {statistics.median(off):8.0f} ms: "
          f"{ratio:.3f} of it", flush=True)
    return ratio <= 1.05


def tuned(home, model):
    server = home.serve("--ctx", 8192)
    try:
        text = subprocess.run([home.options.gezel, "tune", model, "--json"], env=home.env, check=True, text=True,
                              capture_output=True).stdout
        return json.loads(text)["candidates"]
    finally:
        server.end()


def decode_times(candidate):
    """Milliseconds of one call by (streams, depth)."""
    return {(sample["tokens"], sample["depth"]): sample["ms"] for sample in candidate["samples"]
            if sample["kind"] == "decode"}


def choice(candidates, model):
    (chosen,) = [candidate for candidate in candidates if candidate["chosen"]]
    comparable = [decode_times(each) for each in candidates if each["kv_type"] == chosen["kv_type"]]
    good = True
    for point, ms in sorted(decode_times(chosen).items()):
        best = min(times[point] for times in comparable if point in times)
        good = good and ms <= 1.10 * best
        print(f"choice   {model:22} {point[0]} at {point[1]:5}: {ms:7.2f} ms, the best {best:7.2f} ms: {ms / best:.3f} of it",
              flush=True)
    attention = "on" if chosen["flash_attention"] else "off"
    print(f"choice   {model:22} flash attention {attention}, {chosen['threads']} threads", flush=True)
    return good


def default(candidates, model):
    times = {each["flash_attention"]: decode_times(each).get((1, LIBRARY_DEPTH)) for each in candidates
             if each["kv_type"] == "f16"}
    (chosen,) = [candidate for candidate in candidates if candidate["chosen"]]
    ours, library = decode_times(chosen).get((1, LIBRARY_DEPTH)), times.get(True)
    if ours and library:
        print(f"default  {model:22} {1000 / ours:6.1f} tok/s at {LIBRARY_DEPTH}, the library's default {1000 / library:6.1f}: "
              f"{library / ours:.2f} times as fast", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gezel", type=pathlib.Path, default=ROOT / "build/release/bin/gezel")
    parser.add_argument("--models", type=pathlib.Path, default=CACHE / "models", help="the folder with the test models")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    home = Home(options)
    missed = []
    try:
        for model in options.model:
            if not first(home, model, options.rounds):
                missed.append(f"first of {model}")
            candidates = tuned(home, model)
            if not choice(candidates, model):
                missed.append(f"choice of {model}")
            default(candidates, model)
    finally:
        home.remove()
    print("missed: " + ", ".join(missed) if missed else "all as it is to be")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
