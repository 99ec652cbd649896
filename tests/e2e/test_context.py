"""Windows: what a request can have, when a model is loaded again for it, and what it is told otherwise."""

import concurrent.futures
import contextlib
import json
import os

from conftest import FILES, GEMMA3, SMOLLM2, plan, wait_until

NATIVE = 8192  # of SmolLM2


def context(daemon, model=SMOLLM2):
    status, _, raw = daemon.request("GET", f"/v1/models/{model}")
    assert status == 200, raw
    return json.loads(raw)["context"]


def loads(daemon, model=SMOLLM2):
    lines = (daemon.home / "daemon.log").read_text().splitlines()
    return sum('"message":"loading a model"' in line and f'"{model}"' in line for line in lines)


def room(daemon, model, **wish):
    """The bytes that a plan needs in all."""
    status, planned = plan(daemon, model, **wish)
    assert status == 200, planned
    return planned["bytes"]["total"]


def words(tokens):
    """A prompt of some more tokens than that."""
    return "word " * tokens


@contextlib.contextmanager
def busy_gemma(daemon):
    """Gemma answers until the block ends."""
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        answer = pool.submit(daemon.chat, model=GEMMA3, max_tokens=20_000, ignore_eos=True, guards=False)
        wait_until(lambda: (daemon.worker(GEMMA3) or {}).get("slots_busy"), seconds=120, what="a busy Gemma")
        try:
            yield
        finally:  # a test that fails must not wait for the whole answer
            daemon.request("POST", "/api/stop", {"model": GEMMA3, "force": True}, token=daemon.token)
        answer.result()


def test_a_window_that_memory_kept_short_grows_for_a_request_that_needs_it(make_daemon, monkeypatch):
    # Computed prompts would take a share of what is left over, and a smaller cache type has room for the whole window.
    monkeypatch.setenv("GEZEL_KV_MODE", "none")
    flags = ("--slots", "1", "--kv-type", "f16")
    # So much memory that SmolLM2 has its whole window alone and two thirds of it beside Gemma.
    probe = make_daemon(SMOLLM2, GEMMA3, flags=flags)
    gemma = room(probe, GEMMA3)
    least, most = (room(probe, SMOLLM2, context=tokens) for tokens in (4096, NATIVE))
    probe.stop()
    # A fifth of what the weights leave is kept back.
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", str((gemma + least + 0.75 * (most - least)) / (1 << 30)))
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=flags)
    with busy_gemma(daemon):
        assert daemon.chat(max_tokens=2)[0] == 200
        short = context(daemon)
        assert 4096 <= short["granted"] < NATIVE and short["below_floor"], short
        first = daemon.worker()["pid"]
        # More than is loaded, and no memory for it: both ways of asking are told so, and nothing is unloaded.
        status, reply = daemon.chat(max_tokens=2, num_ctx=NATIVE)
        assert (status, reply["error"]["code"], reply["error"]["param"]) == (503, "capacity_denied", "num_ctx"), reply
        assert reply["error"]["n_ctx"] == short["granted"]
        assert reply["error"]["n_ctx_needed"] == reply["error"]["n_ctx_native"] == NATIVE
        assert short["granted"] <= reply["error"]["n_ctx_largest"] < NATIVE
        status, reply = daemon.chat(words(short["granted"]), max_tokens=2)
        assert (status, reply["error"]["code"]) == (400, "context_length_exceeded"), reply
        assert reply["error"]["n_prompt_tokens"] > reply["error"]["n_ctx"] == short["granted"]
        assert reply["error"]["binding"]
        assert daemon.worker()["pid"] == first
    wait_until(lambda: daemon.worker(GEMMA3) is None, what="Gemma's end")
    # Two clients, two ways to need more than is loaded: one load, and both are answered.
    needs = ({"num_ctx": NATIVE, "max_tokens": 2}, {"max_tokens": short["granted"], "stop": ["e", "a", "o", "l"]})
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda fields: daemon.chat(**fields)[0], needs))
    assert answers == [200, 200]
    assert loads(daemon) == 2
    grown = context(daemon)
    assert grown["granted"] == NATIVE and not grown["below_floor"], grown
    second = daemon.worker()["pid"]
    assert second != first
    assert daemon.chat(max_tokens=2, num_ctx=1024)[0] == 200
    assert daemon.worker()["pid"] == second, "no window shrinks for a request"


def test_no_request_gets_more_than_the_service_was_told(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--ctx", "2048", "--slots", "1"))
    assert daemon.chat(max_tokens=2, num_ctx=2048)[0] == 200
    pid = daemon.worker()["pid"]
    status, reply = daemon.chat(max_tokens=2, num_ctx=4096)
    assert (status, reply["error"]["code"]) == (400, "context_length_exceeded"), reply
    assert (reply["error"]["n_ctx_limit"], reply["error"]["n_ctx_native"]) == (2048, NATIVE)
    assert daemon.chat(words(2048), max_tokens=2)[1]["error"]["n_ctx_limit"] == 2048
    # An answer that may not become as long as was asked for says so.
    status, reply = daemon.chat(max_tokens=5000, stop=["e", "a", "o", "l"])
    assert status == 200
    assert any("instead of 5000" in warning for warning in reply["x_gezel"]["warnings"]), reply["x_gezel"]
    assert daemon.worker()["pid"] == pid


def test_a_model_whose_file_changed_is_loaded_again_when_nobody_is_answered(make_daemon):
    daemon = make_daemon(flags=("--ctx", "2048", "--slots", "2"), start=False)
    source = daemon.home / "model.gguf"  # a copy of its own, which may be touched
    source.write_bytes(FILES["smollm2-135m-instruct"].read_bytes())
    imported = daemon.cli("import", source, "--id", "smollm2-135m-instruct", "--mode", "reference")
    assert imported.returncode == 0, imported.stderr
    daemon.start()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long_answer = pool.submit(daemon.chat, max_tokens=1000, ignore_eos=True, guards=False)
        wait_until(lambda: (daemon.worker() or {}).get("slots_busy"), seconds=120, what="a running answer")
        pid = daemon.worker()["pid"]
        os.utime(source)
        wait_until(lambda: daemon.chat(max_tokens=1)[0] == 200 and (daemon.worker() or {}).get("stale") == "files",
                   seconds=120, what="the changed file to be noticed")
        assert daemon.worker()["pid"] == pid
        assert long_answer.result()[0] == 200
    wait_until(lambda: (daemon.worker() or {}).get("pid") != pid, what="the old worker's end")
    assert daemon.chat(max_tokens=2)[0] == 200
    assert daemon.worker()["pid"] != pid
    assert "engine process ended unexpectedly" not in (daemon.home / "daemon.log").read_text()
