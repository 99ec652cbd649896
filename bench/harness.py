"""What every scenario works with: the servers under test, streams of tokens with the times of their arrival, and medians
of rounds in which each side has its turn.

There are three sides. `ours` is the service with nothing configured beyond what a scenario names; `stock` is llama-server of
the same libllama with its defaults; `tuned` is the same with the settings a careful person would find by hand.
"""

import concurrent.futures
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

WORDS = """time year people way day man thing woman life child world school state family student group country problem hand
part place case week company system program question work government number night point home water room mother area money
story fact month lot right study book eye job word business issue side kind head house service friend father power hour game
line end member law car city community name president team minute idea body information back parent face others level office
door health person art war history party result change morning reason research girl guy moment air teacher force education""".split()
MODELS = {"smollm2-135m-instruct": "SmolLM2-135M-Instruct.Q4_1.gguf", "gemma3-270m": "gemma-3-270m-q4_k_m.gguf"}
MODEL_ID = "smollm2-135m-instruct"
SIDES = ("ours", "stock", "tuned")


def private_text(words, seed):
    choose = random.Random(seed)
    return " ".join(choose.choice(WORDS) for _ in range(words))


def user(text):
    return [{"role": "user", "content": text}]


def percentile(values, share):
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A server under test: how to start it, where it listens."""

    def __init__(self, name, command, port, env=None, log=None, home=None, model=MODEL_ID):
        self.name, self.port, self.home, self.model = name, port, home, model
        self.command, self.env, self.log = command, env, log
        self.key = ""
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)

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

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def restart(self):
        """Ends it as a person would and starts it again with the same folder; the model is loaded by the next request."""
        self.end()
        self.start()
        self.wait_ready()

    def stop(self):
        self.end()
        if self.home:
            shutil.rmtree(self.home, ignore_errors=True)


class Stream(threading.Thread):
    """One chat completion; records when each piece of its stream arrived."""

    def __init__(self, server, messages, max_tokens, on_first=None, stream=True, model=None, **fields):
        super().__init__(daemon=True)
        self.server, self.on_first = server, on_first
        body = {"model": "llama-cpp:" + (model or server.model), "messages": messages, "max_tokens": max_tokens,
                "stream": stream, "temperature": 0, "ignore_eos": True, "cache_prompt": True, **fields}
        if stream:
            body["stream_options"] = {"include_usage": True}
        self.body = json.dumps(body).encode()
        self.arrivals, self.sent, self.finish, self.pieces, self.usage_line = [], None, None, [], None
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
                    if b'"usage":{' in line:
                        self.usage_line = line[6:]
                    if b'"content":"' in line and b'"content":""' not in line:
                        self.arrivals.append(now)
                        self.pieces.append(line[6:])
                        if len(self.arrivals) == 1 and self.on_first:
                            self.on_first()

    def done(self):
        """Waits for the end of the answer; an answer without text or figures ends the benchmark."""
        self.join()
        if not self.finish or not self.arrivals:
            raise RuntimeError(f"{self.server.name} gave no answer; its reply ended with {self.finish}")
        return self

    @property
    def first_token_ms(self):
        return (self.arrivals[0] - self.sent) * 1000

    @property
    def gaps_ms(self):
        return [(b - a) * 1000 for a, b in zip(self.arrivals, self.arrivals[1:])]

    @property
    def timings(self):
        return self.finish["timings"]

    @property
    def usage(self):
        return json.loads(self.usage_line)["usage"]

    @property
    def prompt_tokens(self):
        return self.usage["prompt_tokens"]

    @property
    def computed_tokens(self):
        """Of the prompt, what was not taken from a cache."""
        return self.prompt_tokens - self.usage["prompt_tokens_details"]["cached_tokens"]

    @property
    def tokens_per_second(self):
        """By the client's clock. Tokens, not pieces: white space is held back until it is known not to be the end."""
        return (self.timings["predicted_n"] - 1) / (self.arrivals[-1] - self.arrivals[0])

    @property
    def text(self):
        return "".join(json.loads(piece)["choices"][0]["delta"]["content"] for piece in self.pieces)


def at_once(count, tasks):
    """Runs functions in their order, `count` at a time; their results in the same order."""
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        return [future.result() for future in [pool.submit(task) for task in tasks]]


