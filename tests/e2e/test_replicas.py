"""One model in two workers of one daemon."""

import json
import os
import pathlib
import signal

from conftest import SMOLLM2, wait_until

MODEL_WITHOUT_FAMILY = SMOLLM2.split(":", 1)[1]


def start(make_daemon, replicas=2, **settings):
    daemon = make_daemon(SMOLLM2, start=False)
    (daemon.home / "config.json").write_text(json.dumps({"localEngineReplicas": {SMOLLM2: replicas}, **settings}))
    return daemon.start()


def ask(daemon, session, content="Say hello.", **fields):
    body = {"model": SMOLLM2, "messages": [{"role": "user", "content": content}], "temperature": 0, "max_tokens": 8,
            **fields}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body, headers={"X-Session-Id": session})
    return status, json.loads(raw)


def workers(daemon):
    entry = daemon.worker()
    return entry["replicas"] if entry else []


def two(daemon):
    """Two conversations are enough for a second worker; waits until it is loaded."""
    assert ask(daemon, "a")[0] == 200
    assert ask(daemon, "b")[0] == 200

    def both_ready():
        found = workers(daemon)
        return found if [one["state"] for one in found] == ["ready", "ready"] else None

    return wait_until(both_ready, 60, "the second worker")


def test_a_second_conversation_brings_a_second_worker_and_new_ones_go_there(make_daemon):
    daemon = start(make_daemon)
    found = two(daemon)
    assert found[0]["pid"] != found[1]["pid"]
    assert [one["sessions"] for one in found] == [2, 0], "nobody waited for the second worker"
    assert ask(daemon, "c")[0] == 200
    assert [one["sessions"] for one in workers(daemon)] == [2, 1]
    entry = daemon.worker()
    assert entry["bytes"] == sum(one["bytes"] for one in found)
    assert entry["slots"] == sum(one["slots"] for one in found)
    status, _, raw = daemon.request("GET", "/v1/memory", token=daemon.token)
    assert status == 200
    held = [one["key"] for one in json.loads(raw)["reservations"]]
    assert held == [f"llama-cpp:{MODEL_WITHOUT_FAMILY}:0", f"llama-cpp:{MODEL_WITHOUT_FAMILY}:1"]


def test_a_conversation_finds_its_cached_tokens_again(make_daemon):
    daemon = start(make_daemon)
    two(daemon)
    question = "Remember these words: " + " ".join(f"word{i}" for i in range(120))
    assert ask(daemon, "long", question)[0] == 200
    for other in ("d", "e", "f"):
        assert ask(daemon, other, f"{other}: something else entirely")[0] == 200
    status, reply = ask(daemon, "long", question)
    assert status == 200
    usage = reply["usage"]
    assert usage["prompt_tokens_details"]["cached_tokens"] > 0.9 * usage["prompt_tokens"]


def test_a_worker_that_dies_leaves_the_other_alone(make_daemon):
    daemon = start(make_daemon)
    found = two(daemon)
    assert ask(daemon, "c")[0] == 200
    os.kill(found[1]["pid"], signal.SIGKILL)
    wait_until(lambda: len(workers(daemon)) == 1, 10, "the dead worker to be gone from the list")
    assert workers(daemon)[0]["pid"] == found[0]["pid"]
    for session in ("a", "b", "c"):
        assert ask(daemon, session)[0] == 200


def test_stopping_the_model_ends_both(make_daemon):
    daemon = start(make_daemon)
    found = two(daemon)
    status, _, raw = daemon.request("POST", "/api/stop", {"model": SMOLLM2}, token=daemon.token)
    assert status == 200, raw
    assert workers(daemon) == []
    for one in found:
        assert not pathlib.Path(f"/proc/{one['pid']}").exists()


def test_without_room_there_is_one_worker_and_it_answers_everybody(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", "0.5")
    daemon = start(make_daemon)
    for session in ("a", "b", "c", "d"):
        assert ask(daemon, session)[0] == 200
    assert len(workers(daemon)) == 1


def test_never_more_than_the_most(make_daemon):
    daemon = start(make_daemon, replicas=9, localEngineReplicasMax=1)
    for session in ("a", "b"):
        assert ask(daemon, session)[0] == 200
    assert "replicas" not in daemon.worker()
