"""What a dry run predicts and what a worker then holds, over contexts and slots; one row each.

A worker is asked twice: to measure without allocating, and to load and answer prompts that fill the window of every
slot. `held` is the anonymous and shared memory of the process afterwards, `file` what the kernel may take back.
"""

import argparse
import itertools
import json
import pathlib
import socket
import struct
import subprocess
import sys

MIB = 1 << 20
FRAMES = {"hello": 1, "load": 2, "generate": 3, "ready": 67, "done": 71, "failed": 72}
PARTS = ("weights", "repack", "kv", "compute", "host")
EXTRA = 4 * MIB  # kProcessExtra of src/engine_llama/dry_run.h


class Worker:
    def __init__(self, program, protocol):
        self.socket, theirs = socket.socketpair()
        self.process = subprocess.Popen([program, "--worker-fd", str(theirs.fileno())], pass_fds=[theirs.fileno()],
                                        stderr=subprocess.DEVNULL)
        theirs.close()
        self.reader = self.socket.makefile("rb")
        self.send("hello", {"protocol": protocol, "build": "bench"})

    def send(self, name, body):
        text = json.dumps(body).encode()
        self.socket.sendall(struct.pack("<IB", len(text), FRAMES[name]) + text)

    def wait_for(self, *names):
        while True:
            head = self.reader.read(5)
            if len(head) < 5:
                sys.exit("the worker ended")
            size, kind = struct.unpack("<IB", head)
            body = self.reader.read(size)
            if kind == FRAMES["failed"] or kind in [FRAMES[name] for name in names]:
                return kind, json.loads(body)

    def held(self):
        rollup = pathlib.Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
        return sizes["Pss_Anon"] + sizes["Pss_Shmem"], sizes["Pss_File"]

    def close(self):
        self.reader.close()
        self.socket.close()
        self.process.wait()


def row(options, protocol, model, context, slots, kv_type):
    load = {"model_path": str(model), "files": [str(model)], "slots": slots, "ctx_per_slot": context,
            "threads": options.threads, "kv_type": kv_type}
    worker = Worker(options.engine, protocol)
    worker.send("load", {**load, "dry_run": True})
    kind, ready = worker.wait_for("ready")
    worker.close()
    if kind != FRAMES["ready"]:
        sys.exit(f"{model.name}: {ready['message']}")
    predicted = sum(ready["bytes"][part] for part in PARTS) + EXTRA

    worker = Worker(options.engine, protocol)
    worker.send("load", load)
    worker.wait_for("ready")
    words = "word " * (context - 60)
    for slot in range(slots):
        message = {"role": "user", "content": [{"kind": "text", "text": words}]}
        worker.send("generate", {"id": slot + 1, "request": {"messages": [message], "max_tokens": 16}})
    for _ in range(slots):
        kind, body = worker.wait_for("done")
        if kind != FRAMES["done"]:
            sys.exit(f"{model.name} {context}x{slots}: {body['message']}")
    held, file = worker.held()
    worker.close()
    return predicted, held, file


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engine", required=True)
    parser.add_argument("--contexts", type=int, nargs="+", default=[512, 2048, 8192])
    parser.add_argument("--slots", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--kv-types", nargs="+", default=["f16", "q8_0"])
    parser.add_argument("--most-tokens", type=int, default=16_384, help="larger windows in all are left out")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("models", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    version = json.loads(subprocess.run([options.engine, "--version", "--json"], capture_output=True, check=True).stdout)
    print(f"{'model':28} {'context':>7} {'slots':>5} {'cache':5} {'predicted':>10} {'held':>8} {'file':>7} {'off by':>7}")
    worst = 0.0
    for model in options.models:
        for context in options.contexts:
            for slots, kv_type in itertools.product(options.slots, options.kv_types):
                if context * slots > options.most_tokens:
                    continue
                predicted, held, file = row(options, version["protocol"], model, context, slots, kv_type)
                off = predicted / held - 1
                worst = max(worst, abs(off))
                print(f"{model.stem[:28]:28} {context:7} {slots:5} {kv_type:5} {predicted / MIB:6.1f} MiB "
                      f"{held / MIB:4.0f} MiB {file / MIB:3.0f} MiB {100 * off:+6.1f}%", flush=True)
    print(f"worst: {100 * worst:.1f} %")
    sys.exit(0 if worst <= 0.05 else 1)


if __name__ == "__main__":
    main()
