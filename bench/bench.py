"""Our figures beside the peers', alternately in one run.

Every scenario runs our service and the peer in turn, at least three rounds, and prints the median of both and the ratio.
The peers are llama-bench and llama-server built from the same libllama source with the same compiler.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import statistics
import subprocess
import tempfile
import threading
import time

import gguf

WORDS = """time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour game
line end member law car city community name president team minute idea body information back parent face others level office
door health person art war history party result change morning reason research girl guy moment air teacher force education""".split()
MODELS = {"smollm2-135m-instruct": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3-270m": "gemma-3-270m-q4_k_m.gguf"}
MODEL_ID = "smollm2-135m-instruct"
PERSON = {
    "type": "object",
    "properties": {"first_name": {"type": "string", "maxLength": 16}, "last_name": {"type": "string", "maxLength": 16},
                   "age_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
                   "favourite_colour": {"enum": ["red", "green", "blue"]}, "is_member": {"type": "boolean"}},
    "required": ["first_name", "last_name", "age_in_years", "favourite_colour", "is_member"],
    "additionalProperties": False,
}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 5, "maxItems": 5}


def private_text(words, seed):
    choose = random.Random(seed)
    return " ".join(choose.choice(WORDS) for _ in range(words))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server under test: how to start it, where it listens."""

    def __init__(self, name, command, port, env=None, log=None, home=None, model=MODEL_ID):
        self.name, self.port, self.home, self.model = name, port, home, model
        self.process = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.key = ""

    def wait_ready(self, seconds=60):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.name} ended with {self.process.returncode}")
            try:
                with socket.create_connection(("127.0.0.1", self.port), timeout=5) as connection:
                    connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                    if b" 200 " in connection.recv(64):
                        return self
            except OSError:
                pass
            time.sleep(0.02)
        raise RuntimeError(f"{self.name} did not become ready")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self.home:
            shutil.rmtree(self.home, ignore_errors=True)


class Stream(threading.Thread):
    """One chat completion; records when each piece of its stream arrived."""

    def __init__(self, server, messages, max_tokens, on_first=None, stream=True, **fields):
        super().__init__(daemon=True)
        self.server, self.on_first = server, on_first
        body = {"model": "llama-cpp:" + server.model, "messages": messages, "max_tokens": max_tokens, "stream": stream,
                "temperature": 0, "ignore_eos": True, "cache_prompt": True, **fields}
        self.body = json.dumps(body).encode()
        self.arrivals, self.sent, self.finish = [], None, None
        self.start()

    def run(self):
        with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {self.server.key}\r\n"
                    f"Content-Type: application/json\r\nContent-Length: {len(self.body)}\r\nConnection: close\r\n\r\n").encode()
            self.sent = time.monotonic()
            connection.sendall(head + self.body)
            buffer = b""
            while True:
                part = connection.recv(65536)
                now = time.monotonic()
                if not part:
                    if buffer.startswith(b'{"'):
                        self.finish = json.loads(buffer)  # a whole reply has no line end
                    break
                buffer += part
                *lines, buffer = buffer.split(b"\n")
                for line in lines:
                    if not line.startswith(b"data: {"):
                        continue
                    if b'"timings"' in line:
                        self.finish = json.loads(line[6:])
                    if b'"content":"' in line and b'"content":""' not in line:
                        self.arrivals.append(now)
                        if len(self.arrivals) == 1 and self.on_first:
                            self.on_first()

    @property
    def first_token_ms(self):
        return (self.arrivals[0] - self.sent) * 1000

    @property
    def gaps_ms(self):
        return [(b - a) * 1000 for a, b in zip(self.arrivals, self.arrivals[1:])]

    @property
    def timings(self):
        return self.finish["timings"]


def no_blank_tokens(model_file):
    """A logit bias against tokens of white space alone: where these are held back until it is known that they are not the
    end of the answer, the next piece carries two tokens and a gap between pieces is none between tokens."""
    tokens = gguf.GGUFReader(model_file).fields["tokenizer.ggml.tokens"]
    texts = (bytes(tokens.parts[index]).decode() for index in tokens.data)
    return {str(token): -100 for token, text in enumerate(texts) if text and not text.strip("\u0120\u010a\u0109\u010d")}


def user(text):
    return [{"role": "user", "content": text}]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


