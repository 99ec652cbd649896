"""What a plan promises and what a worker then holds, over contexts and slots; one row each.

The service is asked for its plan (GET /v1/memory/plan), which a dry run of a worker stands behind. Another worker loads the
model and answers prompts that fill the window of every slot. `held` is the anonymous and shared memory of the process
afterwards, `file` what the kernel may take back.
"""

import argparse
import itertools
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.request

from harness import Server, free_port

MIB = 1 << 20
FRAMES = {"hello": 1, "load": 2, "generate": 3, "ready": 67, "done": 71, "failed": 72}


class Service(Server):
    """A daemon with all models and one type of cache; it plans and loads nothing."""

    def __init__(self, options, kv_type):
        home = tempfile.mkdtemp(prefix="gezel-bench-")
        env = dict(os.environ, GEZEL_HOME=home)
        for model in options.models:
            subprocess.run([options.gezel, "import", model, "--id", self.id_of(model)], env=env, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = free_port()
        command = [options.gezel, "serve", "--port", str(port), "--kv-type", kv_type, "--threads", str(options.threads)]
        super().__init__("gezel", command, port, env, subprocess.DEVNULL, home)
        self.wait_ready()
        self.key = subprocess.run([options.gezel, "key"], env=env, check=True, text=True,
                                  capture_output=True).stdout.split()[-1]

    @staticmethod
    def id_of(model):
        return model.stem.lower().replace("_", "-")

    def promised(self, model, context, slots):
        """The bytes of the plan for exactly this shape."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/v1/memory/plan?model={self.id_of(model)}&context={context}&slots={slots}",
            headers={"Authorization": f"Bearer {self.key}"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            plan = json.load(reply)
        if (plan["context"], plan["slots"], plan["estimated"]) != (context, slots, False):
            sys.exit(f"{model.name}: no measured plan for {slots} slots of {context} tokens: {plan['summary']}")
        return plan["bytes"]["total"]


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


def row(options, service, protocol, model, context, slots, kv_type):
    predicted = service.promised(model, context, slots)
    load = {"model_path": str(model), "files": [str(model)], "slots": slots, "ctx_per_slot": context,
            "threads": options.threads, "kv_type": kv_type}
    if kv_type != "f16":
        load["flash_attn"] = True  # as the service loads it
    worker = Worker(options.engine, protocol)
    worker.send("load", load)
    kind, ready = worker.wait_for("ready")
    if kind != FRAMES["ready"]:
        sys.exit(f"{model.name}: {ready['message']}")
    words = "word " * (context - 60)
    for slot in range(slots):
        message = {"role": "user", "content": [{"kind": "text", "text": words}]}
        worker.send("generate", {"id": slot + 1, "request": {"messages": [message], "max_output_tokens": 16}})
    for _ in range(slots):
        kind, body = worker.wait_for("done")
        if kind != FRAMES["done"]:
            sys.exit(f"{model.name} {context}x{slots}: {body['message']}")
    held, file = worker.held()
    worker.close()
    return predicted, held, file


def rows(options, services, protocol):
    worst = 0.0
    for model in options.models:
        for context in options.contexts:
            for slots, kv_type in itertools.product(options.slots, options.kv_types):
                if context * slots > options.most_tokens:
                    continue
                predicted, held, file = row(options, services[kv_type], protocol, model, context, slots, kv_type)
                off = predicted / held - 1
                worst = max(worst, abs(off))
                print(f"{model.stem[:28]:28} {context:7} {slots:5} {kv_type:5} {predicted / MIB:6.1f} MiB "
                      f"{held / MIB:4.0f} MiB {file / MIB:3.0f} MiB {100 * off:+6.1f}%", flush=True)
    return worst


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gezel", required=True)
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
    services = {kv_type: Service(options, kv_type) for kv_type in options.kv_types}
    try:
        worst = rows(options, services, version["protocol"])
    finally:
        for service in services.values():
            service.stop()
    print(f"worst: {100 * worst:.1f} %")
    sys.exit(0 if worst <= 0.05 else 1)


if __name__ == "__main__":
    main()
