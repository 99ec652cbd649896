"""What a plan promises and what the worker then holds, over contexts, slots and types of cache; one row each.

The service is asked for its plan (GET /v1/memory/plan), which a dry run of a worker stands behind. Then it loads the model
and answers prompts that fill the window: of every slot, or of one where the windows together are larger than --most-tokens.
`held` is the anonymous and shared memory of the worker afterwards, `file` what the kernel may take back. Memory for computed
prompts is a budget that fills with use, so it is left out of the promise, and nothing is kept.

Rows are kept in --results as they are measured: an interrupted run goes on where it ended. The last line says how far
promises are from what is held, and which rows miss the limit; the exit status says whether one does.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from harness import MODELS, Server, free_port

MIB = 1 << 20
LIMIT = 0.05  # of what is held
ROOT = pathlib.Path(__file__).resolve().parents[1]
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gezel-inference"


class Home:
    """A home with the models, for one daemon after the other: what the engine measured of the machine is kept."""

    def __init__(self, options, **env):
        self.options = options
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gezel-bench-"))
        # Other programs, this one for example, must not change what is planned.
        self.env = dict(os.environ, GEZEL_HOME=str(self.folder), GEZEL_GOOD_NEIGHBOUR="off", **env)
        self.env.pop("GEZEL_PORT", None)
        for model in options.model:
            subprocess.run([options.gezel, "import", options.models / MODELS[model], "--id", model], env=self.env,
                           check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def serve(self, *flags):
        port = free_port()
        command = [self.options.gezel, "serve", "--port", str(port), *map(str, flags)]
        server = Server("gezel", command, port, self.env, subprocess.DEVNULL)
        server.wait_ready()
        server.key = subprocess.run([self.options.gezel, "key"], env=self.env, check=True, text=True,
                                    capture_output=True).stdout.split()[-1]
        server.token = (self.folder / "runtime/auth-token").read_text()
        return server

    def remove(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def ask(server, path, body=None, token=None, timeout=1800):
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}{path}", json.dumps(body).encode() if body else None,
                                     {"Authorization": f"Bearer {token or server.key}"})
    with urllib.request.urlopen(request, timeout=timeout) as reply:
        return json.load(reply)


def promised(server, shape):
    """The bytes of the plan for exactly this shape, without those for computed prompts."""
    plan = ask(server, f"/v1/memory/plan?model={shape['model']}&context={shape['context']}&slots={shape['slots']}")
    if (plan["context"], plan["slots"], plan["estimated"]) != (shape["context"], shape["slots"], False):
        sys.exit(f"{shape}: there is no measured plan: {plan['summary']}")
    return plan["bytes"]["total"] - plan["bytes"]["cache"]


def fill(server, shape, prompts):
    """Answers that leave nearly the whole window used; prompts differ, so that no slot lends another its tokens."""
    def one(number):
        text = f"{number} " + "word " * (shape["context"] - 60)
        ask(server, "/v1/chat/completions", {"model": shape["model"], "max_tokens": 16, "temperature": 0,
                                             "messages": [{"role": "user", "content": text}]})
    with concurrent.futures.ThreadPoolExecutor(prompts) as pool:
        list(pool.map(one, range(prompts)))


def sizes_of(pid):
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
    return sizes["Pss_Anon"] + sizes["Pss_Shmem"], sizes["Pss_File"]


def held(server):
    """Once it stands still: bytes that only the worker needs, and those of mapped files."""
    (worker,) = ask(server, "/api/ps", token=server.token)["models"]
    before = None
    for _ in range(40):
        now = sizes_of(worker["pid"])
        if now == before:
            break
        before = now
        time.sleep(0.25)
    return now


def measure(home, shape, most_tokens, threads):
    server = home.serve("--ctx", shape["context"], "--slots", shape["slots"], "--kv-type", shape["kv_type"], "--threads",
                        threads, "--no-disk-cache", "--no-replay-store")
    try:
        promise = promised(server, shape)
        prompts = shape["slots"] if shape["slots"] * shape["context"] <= most_tokens else 1
        fill(server, shape, prompts)
        anonymous, file = held(server)
        return {**shape, "promised": promise, "held": anonymous, "file": file, "prompts": prompts}
    finally:
        server.end()


def deviation(row):
    return row["promised"] / row["held"] - 1


def name_of(row):
    return f"{row['model']} {row['context']} x {row['slots']} {row['kv_type']}"


def print_row(row):
    print(f"{row['model']:22} {row['context']:7} {row['slots']:5} {row['kv_type']:5} {row['promised'] / MIB:8.1f} MiB "
          f"{row['held'] / MIB:6.1f} MiB {row['file'] / MIB:4.0f} MiB {100 * deviation(row):+6.1f} %", flush=True)


def print_markdown(rows):
    """One line for each model, type and context; what the worker holds and how far the promise is, by slots."""
    slots = sorted({row["slots"] for row in rows})
    print("| model, cache, context | " + " | ".join(f"{count} slot{'s' if count > 1 else ''}" for count in slots) + " |")
    print("|---" * (len(slots) + 1) + "|")
    lines = {}
    for row in rows:
        lines.setdefault((row["model"], row["kv_type"], row["context"]), {})[row["slots"]] = row
    for (model, kv_type, context), by_slots in lines.items():
        cells = [f"{by_slots[count]['held'] / MIB:,.0f} MiB ({100 * deviation(by_slots[count]):+.1f} %)"
                 if count in by_slots else "" for count in slots]
        print(f"| {model}, {kv_type}, {context:,} | " + " | ".join(cells) + " |")


def summary(rows):
    worst = sorted(rows, key=deviation)
    missing = [row for row in rows if abs(deviation(row)) > LIMIT]
    text = (f"{len(rows)} rows: promises from {100 * deviation(worst[0]):+.1f} % ({name_of(worst[0])}) "
            f"to {100 * deviation(worst[-1]):+.1f} % ({name_of(worst[-1])}) of what is held; ")
    if missing:
        return text + f"{len(missing)} miss {100 * LIMIT:.0f} %: " + ", ".join(name_of(row) for row in missing)
    return text + f"all within {100 * LIMIT:.0f} %"


def kept_rows(file):
    if not file.exists():
        return {}
    rows = [json.loads(line) for line in file.read_text().splitlines() if line.endswith("}")]
    return {name_of(row): row for row in rows}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gezel", type=pathlib.Path, default=ROOT / "build/release/bin/gezel")
    parser.add_argument("--models", type=pathlib.Path, default=CACHE / "models", help="the folder with the test models")
    parser.add_argument("--model", nargs="+", choices=list(MODELS), default=list(MODELS))
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--kv-types", nargs="+", default=["f16", "q8_0"])
    parser.add_argument("--most-tokens", type=int, default=16_384, help="up to which every slot's window is filled")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "build/memory.jsonl")
    parser.add_argument("--again", action="store_true", help="measure rows anew that are in --results")
    parser.add_argument("--markdown", action="store_true", help="print the table for the documentation as well")
    options = parser.parse_args()
    shapes = [{"model": model, "kv_type": kv_type, "context": context, "slots": slots} for model in options.model
              for kv_type in options.kv_types for context in options.contexts for slots in options.slots]
    kept = {} if options.again else kept_rows(options.results)
    print(f"{'model':22} {'context':>7} {'slots':>5} {'cache':5} {'promised':>12} {'held':>10} {'file':>8} {'off by':>8}")
    # Measuring has memory of its own.
    home = Home(options, GEZEL_CALIBRATION="off", GEZEL_KV_MODE="none") if any(name_of(shape) not in kept for shape in shapes) else None
    rows = []
    try:
        for shape in shapes:
            row = kept.get(name_of(shape))
            if row is None:
                row = measure(home, shape, options.most_tokens, options.threads)
                options.results.parent.mkdir(parents=True, exist_ok=True)
                with options.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
            rows.append(row)
            print_row(row)
    finally:
        if home:
            home.remove()
    if options.markdown:
        print_markdown(rows)
    print(summary(rows))
    sys.exit(1 if any(abs(deviation(row)) > LIMIT for row in rows) else 0)


if __name__ == "__main__":
    main()
