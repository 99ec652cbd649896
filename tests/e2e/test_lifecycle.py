"""Starting, crashing, stopping and cancelling, with real processes."""

import json
import os
import pathlib
import random
import signal
import socket
import threading
import time
import urllib.request

import pytest

from conftest import FILES, GEMMA3, SMOLLM2, stream_events, wait_until


def open_stream(daemon, content="Write a long story about the sea.", model=SMOLLM2, **fields):
    body = {"model": model, "stream": True, "messages": [{"role": "user", "content": content}], "max_tokens": 4000,
            "ignore_eos": True, **fields}
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {daemon.key}")
    return urllib.request.urlopen(request, timeout=120)


def test_a_killed_worker_costs_only_its_own_requests(make_daemon):
    daemon = make_daemon(SMOLLM2, GEMMA3)
    daemon.chat(model=GEMMA3)
    stream = open_stream(daemon)
    other = open_stream(daemon, model=GEMMA3, max_tokens=60)
    events = stream_events(stream)
    for _ in range(5):
        next(events)
    os.kill(daemon.worker()["pid"], signal.SIGKILL)
    last = list(events)[-1]
    assert last["error"]["code"] == "engine_crashed"
    assert "native-" in json.dumps(last)
    finish = [event for event in stream_events(other) if event["choices"] and event["choices"][0]["finish_reason"]]
    assert finish[-1]["choices"][0]["finish_reason"] == "length"
    status, _ = daemon.chat()
    assert status == 200


def test_a_killed_daemon_takes_its_workers_along(make_daemon):
    """Spec 30, case 20."""
    daemon = make_daemon(SMOLLM2)
    daemon.chat()
    pid = daemon.worker()["pid"]
    daemon.process.kill()
    daemon.process.wait()
    wait_until(lambda: not pathlib.Path(f"/proc/{pid}").exists(), 5, "the worker to be gone")
    daemon.start()
    assert daemon.chat()[0] == 200


def test_a_second_daemon_on_the_same_home_is_refused_by_name(make_daemon):
    daemon = make_daemon()
    result = daemon.cli("serve", "--port", "0")
    assert result.returncode == 1
    assert str(daemon.process.pid) in result.stderr


def test_stop_ends_open_streams_and_removes_the_runtime_files(make_daemon):
    daemon = make_daemon(SMOLLM2)
    stream = open_stream(daemon)
    events = stream_events(stream)
    next(events)
    busy = daemon.cli("stop")
    assert busy.returncode == 1 and "--force" in busy.stderr
    assert daemon.cli("stop", "--force").returncode == 0
    list(events)
    assert daemon.process.wait(20) == 0
    assert list((daemon.home / "runtime").iterdir()) == []


def test_two_models_are_loaded_at_once(daemon):
    assert daemon.chat()[0] == 200
    assert daemon.chat(model=GEMMA3)[0] == 200
    assert {entry["id"] for entry in daemon.ps() if entry["state"] == "ready"} >= {SMOLLM2, GEMMA3}


def test_unloading_a_busy_model_needs_force(make_daemon):
    daemon = make_daemon(SMOLLM2)
    stream = open_stream(daemon)
    events = stream_events(stream)
    next(events)
    stop = lambda **fields: daemon.request("POST", "/api/stop", {"model": SMOLLM2, **fields}, token=daemon.token)
    assert stop()[0] == 409
    assert stop(force=True)[0] == 200
    list(events)
    assert stop()[0] == 404