def no_blank_tokens(model_file):
    """A logit bias against tokens of white space alone: where these are held back until it is known that they are not the
    end of the answer, the next piece carries two tokens and a gap between pieces is none between tokens."""
    import gguf  # only here, so that --help needs nothing installed
    tokens = gguf.GGUFReader(model_file).fields["tokenizer.ggml.tokens"]
    texts = (bytes(tokens.parts[index]).decode() for index in tokens.data)
    return {str(token): -100 for token, text in enumerate(texts) if text and not text.strip("\u0120\u010a\u0109\u010d")}


class Harness:
    def __init__(self, options):
        self.options = options
        self.threads = len(os.sched_getaffinity(0))
        self.log = open(os.devnull, "w")
        self.model = self.file(MODEL_ID)
        self.answers = []  # of ours that are to be checked

    def file(self, model):
        return str(pathlib.Path(self.options.models) / MODELS[model])

    # --- the sides -------------------------------------------------------------------------------------------------

    def ours(self, slots=8, context=None, flash=None, model=MODEL_ID, others=(), env=None):
        """The service with these models; `model` is loaded, `others` are only there."""
        home = tempfile.mkdtemp(prefix="gezel-bench-")
        # The load generator would count as another program that wants the processors.
        env = dict(os.environ, GEZEL_HOME=home, GEZEL_GOOD_NEIGHBOUR="off", **(env or {}))
        for each in (model, *others):
            subprocess.run([self.options.gezel, "import", self.file(each), "--id", each], env=env, check=True,
                           stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        port = free_port()
        command = [self.options.gezel, "serve", "--port", str(port), "--slots", str(slots)]
        if context:
            command += ["--ctx", str(context)]
        if flash is not None:
            command += ["--flash-attn", "on" if flash else "off"]
        server = Server("gezel", command, port, env, self.log, home, model).wait_ready()
        server.key = self.say(server, "key").split()[-1]
        Stream(server, user("Hello"), 8).done()  # load the model
        return server

    def say(self, server, *words):
        """What the command line says about our own server."""
        return subprocess.run([self.options.gezel, *words], env=server.env, check=True, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True).stdout

    def stock(self, slots=8, context=16384, flash=None, model=MODEL_ID, extra=()):
        port = free_port()
        command = [f"{self.options.peers}/llama-server", "-m", self.file(model), "--port", str(port), "-np", str(slots),
                   "-c", str(context), "-t", str(self.threads), "--no-webui", *extra]
        if flash is not None:
            command += ["-fa", "on" if flash else "off"]
        server = Server("llama-server", command, port, None, self.log, None, model).wait_ready()
        Stream(server, user("Hello"), 8).done()
        return server

    def tuned(self, **settings):
        """Flash attention costs up to a factor of three on processors whose kernels for it are slow."""
        return self.stock(**{"flash": False, **settings})

    # --- rounds ----------------------------------------------------------------------------------------------------

    def alternate(self, measure, sides=SIDES, **settings):
        """Medians of `rounds` for each side, run in turn: {figure: {side: median}}."""
        results = {side: [] for side in sides}
        for round_number in range(self.options.rounds):
            for side in sides:
                server = getattr(self, side)(**settings.get(side, {}))
                try:
                    results[side].append(measure(server, round_number))
                finally:
                    server.stop()
        figures = {}
        for side in sides:
            for figure in results[side][0]:
                figures.setdefault(figure, {})[side] = statistics.median(run[figure] for run in results[side])
        return figures

    def report(self, scenario, figures, better):
        """One line a figure; the ratio is ours to that peer's."""
        for figure, values in figures.items():
            line = f"{scenario:10} {figure:34}"
            for side, value in values.items():
                line += f" {side} {value:10.1f} "
                if side != "ours" and value and "ours" in values:
                    line += f"(ratio {values['ours'] / value:5.2f}) "
            print(f"{line} ({better} is better)", flush=True)

    def aim(self, scenario, text, holds, value):
        """What this scenario is meant to reach on the reference machine."""
        print(f"{scenario:10} aim: {text}: {value}  {'reached' if holds else 'MISSED'}", flush=True)