class Bench:
    def __init__(self, options):
        self.options = options
        self.threads = len(os.sched_getaffinity(0))
        self.log = open(os.devnull, "w")
        self.model = self.file(MODEL_ID)

    def file(self, model):
        return str(pathlib.Path(self.options.models) / MODELS[model])

    def ours(self, slots=8, context=None, flash=None, model=MODEL_ID):
        home = tempfile.mkdtemp(prefix="gezel-bench-")
        env = dict(os.environ, GEZEL_HOME=home)
        subprocess.run([self.options.gezel, "import", self.file(model), "--id", model], env=env, check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = free_port()
        command = [self.options.gezel, "serve", "--port", str(port), "--slots", str(slots)]
        if context:
            command += ["--ctx", str(context)]
        if flash is not None:
            command += ["--flash-attn", "on" if flash else "off"]
        server = Server("gezel", command, port, env, self.log, home, model).wait_ready()
        server.key = subprocess.run([self.options.gezel, "key"], env=env, check=True, text=True,
                                    capture_output=True).stdout.split()[-1]
        Stream(server, user("Hello"), 8).join()  # load the model
        return server

    def peer(self, slots=8, context=16384, flash=None, model=MODEL_ID):
        port = free_port()
        command = [f"{self.options.peers}/llama-server", "-m", self.file(model), "--port", str(port), "-np", str(slots),
                   "-c", str(context), "-t", str(self.threads), "--no-webui"]
        if flash is not None:
            command += ["-fa", "on" if flash else "off"]
        server = Server("llama-server", command, port, None, self.log, None, model).wait_ready()
        Stream(server, user("Hello"), 8).join()
        return server

    def alternate(self, measure, **settings):
        """Medians of `rounds` for both, run in turn: {figure: (ours, peer)}."""
        results = {"ours": [], "peer": []}
        for round_number in range(self.options.rounds):
            for side in ("ours", "peer"):
                server = getattr(self, side)(**settings.get(side, {}))
                try:
                    results[side].append(measure(server, round_number))
                finally:
                    server.stop()
        return {figure: tuple(statistics.median(run[figure] for run in results[side]) for side in ("ours", "peer"))
                for figure in results["ours"][0]}

    def report(self, scenario, figures, better):
        for figure, (ours, peer) in figures.items():
            ratio = ours / peer if peer else float("nan")
            print(f"{scenario:10} {figure:34} ours {ours:10.1f}   peer {peer:10.1f}   ratio {ratio:5.2f}   ({better} is better)",
                  flush=True)

    # --- scenarios -------------------------------------------------------------------------------------------------

    def worker(self):
        """Decode and prefill inside the worker beside llama-bench: same threads, same flash attention, no client in between."""
        for flash in (False, True):
            ours, peer = {"decode": [], "prefill": []}, {"decode": [], "prefill": []}
            for round_number in range(self.options.rounds):
                server = self.ours(slots=1, flash=flash)
                try:
                    Stream(server, user("Go on."), 32, stream=False).join()
                    # Two of each, as llama-bench repeats its own; the tokens and the samples are timed by the worker.
                    for i in range(2):
                        decode = Stream(server, user(f"Write {2 * round_number + i} stories."), 256, stream=False)
                        decode.join()
                        ours["decode"].append(decode.timings["predicted_per_second"])
                        prefill = Stream(server, user(private_text(480, 2 * round_number + i)), 1, stream=False)
                        prefill.join()
                        ours["prefill"].append(prefill.timings["prompt_per_second"])
                        length = prefill.timings["prompt_n"]
                finally:
                    server.stop()
                output = subprocess.run(
                    [f"{self.options.peers}/llama-bench", "-m", self.model, "-p", str(length), "-n", "256", "-r", "2",
                     "-t", str(self.threads), "-fa", "1" if flash else "0", "-o", "json"],
                    check=True, text=True, capture_output=True).stdout
                for entry in json.loads(output):
                    peer["prefill" if entry["n_gen"] == 0 else "decode"] += entry["samples_ts"]
            self.report("worker", {f"{kind} tok/s, flash attention {'on' if flash else 'off'}":
                                   (statistics.median(ours[kind]), statistics.median(peer[kind]))
                                   for kind in ("decode", "prefill")}, "higher")

    def single(self):
        """One stream of 256 tokens through HTTP; the client's clock from first to last token."""
        def measure(server, round_number):
            stream = Stream(server, user(f"Write {round_number} stories."), 256)
            stream.join()
            # Tokens, not pieces: white space is held back until it is known not to be the end of the answer.
            tokens = stream.timings["predicted_n"] - 1
            return {"tok/s through HTTP": tokens / (stream.arrivals[-1] - stream.arrivals[0])}
        self.report("single", self.alternate(measure, ours={"slots": 8}, peer={"slots": 8}), "higher")

    def eight(self):
        """Eight private prompts of 850 words at once, 512 tokens each: tokens per second while all eight decode."""
        def measure(server, round_number):
            streams = [Stream(server, user(private_text(850, 100 * round_number + i)), 512) for i in range(8)]
            for stream in streams:
                stream.join()
            begin = max(stream.arrivals[0] for stream in streams)
            end = min(stream.arrivals[-1] for stream in streams)
            count = sum(1 for stream in streams for at in stream.arrivals if begin < at <= end)
            return {"tok/s while all eight decode": count / (end - begin)}
        self.report("eight", self.alternate(measure), "higher")

    def mixed(self):
        """Three live streams, then a prompt of 4,000 words: the streams' gaps and the prompt's first token."""
        bias = no_blank_tokens(self.model)
        def measure(server, round_number):
            begun = threading.Barrier(4)
            streams = [Stream(server, user(private_text(30, 7 * round_number + i)), 2000, on_first=begun.wait, logit_bias=bias)
                       for i in range(3)]
            begun.wait()
            time.sleep(1)
            long = Stream(server, user(private_text(4000, 1000 + round_number)), 1)
            long.join()
            begin, end = long.sent, long.arrivals[0]
            gaps = [(b - a) * 1000 for stream in streams for a, b in zip(stream.arrivals, stream.arrivals[1:])
                    if begin < b and a < end]
            return {"p50 gap ms": percentile(gaps, 0.5), "p99 gap ms": percentile(gaps, 0.99),
                    "long prompt's first token ms": long.first_token_ms}
        self.report("mixed", self.alternate(measure, peer={"context": 65536}), "lower")

    def schema(self):
        """A list of five records with five keys each under its schema, and free text: tokens per second of decoding.

        Keys, quotes and brackets can only be one way and need no sampling: an answer with a form comes faster than a free
        one. Each server is asked for both in turn, so the ratio is one of the same minute.
        """
        def measure(server, round_number):
            speeds = {"free": [], "schema": []}
            for i in range(3):
                topic = f"Describe the people of village {3 * round_number + i}."
                answers = {"free": Stream(server, user(topic), 200, stream=False)}
                answers["free"].join()
                answers["schema"] = Stream(server, user(topic), 600, stream=False, ignore_eos=False, response_format={
                    "type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE, "strict": True}})
                answers["schema"].join()
                choice = answers["schema"].finish["choices"][0]
                if choice["finish_reason"] != "stop" or len(json.loads(choice["message"]["content"])) != 5:
                    raise RuntimeError(f"{server.name} gave no five records: {choice}")
                for kind, answer in answers.items():
                    speeds[kind].append(answer.timings["predicted_per_second"])
            free, held = (statistics.median(speeds[kind]) for kind in ("free", "schema"))
            return {"free tok/s": free, "under a schema tok/s": held, "schema / free in percent": 100 * held / free}
        for model in MODELS:
            settings = {"slots": 1, "context": 4096, "model": model}
            figures = self.alternate(measure, ours=settings, peer=settings)
            self.report("schema", {f"{model[:6]} {figure}": pair for figure, pair in figures.items()}, "higher")

    def start(self):
        """Time to the first /health answer and resident memory without a model (no peer offers either)."""
        times, sizes = [], []
        for _ in range(self.options.rounds):
            home = tempfile.mkdtemp(prefix="gezel-bench-")
            port = free_port()
            began = time.monotonic()
            server = Server("gezel", [self.options.gezel, "serve", "--port", str(port)], port,
                            dict(os.environ, GEZEL_HOME=home), self.log, home)
            while True:
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        if b" 200 " in connection.recv(64):
                            break
                except OSError:
                    time.sleep(0.001)
            times.append((time.monotonic() - began) * 1000)
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            sizes.append(int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024)
            server.stop()
        print(f"start      /health after {statistics.median(times):.0f} ms (limit 100), "
              f"{statistics.median(sizes):.1f} MiB resident (limit 30)", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gezel", required=True)
    parser.add_argument("--peers", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    scenarios = ["start", "worker", "single", "eight", "mixed", "schema"]
    parser.add_argument("scenario", nargs="*", default=scenarios, help=f"of {', '.join(scenarios)}")
    options = parser.parse_args()
    bench = Bench(options)
    for scenario in options.scenario:
        if scenario not in scenarios:
            parser.error(f"unknown scenario '{scenario}'; there are {', '.join(scenarios)}")
        getattr(bench, scenario)()


if __name__ == "__main__":
    main()
