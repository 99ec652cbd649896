"""Prompts are computed once: what one request computed, others, later ones and the next process use."""

import concurrent.futures
import json
import os
import signal
import typing

import pytest

from conftest import GEMMA3, SMOLLM2, wait_until
from tiny_model import family_template, write_tiny_model

TINY = "tiny"
# Of several hundred tokens, in words of their own.
SYSTEM = " ".join(f"Rule {n}: when somebody asks about topic number {n * 37 % 101}, say what part {n * 11 % 29} has to "
                  f"do with it." for n in range(40))


class Reply(typing.NamedTuple):
    text: str
    tokens: int  # of the prompt
    cached: int


def ask(daemon, question="", model=TINY, system=SYSTEM, tokens=12, messages=None, temperature=1, token=None):
    """What is sampled depends on all that the model computed, and on nothing else."""
    body = {"model": model, "temperature": temperature, "seed": 5, "max_tokens": tokens, "chat_template_kwargs":
            {"enable_thinking": False}, "messages": messages or
            [{"role": "system", "content": system}, {"role": "user", "content": question}]}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body, token, timeout=300)
    assert status == 200, raw
    reply = json.loads(raw)
    usage = reply["usage"]
    return Reply(reply["choices"][0]["message"]["content"], usage["prompt_tokens"],
                 usage["prompt_tokens_details"]["cached_tokens"])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A model that computes hundreds of tokens at once, so that the tests are about what is not computed."""
    return write_tiny_model(tmp_path_factory.mktemp("models") / "tiny.gguf", family_template("Qwen-Qwen3-0.6B"))


@pytest.fixture
def make(make_daemon, tiny):
    """A daemon with models; TINY is one."""

    def made(*models, flags=(), variables=None, config=None, start=True):
        daemon = make_daemon(*(model for model in models if model != TINY), flags=flags, start=False)
        if TINY in models:
            imported = daemon.cli("import", tiny, "--id", TINY)
            assert imported.returncode == 0, imported.stderr
        if config:
            (daemon.home / "config.json").write_text(json.dumps(config))
        if not start:
            return daemon
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (variables or {}).items():
                patch.setenv(name, value)
            daemon.start()
        return daemon

    return made


def records(daemon):
    return sorted((daemon.home / "engines/embedded/kv").rglob("*.gkv"))


QUESTIONS = ["What is topic 12 about? Tell me all that you know of it, and why it is so.",
             "Name three rivers of Europe, and for each of them a town that lies there.",
             "Who are you, who made you, and what would you like to be asked by people?"]


def test_conversations_with_the_same_system_text_compute_it_once(make):
    daemon = make(TINY)
    replies = [ask(daemon, question) for question in QUESTIONS]
    assert replies[0].cached == 0
    for reply in replies[1:]:
        assert reply.tokens - 40 <= reply.cached < reply.tokens
    cold = make(TINY, variables={"GEZEL_KV_MODE": "none"})
    whole = [ask(cold, question) for question in QUESTIONS]
    assert [reply.cached for reply in whole] == [0, 0, 0]
    assert [reply.text for reply in replies] == [reply.text for reply in whole]


def test_a_model_with_a_sliding_window_goes_on_at_its_checkpoints(make):
    daemon = make(GEMMA3)
    rules = " ".join(SYSTEM.split()[:240])
    first = ask(daemon, "Say hello. " * 20, GEMMA3, rules, tokens=2)
    assert first.cached == 0
    daemon.stop()
    daemon.start()
    second = ask(daemon, "Say goodbye. " * 20, GEMMA3, rules, tokens=2)
    assert 200 < second.cached < second.tokens
    cache = daemon.stats(GEMMA3)["cache"]
    assert cache["mode"] == "window"
    assert cache["cached"]["disk"] == second.cached


def test_four_at_the_same_moment_compute_the_head_once(make):
    daemon = make(TINY, flags=["--slots", "4"])
    ask(daemon, "Hello.", system="Be brief.")  # loads the model
    long_system = " ".join([SYSTEM] * 4)
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        replies = list(pool.map(lambda n: ask(daemon, f"{n}: {QUESTIONS[n % 3]}", system=long_system), range(4)))
    computed = sorted(reply.tokens - reply.cached for reply in replies)
    assert max(computed[:3]) < 60
    assert computed[3] > 1000


def test_a_conversation_whose_slot_was_taken_goes_on_where_it_was(make):
    daemon = make(TINY, flags=["--slots", "1"])
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": QUESTIONS[0]}]
    first = ask(daemon, messages=messages, tokens=60)
    ask(daemon, QUESTIONS[1], system="Other rules: " + " ".join(reversed(SYSTEM.split())))
    messages += [{"role": "assistant", "content": first.text}, {"role": "user", "content": QUESTIONS[2]}]
    second = ask(daemon, messages=messages)
    assert second.cached >= first.tokens - 16
    assert daemon.stats(TINY)["cache"]["cached"]["host"] == second.cached


def test_a_restart_keeps_what_was_computed(make):
    daemon = make(TINY)
    first = ask(daemon, QUESTIONS[0])
    daemon.stop()
    assert records(daemon)
    assert {path.stat().st_mode & 0o777 for path in records(daemon)} == {0o600}
    daemon.start()
    again = ask(daemon, QUESTIONS[0])
    assert again.cached == again.tokens - 1
    assert daemon.stats(TINY)["cache"]["cached"]["disk"] == again.cached
    other = ask(daemon, QUESTIONS[1])
    assert other.cached >= other.tokens - 40
    assert first.tokens == again.tokens


def test_another_model_in_between_costs_nothing(make):
    daemon = make(TINY, SMOLLM2)
    ask(daemon, QUESTIONS[0])
    assert daemon.cli("stop", TINY).returncode == 0
    ask(daemon, "Hi", SMOLLM2, "Be brief.", tokens=1)
    reply = ask(daemon, QUESTIONS[1])
    assert reply.cached >= reply.tokens - 40


def test_without_the_disk_a_restart_begins_anew(make):
    daemon = make(TINY, flags=["--no-disk-cache"])
    ask(daemon, QUESTIONS[0])
    daemon.stop()
    assert records(daemon) == []
    daemon.start()
    assert ask(daemon, QUESTIONS[0]).cached == 0


def test_damaged_files_cost_time_and_no_answer(make):
    daemon = make(TINY)
    first = ask(daemon, QUESTIONS[0])
    daemon.stop()
    for path in records(daemon):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    daemon.start()
    again = ask(daemon, QUESTIONS[0])
    assert again.text == first.text
    assert daemon.stats(TINY)["cache"]["corrupt"] >= 1


def test_a_killed_worker_leaves_files_that_are_whole(make):
    daemon = make(TINY)
    ask(daemon, QUESTIONS[0])
    wait_until(lambda: records(daemon), 20, "a record on disk")
    os.kill(daemon.worker("llama-cpp:" + TINY)["pid"], signal.SIGKILL)
    wait_until(lambda: (daemon.worker("llama-cpp:" + TINY) or {"state": ""})["state"] != "ready", 20, "its end")
    reply = ask(daemon, QUESTIONS[1])
    assert reply.cached >= reply.tokens - 40
    assert daemon.stats(TINY)["cache"]["corrupt"] == 0


def test_a_folder_that_cannot_be_used_costs_no_answer(make):
    daemon = make(TINY)
    root = daemon.home / "engines/embedded"
    root.mkdir(parents=True, exist_ok=True)
    (root / "kv").write_text("not a folder")
    assert ask(daemon, QUESTIONS[0]).text
    reply = ask(daemon, QUESTIONS[1])
    assert reply.cached >= reply.tokens - 40


def test_the_memory_of_computed_prompts_is_reserved(make):
    daemon = make(TINY)
    ask(daemon, QUESTIONS[0])
    cache = daemon.stats(TINY)["cache"]
    status, _, raw = daemon.request("GET", "/v1/memory")
    assert status == 200, raw
    (reservation,) = json.loads(raw)["reservations"]
    assert cache["mode"] == "full"
    assert 0 < cache["host_bytes"] <= cache["host_budget"] < reservation["cache"]


def test_the_same_prompt_again_is_not_computed_again_without_memory(make):
    daemon = make(TINY, flags=["--slots", "4"], config={"cacheBudgetMb": {"embedded": 0}})
    ask(daemon, QUESTIONS[0], system="Be brief.", tokens=200)
    again = ask(daemon, QUESTIONS[0], system="Be brief.", tokens=200)
    assert again.cached == again.tokens - 1


@pytest.mark.parametrize("scope", ["model", "tenant"])
def test_applications_share_prompts_unless_they_are_tenants(make, scope):  # spec 40, case 52
    daemon = make(TINY, config={"embeddedCacheScope": scope})
    ask(daemon, QUESTIONS[0])
    other = ask(daemon, QUESTIONS[1], token=daemon.token)
    assert (other.cached > other.tokens - 40) == (scope == "model")
    assert ask(daemon, QUESTIONS[1]).cached > other.tokens - 40
    daemon.stop()
    daemon.start()
    own = ask(daemon, QUESTIONS[1], token=daemon.token)
    assert own.cached == own.tokens - 1


def test_a_pin_holds_after_a_restart(make):
    daemon = make(TINY)
    ask(daemon, QUESTIONS[0])
    assert daemon.cli("cache", "flush", TINY).returncode == 0

    def nodes():
        status, _, raw = daemon.request("GET", f"/api/cache?model={TINY}", token=daemon.token)
        assert status == 200, raw
        return json.loads(raw)["nodes"]

    (system,) = [node for node in nodes() if node["class"] == "system"]
    assert system["bytes"]["disk"] > 0
    status, _, raw = daemon.request("POST", "/api/cache/pin", {"model": TINY, "id": system["id"]}, token=daemon.token)
    assert status == 200, raw
    daemon.stop()
    daemon.start()
    ask(daemon, QUESTIONS[1])
    assert [(node["end"], node["pins"]) for node in nodes() if node["pins"] > 0] == [(system["end"], 1)]
    assert daemon.stats(TINY)["cache"]["corrupt"] == 0


def test_what_was_cached_can_be_verified(make):
    daemon = make(TINY, flags=["--slots", "1"], variables={"GEZEL_KV_VERIFY": "1"})
    for question in QUESTIONS:
        ask(daemon, question)
    cache = daemon.stats(TINY)["cache"]
    assert (cache["verified"], cache["verify_failed"]) == (2, 0)


def test_a_second_model_takes_the_firsts_cache_before_its_place(make):
    daemon = make(TINY, SMOLLM2, flags=["--slots", "4"], variables={"GEZEL_CAPACITY_BUDGET_GB": "1"})

    def cache_of(model):
        status, _, raw = daemon.request("GET", "/v1/memory")
        assert status == 200, raw
        return {entry["key"]: entry["cache"] for entry in json.loads(raw)["reservations"]}.get(f"llama-cpp:{model}:0")

    ask(daemon, QUESTIONS[0])
    before = cache_of(TINY)
    ask(daemon, "Hi", SMOLLM2, "Be brief.", tokens=1)
    after = cache_of(TINY)
    assert after is not None, "the first model is still there"
    assert after < before
    assert ask(daemon, QUESTIONS[1]).cached > 0


def test_a_word_that_the_variables_do_not_know_is_named_and_ignored(make):
    daemon = make(TINY, variables={"GEZEL_KV_MODE": "all", "GEZEL_KV_VERIFY": "yes"})
    ask(daemon, QUESTIONS[0])
    assert ask(daemon, QUESTIONS[0]).cached > 0
    log = (daemon.home / "daemon.log").read_text()
    assert "GEZEL_KV_MODE is 'all'; it may be auto or none" in log
    assert "GEZEL_KV_VERIFY is 'yes'; it may be 0 or 1" in log
