"""Prompts are computed once: what one request computed, others, later ones and the next process use."""

import concurrent.futures
import json
import os
import signal

import pytest

from conftest import GEMMA3, SMOLLM2, wait_until

# Of several hundred tokens, in words of their own.
SYSTEM = " ".join(f"Rule {n}: when somebody asks about topic number {n * 37 % 101}, say what part {n * 11 % 29} has to "
                  f"do with it." for n in range(40))


def ask(daemon, question, model=SMOLLM2, system=SYSTEM, tokens=12, headers=None, **fields):
    body = {"model": model, "temperature": 0, "max_tokens": tokens, **fields,
            "messages": [{"role": "system", "content": system}, {"role": "user", "content": question}]}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body, headers=headers)
    assert status == 200, raw
    reply = json.loads(raw)
    usage = reply["usage"]
    return reply["choices"][0]["message"]["content"], usage["prompt_tokens"], \
        usage["prompt_tokens_details"]["cached_tokens"]


def records(daemon):
    return sorted((daemon.home / "engines/embedded/kv").rglob("*.gkv"))


@pytest.fixture
def cold_answers(make_daemon):
    """What the models answer when every prompt is computed whole."""

    def answers(model, *questions):
        daemon = make_daemon(model, start=False)
        os.environ["GEZEL_KV_MODE"] = "none"
        try:
            daemon.start()
        finally:
            del os.environ["GEZEL_KV_MODE"]
        out = [ask(daemon, question, model) for question in questions]
        assert all(cached == 0 for _, _, cached in out)
        return [text for text, _, _ in out]

    return answers


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_conversations_with_the_same_system_text_compute_it_once(make_daemon, cold_answers, model):
    questions = ["What is topic 12 about?", "Name three rivers.", "Who are you?"]
    daemon = make_daemon(model)
    first, others = ask(daemon, questions[0], model), [ask(daemon, question, model) for question in questions[1:]]
    assert first[2] == 0
    for _, tokens, cached in others:
        assert tokens - 20 <= cached < tokens
    # Their prompts part behind the system text, so that their common beginning was computed in the same way.
    assert [first[0]] + [text for text, _, _ in others] == cold_answers(model, *questions)


def test_four_at_the_same_moment_compute_the_head_once(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=["--slots", "4"])
    ask(daemon, "Hello.", system="Be brief.")  # loads the model
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: ask(daemon, f"What is topic {n} about?"), range(4)))
    computed = sorted(tokens - cached for _, tokens, cached in replies)
    assert computed[:3] == pytest.approx([10] * 3, abs=12)
    assert computed[3] > 500
    assert daemon.stats()["cache"]["cached"]["coalesced"] > 1000


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_a_restart_keeps_what_was_computed(make_daemon, model):
    daemon = make_daemon(model)
    text, _, _ = ask(daemon, "What is topic 12 about?", model)
    daemon.stop()
    assert records(daemon)
    assert {path.stat().st_mode & 0o777 for path in records(daemon)} == {0o600}
    daemon.start()
    again, tokens, cached = ask(daemon, "What is topic 12 about?", model)
    assert cached >= tokens - 20
    assert again == text
    assert daemon.stats(model)["cache"]["cached"]["disk"] == cached


def test_another_model_in_between_costs_nothing(make_daemon):
    daemon = make_daemon(SMOLLM2, GEMMA3)
    ask(daemon, "What is topic 12 about?")
    assert daemon.cli("stop", SMOLLM2).returncode == 0
    ask(daemon, "What is topic 12 about?", GEMMA3)
    _, tokens, cached = ask(daemon, "What is topic 13 about?")
    assert cached >= tokens - 20


def test_without_the_disk_a_restart_begins_anew(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=["--no-disk-cache"])
    ask(daemon, "What is topic 12 about?")
    daemon.stop()
    assert records(daemon) == []
    daemon.start()
    assert ask(daemon, "What is topic 12 about?")[2] == 0


def test_damaged_files_cost_time_and_no_answer(make_daemon):
    daemon = make_daemon(SMOLLM2)
    text, _, _ = ask(daemon, "What is topic 12 about?")
    daemon.stop()
    for path in records(daemon):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    daemon.start()
    again, _, cached = ask(daemon, "What is topic 12 about?")
    assert again == text
    assert daemon.stats()["cache"]["corrupt"] >= 1


def test_a_killed_worker_leaves_files_that_are_whole(make_daemon):
    daemon = make_daemon(SMOLLM2)
    ask(daemon, "What is topic 12 about?")
    wait_until(lambda: records(daemon), 20, "a record on disk")
    os.kill(daemon.worker()["pid"], signal.SIGKILL)
    wait_until(lambda: daemon.worker() is None or daemon.worker()["state"] != "ready", 20, "the worker's end")
    text, tokens, cached = ask(daemon, "What is topic 14 about?")
    assert text and cached >= tokens - 20
    assert daemon.stats()["cache"]["corrupt"] == 0


def test_a_folder_that_cannot_be_written_costs_no_answer(make_daemon):
    daemon = make_daemon(SMOLLM2)
    root = daemon.home / "engines/embedded"
    root.mkdir(parents=True, exist_ok=True)
    (root / "kv").write_text("not a folder")
    first, _, _ = ask(daemon, "What is topic 12 about?")
    _, tokens, cached = ask(daemon, "What is topic 13 about?")
    assert first and cached >= tokens - 20


def test_the_memory_of_computed_prompts_is_reserved(make_daemon):
    daemon = make_daemon(SMOLLM2)
    ask(daemon, "What is topic 12 about?")
    cache = daemon.stats()["cache"]
    status, _, raw = daemon.request("GET", "/v1/memory")
    assert status == 200, raw
    (reservation,) = json.loads(raw)["reservations"]
    assert cache["mode"] == "full"
    assert 0 < cache["host_bytes"] <= cache["host_budget"] < reservation["cache"]
