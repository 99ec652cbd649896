"""Answers with calls that come back as JSON: the prompt has the bytes that were sampled, so it is not computed again."""

import json

import pytest

from conftest import GEMMA3, SMOLLM2
from test_tools import PING, WEATHER

USER = {"role": "user", "content": "What is the weather in Oslo and in Bergen? Look both up."}


def ask(daemon, messages, **fields):
    body = {"model": SMOLLM2, "messages": messages, "tools": [WEATHER, PING], "max_tokens": 160, "temperature": 0.8,
            "seed": 5, **fields}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body)
    assert status == 200, raw
    return json.loads(raw)


def first_call(daemon, **fields):
    reply = ask(daemon, [USER], tool_choice="required", **fields)
    answer = reply["choices"][0]["message"]
    assert answer["tool_calls"], reply
    return reply["usage"], answer


def with_results(answer):
    results = [{"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in answer["tool_calls"]]
    return [USER, answer, *results]


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
def test_what_was_sampled_is_not_computed_again(make_daemon, model):
    daemon = make_daemon(model)
    usage, answer = first_call(daemon, model=model)
    second = ask(daemon, with_results(answer), model=model, max_tokens=4)["usage"]
    # All of it but the token that ended the answer, the one before, which a template may join with what follows, and
    # what was begun of a call that the limit of tokens cut off: no client gets to see that, so none sends it back.
    assert second["prompt_tokens_details"]["cached_tokens"] >= usage["prompt_tokens"] + usage["completion_tokens"] - 16
    assert daemon.stats(model)["replayed_total"] == 1


def test_an_edited_call_is_computed_anew(make_daemon):
    daemon = make_daemon(SMOLLM2)
    usage, answer = first_call(daemon)
    answer["tool_calls"][0]["function"]["arguments"] = '{"city": "Rome"}'
    second = ask(daemon, with_results(answer), max_tokens=4)["usage"]
    assert second["prompt_tokens_details"]["cached_tokens"] <= usage["prompt_tokens"]
    assert daemon.stats()["replayed_total"] == 0


def test_it_is_still_known_after_a_restart(make_daemon):
    daemon = make_daemon(SMOLLM2)
    _, answer = first_call(daemon)
    daemon.stop()
    daemon.start()
    ask(daemon, with_results(answer), max_tokens=4)
    assert daemon.stats()["replayed_total"] == 1


def test_a_daemon_can_be_told_to_keep_nothing(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--no-replay-store",))
    _, answer = first_call(daemon)
    ask(daemon, with_results(answer), max_tokens=4)
    assert daemon.stats()["replayed_total"] == 0
    assert not (daemon.home / "replay").exists()
