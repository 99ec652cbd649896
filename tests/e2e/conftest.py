"""A real daemon with real models in a home of its own; every test talks to it over HTTP as a client would."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BIN = pathlib.Path(os.environ.get("GEZEL_BIN", ROOT / "build/release/bin"))
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "gezel-inference"
SMOLLM2 = "llama-cpp:smollm2-135m-instruct"
GEMMA3 = "llama-cpp:gemma3-270m"
FILES = {
    "smollm2-135m-instruct": CACHE / "models/SmolLM2-135M-Instruct.Q4_1.gguf",
    "gemma3-270m": CACHE / "models/gemma-3-270m-q4_k_m.gguf",
}


def wait_until(condition, seconds=30.0, what="condition"):
    """Polls a condition of another process; the only kind of waiting the tests do."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.02)
    raise AssertionError(f"{what} did not become true within {seconds} s")


class Daemon:
    """One `gezel serve` and the means to reach it."""

    def __init__(self, home, *flags):
        self.home = pathlib.Path(home)
        self.flags = list(flags)
        self.process = None
        self.wrapper = []  # a command that runs the daemon
        self.calibration = "off"  # measuring takes the processors from what is tested
        self.speculation = "off"  # where two tokens are all but equally likely, drafts decide by rounding

    def environment(self):
        env = dict(os.environ)
        env["GEZEL_HOME"] = str(self.home)
        env.pop("GEZEL_PORT", None)
        # What else runs on this machine must not make a difference.
        env.setdefault("GEZEL_GOOD_NEIGHBOUR", "off")
        env["GEZEL_CALIBRATION"] = self.calibration
        env["GEZEL_SPECULATION"] = self.speculation
        return env

    def cli(self, *args, **kwargs):
        kwargs.setdefault("timeout", 120)
        return subprocess.run([str(BIN / "gezel"), *map(str, args)], env=self.environment(), text=True,
                              capture_output=True, **kwargs)

    def install(self, *ids):
        for model in ids:
            name = model.split(":")[-1]
            result = self.cli("import", FILES[name], "--id", name, "--mode", "link")
            if result.returncode != 0:
                result = self.cli("import", FILES[name], "--id", name, "--mode", "copy")
            assert result.returncode == 0, result.stderr

    def start(self):
        self.log = open(self.home / "daemon.log", "ab")
        self.process = subprocess.Popen(
            [*self.wrapper, str(BIN / "gezel"), "serve", "--port", "0", *self.flags], env=self.environment(),
            stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        port_file = self.home / "runtime/port"
        pid_file = self.home / "runtime/pid"

        def ready():
            assert self.process.poll() is None, (self.home / "daemon.log").read_text()
            return port_file.exists() and pid_file.read_text().strip() == str(self.process.pid)

        wait_until(ready, 20, "the daemon's port file")
        self.port = int(port_file.read_text())
        self.key = self.cli("key").stdout.strip().splitlines()[-1]
        self.token = (self.home / "runtime/auth-token").read_text()
        return self

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
        if self.process:
            self.log.close()

    def request(self, method, path, body=None, token=None, headers=None, timeout=120):
        """Returns (status, headers, body bytes); never raises for HTTP errors."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data=data, method=method)
        request.add_header("Authorization", f"Bearer {self.key if token is None else token}")
        for name, value in (headers or {}).items():
            request.add_header(name, value)
        try:
            with urllib.request.urlopen(request, timeout=timeout) as reply:
                return reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()

    def chat(self, content="Say hello.", model=SMOLLM2, timeout=120, **fields):
        body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 16}
        body.update(fields)
        status, _, raw = self.request("POST", "/v1/chat/completions", body, timeout=timeout)
        return status, json.loads(raw)

    def ps(self):
        status, _, raw = self.request("GET", "/api/ps", token=self.token)
        assert status == 200, raw
        return json.loads(raw)["models"]

    def worker(self, model=SMOLLM2):
        for entry in self.ps():
            if entry["id"] == model:
                return entry
        return None

    def stats(self, model=SMOLLM2):
        status, _, raw = self.request("GET", f"/api/stats?model={model}", token=self.token)
        assert status == 200, raw
        return json.loads(raw)


@pytest.fixture
def make_daemon():
    """Daemons for one test: make_daemon(*models, flags=(...), start=True)."""
    made = []

    def make(*models, flags=(), start=True):
        home = tempfile.mkdtemp(prefix="gezel-e2e-")
        daemon = Daemon(home, *flags)
        made.append(daemon)
        daemon.install(*models)
        return daemon.start() if start else daemon

    yield make
    for daemon in made:
        daemon.stop()
        shutil.rmtree(daemon.home, ignore_errors=True)


@pytest.fixture(scope="session")
def daemon():
    """One daemon with both test models, shared by the tests that leave it as they found it."""
    home = tempfile.mkdtemp(prefix="gezel-e2e-")
    shared = Daemon(home)
    shared.install(SMOLLM2, GEMMA3)
    shared.start()
    yield shared
    shared.stop()
    shutil.rmtree(home, ignore_errors=True)


def ui(daemon, method, path, body=None):
    """A management route: (status, reply)."""
    status, _, raw = daemon.request(method, path, body, token=daemon.token)
    return status, json.loads(raw)


def listed(daemon):
    """The models of GET /v1/models by their ids."""
    status, _, raw = daemon.request("GET", "/v1/models")
    assert status == 200, raw
    return {entry["id"]: entry for entry in json.loads(raw)["data"]}


def plan(daemon, model, token=None, **wish):
    """What GET /v1/memory/plan says: (status, reply)."""
    query = urllib.parse.urlencode({"model": model, **wish})
    status, _, raw = daemon.request("GET", f"/v1/memory/plan?{query}", token=token)
    return status, json.loads(raw)


def stream_events(response):
    """The JSON of each SSE frame of an open urllib response, comments left out; ends at [DONE]."""
    for line in response:
        line = line.decode().rstrip("\n")
        if line.startswith("data: "):
            data = line[len("data: "):]
            if data == "[DONE]":
                return
            yield json.loads(data)