@pytest.mark.parametrize("name,damage,reason", [
    ("zero", lambda data: b"", "is empty (0 bytes)"),
    ("truncated", lambda data: data[: len(data) // 2], "is truncated by "),
    ("magic", lambda data: b"GGML" + data[4:], 'begins with "GGML" instead of "GGUF"'),
    ("version", lambda data: data[:4] + b"\xff\xff\xff\xff" + data[8:], "unsupported GGUF version 4294967295"),
    ("count", lambda data: data[:8] + b"\xff" * 8 + data[16:], "18446744073709551615 tensors, at most "),
    ("metadata", lambda data: data[:40] + bytes(random.Random(1).randbytes(4000)) + data[4040:],
     "unknown value type"),
])
def test_a_damaged_file_is_a_clear_error(make_daemon, tmp_path, name, damage, reason):
    daemon = make_daemon(SMOLLM2)
    file = tmp_path / f"{name}.gguf"
    file.write_bytes(damage(FILES["smollm2-135m-instruct"].read_bytes()))
    result = daemon.cli("import", file)
    assert result.returncode == 1, result
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.stderr  # one sentence, no stack trace
    assert lines[0].startswith("error: ") and lines[0].endswith("(model_invalid)")
    assert file.name in lines[0] and reason in lines[0]
    assert daemon.chat()[0] == 200


def test_damaged_tensor_data_is_refused_with_both_digests(make_daemon, tmp_path):
    daemon = make_daemon()
    file = tmp_path / "model.gguf"
    file.write_bytes(FILES["smollm2-135m-instruct"].read_bytes())
    assert daemon.cli("import", file, "--id", "copy", "--mode", "copy").returncode == 0
    installed = next((daemon.home / "engines/llama-cpp/models/copy").glob("*.gguf"))
    data = bytearray(installed.read_bytes())
    data[-1000] ^= 0xFF
    installed.write_bytes(data)
    result = daemon.cli("doctor", "--deep")
    assert "copy" in result.stdout + result.stderr

    def refused():
        status, body = daemon.chat(model="llama-cpp:copy")
        return status == 503 and body["error"]["code"] == "model_invalid" and body

    body = wait_until(refused, 30, "the damaged model to be refused")
    import hashlib
    assert hashlib.sha256(data).hexdigest() in body["error"]["message"]


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_a_thousand_cancelled_requests_leak_nothing(make_daemon):
    daemon = make_daemon(SMOLLM2)
    daemon.chat()
    before_stats = daemon.stats()
    before_daemon = descriptors(daemon.process.pid)
    choose = random.Random(3)
    moments = [choose.choice([0, 0, 0.001, 0.005, 0.02, 0.05]) for _ in range(1000)]
    lock = threading.Lock()

    def client():
        while True:
            with lock:
                if not moments:
                    return
                pause = moments.pop()
            body = json.dumps({"model": SMOLLM2, "stream": True, "max_tokens": 200, "messages": [
                {"role": "user", "content": "tell me " * choose.randrange(1, 300)}]}).encode()
            head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n"
                    f"Content-Length: {len(body)}\r\n\r\n").encode()
            connection = socket.create_connection(("127.0.0.1", daemon.port))
            connection.sendall(head + body)
            time.sleep(pause)
            connection.close()

    clients = [threading.Thread(target=client) for _ in range(16)]
    for thread in clients:
        thread.start()
    for thread in clients:
        thread.join()
    # Only once the daemon has let go of every connection can no further request reach the worker.
    wait_until(lambda: descriptors(daemon.process.pid) <= before_daemon, 30, "the daemon's descriptors to be closed")
    wait_until(lambda: daemon.stats()["sequences"] == 0, 30, "every cancelled run to be gone")
    stats = daemon.stats()
    assert stats["prompt_tokens_total"] > before_stats["prompt_tokens_total"], "no cancelled request was ever running"
    assert stats["queued"] == 0
    assert stats["fds"] <= before_stats["fds"]
    status, body = daemon.chat()
    assert status == 200, body
    assert daemon.stats()["prompt_tokens_total"] > stats["prompt_tokens_total"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_closes_in_the_silence_of_its_answer_frees_the_slot(make_daemon, stream):
    daemon = make_daemon(SMOLLM2, flags=("--slots", "1"))
    daemon.chat()
    # Read for seconds before the first token, and not a word is sent meanwhile.
    body = json.dumps({"model": SMOLLM2, "stream": stream, "max_tokens": 4000, "ignore_eos": True,
                       "messages": [{"role": "user", "content": "tell me more " * 1500}]}).encode()
    with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
        connection.sendall((f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                            f"{daemon.key}\r\nContent-Length: {len(body)}\r\n\r\n").encode() + body)
        wait_until(lambda: daemon.worker()["slots_busy"] == 1, 30, "the request to run")
    wait_until(lambda: daemon.worker()["slots_busy"] == 0, 5, "the slot to be free")


def resident_kib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


def test_the_memory_of_large_bodies_is_returned(make_daemon):
    daemon = make_daemon(SMOLLM2)
    for _ in range(3):
        assert daemon.request("POST", "/v1/chat/completions", b"[" + b'"word",' * 8_000_000 + b'"end"]')[0] == 400
    wait_until(lambda: resident_kib(daemon.process.pid) < 48 * 1024, 30, "the daemon to be small again")


def test_health_answers_at_once_and_the_idle_daemon_is_small(make_daemon):
    daemon = make_daemon(SMOLLM2)
    # Without a key and without a model loaded: nothing is waited for.
    status, _, body = daemon.request("GET", "/health", token="", timeout=1)
    assert status == 200 and json.loads(body)["ok"] is True, body
    assert daemon.worker() is None
    resident = resident_kib(daemon.process.pid)
    assert resident < 30 * 1024, f"{resident} KiB resident"


def test_the_worker_is_locked_down(make_daemon):
    daemon = make_daemon(SMOLLM2)
    daemon.chat()
    status = pathlib.Path(f"/proc/{daemon.worker()['pid']}/status").read_text()
    assert "Seccomp:\t2" in status
    assert "NoNewPrivs:\t1" in status
