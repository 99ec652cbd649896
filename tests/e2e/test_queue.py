"""Lanes, places and deadlines of requests that wait, with real models."""

import concurrent.futures
import json
import os
import pathlib
import socket
import threading
import urllib.request

import pytest

from conftest import GEMMA3, SMOLLM2, stream_events, wait_until

# Room for one of the two models at a time.
TIGHT = "0.42"
LONG = {"max_tokens": 1500, "ignore_eos": True}


def ask(daemon, content="Say hello.", model=SMOLLM2, lane=None, queue_timeout=None, timeout=300, **fields):
    """Returns (status, reply, headers) of a chat request."""
    headers = {}
    if lane:
        headers["X-Gezel-Lane"] = lane
    if queue_timeout is not None:
        headers["X-Gezel-Queue-Timeout"] = str(queue_timeout)
    body = {"model": model, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 16,
            **fields}
    status, reply_headers, raw = daemon.request("POST", "/v1/chat/completions", body, headers=headers,
                                                timeout=timeout)
    return status, json.loads(raw), reply_headers


def open_stream(daemon, **fields):
    body = {"model": SMOLLM2, "stream": True, "messages": [{"role": "user", "content": "Hi"}], **fields}
    request = urllib.request.Request(daemon.url + "/v1/chat/completions", json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {daemon.key}")
    return urllib.request.urlopen(request, timeout=300)


def send_raw(daemon, **fields):
    """Sends a request and leaves its answer to come; closing the socket gives it up."""
    body = json.dumps({"model": SMOLLM2, "messages": [{"role": "user", "content": "Hi"}], **fields}).encode()
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\n"
            f"Authorization: Bearer {daemon.key}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n").encode()
    connection = socket.create_connection(("127.0.0.1", daemon.port))
    connection.sendall(head + body)
    return connection


def busy(daemon, model=SMOLLM2):
    return (daemon.worker(model) or {}).get("slots_busy", 0)


def queued(daemon, model=SMOLLM2):
    return (daemon.worker(model) or {}).get("queued", 0)


def log_of(daemon):
    return (daemon.home / "daemon.log").read_text()


def processes_and_descriptors(daemon):
    """How many children the daemon has, and how many descriptors are open in it."""
    pid = daemon.process.pid
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return len(children), len(os.listdir(f"/proc/{pid}/fd"))


def test_background_work_of_one_model_gives_way_to_interactive_work_of_another(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", TIGHT)
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=("--ctx", "1024", "--slots", "1"))
    enough = threading.Event()

    def background(number):
        answers = []
        while not enough.is_set():
            answers.append(ask(daemon, f"Count to {number}.", lane="background", max_tokens=32, ignore_eos=True)[0])
        return answers

    with concurrent.futures.ThreadPoolExecutor(12) as pool:
        many = [pool.submit(background, number) for number in range(12)]
        try:
            wait_until(lambda: busy(daemon) and daemon.worker()["lanes"]["background"]["queued"] > 4, what="background work")
            assert list(daemon.worker()["lanes"]) == ["background"]
            status, reply, _ = ask(daemon, model=GEMMA3)  # the background work never ends by itself
        finally:
            enough.set()
        assert status == 200, reply
        assert {answer for work in many for answer in work.result()} == {200}
    assert "engine process ended unexpectedly" not in log_of(daemon)


def test_a_request_that_may_not_wait_longer_is_told_for_whom_and_the_other_goes_on(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", TIGHT)
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=("--ctx", "2048", "--slots", "1"))
    stream = open_stream(daemon, **LONG)
    events = stream_events(stream)
    next(events)
    status, reply, headers = ask(daemon, model=GEMMA3, queue_timeout=3)
    assert status == 503, reply
    assert reply["error"]["code"] == "engine_busy"
    assert "waited 3 s" in reply["error"]["message"]
    assert "waiting for" in reply["error"]["message"]
    assert int({name.lower(): value for name, value in headers.items()}["retry-after"]) >= 1
    for _ in range(5):
        assert next(events)["choices"]
    stream.close()
    wait_until(lambda: daemon.worker(GEMMA3) is None, what="the load to be given up")


def test_a_model_that_can_never_fit_is_denied_before_anything_is_loaded(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", "0.1")
    daemon = make_daemon(SMOLLM2)
    status, reply, _ = ask(daemon)
    assert (status, reply["error"]["code"]) == (503, "capacity_denied")
    log = log_of(daemon)
    assert "capacity broker denied llama-cpp:smollm2-135m-instruct:0" in log
    assert "loading a model" not in log


def test_a_request_that_is_given_up_in_the_queue_never_reaches_the_engine(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--ctx", "2048", "--slots", "1"))
    connections = [send_raw(daemon, **LONG)]
    wait_until(lambda: busy(daemon), what="a busy slot")
    connections += [send_raw(daemon, max_tokens=4) for _ in range(3)]
    wait_until(lambda: queued(daemon) == 3, what="a full intake")
    last = send_raw(daemon, max_tokens=4)
    wait_until(lambda: queued(daemon) == 4, what="a request in the daemon's queue")
    last.close()
    wait_until(lambda: queued(daemon) == 3, what="its place to be free")
    for connection in connections:
        connection.close()
    wait_until(lambda: not busy(daemon) and not queued(daemon), what="an idle model")
    assert log_of(daemon).count('"outcome":"client_gone"') == 5


def test_a_full_queue_refuses_at_once_and_recovers(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--ctx", "2048", "--slots", "1"))
    connections = [send_raw(daemon, **LONG)]
    wait_until(lambda: busy(daemon), what="a busy slot")
    connections += [send_raw(daemon, max_tokens=4) for _ in range(3 + 256)]
    wait_until(lambda: queued(daemon) == 3 + 256, what="a full queue")
    status, reply, _ = ask(daemon)
    assert (status, reply["error"]["code"]) == (503, "engine_busy")
    assert "256" in reply["error"]["message"]
    for connection in connections:
        connection.close()
    wait_until(lambda: not busy(daemon) and not queued(daemon), what="an idle model")
    assert ask(daemon)[0] == 200


@pytest.mark.parametrize("header, value", [("X-Gezel-Lane", "fast"), ("X-Gezel-Queue-Timeout", "0")])
def test_a_wrong_header_is_named(daemon, header, value):
    body = {"model": SMOLLM2, "messages": [{"role": "user", "content": "Hi"}]}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body, headers={header: value})
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["param"]) == (400, "invalid_header", header.lower())
    assert value in error["message"]


def test_two_models_that_do_not_fit_together_answer_two_hundred_alternating_requests(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", TIGHT)
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=("--ctx", "1024", "--slots", "2"))
    models, requests, clients = (SMOLLM2, GEMMA3), 200, 20
    for model in models:
        assert ask(daemon, model=model, max_tokens=1)[0] == 200
    children, descriptors = processes_and_descriptors(daemon)
    loads = log_of(daemon).count('"message":"loading a model"')

    def client(number):
        return [ask(daemon, f"Count from {number} to {turn}.", model=models[(number + turn) % 2], max_tokens=4)[0]
                for turn in range(requests // clients)]

    with concurrent.futures.ThreadPoolExecutor(clients) as pool:
        answers = [status for statuses in pool.map(client, range(clients)) for status in statuses]
    assert answers == [200] * requests
    log = log_of(daemon)
    loads = log.count('"message":"loading a model"') - loads
    assert 1 <= loads < requests / 3, loads
    assert "engine process ended unexpectedly" not in log
    wait_until(lambda: processes_and_descriptors(daemon)[0] <= children, what="the last worker alone")
    # One worker's socket and pipe may be open more or less, and connections that clients keep.
    wait_until(lambda: processes_and_descriptors(daemon)[1] <= descriptors + 4, what="closed descriptors")
