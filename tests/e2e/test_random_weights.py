"""Calls, reasoning and forms out of a model that writes noise: all of them are the service's doing."""

import json

import fastjsonschema
import pytest

from conftest import stream_events
from tiny_model import MARKERS, family_template, write_tiny_model

TOKEN = {marker: str(token) for token, marker in MARKERS.items()}
PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "parameters": PARAMETERS}}
FORMAT = {"type": "json_schema", "json_schema": {"name": "forecast", "schema": PARAMETERS}}
CALLING, THINKING = "calling", "thinking"


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """One model that calls tools, and one whose prompt ends inside a block of reasoning."""
    folder = tmp_path_factory.mktemp("models")
    return {CALLING: write_tiny_model(folder / "calling.gguf", family_template("Qwen-Qwen3-0.6B")),
            THINKING: write_tiny_model(folder / "thinking.gguf", family_template("Qwen-QwQ-32B"))}


@pytest.fixture(scope="module")
def noise(daemon, models):
    """Asks one of the two models: noise(CALLING, ...) gives the whole reply."""
    for name, path in models.items():
        imported = daemon.cli("import", path, "--id", name)
        assert imported.returncode == 0, imported.stderr

    def ask(model, **fields):
        fields = {"temperature": 1, "max_tokens": 300, "seed": 1, **fields}
        status, reply = daemon.chat("What is the weather?", model=model, **fields)
        assert status == 200, reply
        return reply

    return ask


@pytest.mark.parametrize("seed", range(6))
def test_markers_of_a_required_call_are_written_as_the_tokens_that_they_are(noise, seed):
    choice = noise(CALLING, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, seed=seed,
                   logprobs=True)["choices"][0]
    written = [entry["token"] for entry in choice["logprobs"]["content"]]
    assert written[0] == "<tool_call>"
    assert written[-1] == "</tool_call>"
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    fastjsonschema.validate(PARAMETERS, json.loads(call["function"]["arguments"]))


def test_the_first_token_of_a_required_call_is_its_whole_marker(noise):
    choice = noise(CALLING, tools=[WEATHER], tool_choice="required", max_tokens=1)["choices"][0]
    assert choice["finish_reason"] == "length"
    assert choice["message"]["content"] in ("", "<tool_call>")


def test_without_a_choice_a_call_begins_with_the_token_and_is_held_to_its_schema(noise):
    message = noise(CALLING, tools=[WEATHER], logit_bias={TOKEN["<tool_call>"]: 12})["choices"][0]["message"]
    assert message["tool_calls"]
    for call in message["tool_calls"]:
        fastjsonschema.validate(PARAMETERS, json.loads(call["function"]["arguments"]))


def test_none_bans_the_token_that_opens_a_call_even_when_it_is_asked_for(noise):
    free = noise(CALLING, max_tokens=8, logit_bias={TOKEN["<tool_call>"]: 100})["choices"][0]["message"]
    assert free["content"].startswith("<tool_call><tool_call>"), "without tools the token is text like any other"
    choice = noise(CALLING, tools=[WEATHER], tool_choice="none", max_tokens=40, logprobs=True,
                   logit_bias={TOKEN["<tool_call>"]: 100})["choices"][0]
    assert not choice["message"].get("tool_calls")
    assert "<tool_call>" not in [entry["token"] for entry in choice["logprobs"]["content"]]


@pytest.mark.parametrize("seed", range(6))
def test_reasoning_is_free_and_the_content_behind_it_has_its_form(noise, seed):
    # B27. The closer is made likely enough to come after some dozens of tokens.
    choice = noise(THINKING, response_format=FORMAT, include_reasoning=True, seed=seed, max_tokens=2000,
                   logit_bias={TOKEN["</think>"]: 8})["choices"][0]
    assert choice["finish_reason"] == "stop"
    fastjsonschema.validate(PARAMETERS, json.loads(choice["message"]["content"]))


def test_reasoning_is_no_json_and_is_kept_apart(noise):  # B27, B50
    reply = noise(THINKING, response_format=FORMAT, include_reasoning=True, max_thinking_tokens=20)
    message = reply["choices"][0]["message"]
    fastjsonschema.validate(PARAMETERS, json.loads(message["content"]))
    assert len(message["reasoning_content"]) > 20
    with pytest.raises(ValueError):
        json.loads(message["reasoning_content"])
    assert 20 <= reply["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 22


def test_a_stream_of_reasoning_and_form_joins_to_the_whole_reply(daemon, noise):
    fields = {"response_format": FORMAT, "include_reasoning": True, "max_thinking_tokens": 12, "temperature": 0}
    noise(THINKING, **fields)  # from here on every run finds the same cells
    whole = noise(THINKING, **fields)["choices"][0]["message"]
    parts = {"content": "", "reasoning_content": ""}
    status, _, body = daemon.request("POST", "/v1/chat/completions", {
        "model": THINKING, "stream": True, "max_tokens": 300, "seed": 1,
        "messages": [{"role": "user", "content": "What is the weather?"}], **fields})
    assert status == 200
    for event in stream_events(line + b"\n" for line in body.split(b"\n")):
        for choice in event["choices"]:
            for name in parts:
                parts[name] += choice["delta"].get(name) or ""
    assert parts == {name: whole[name] for name in parts}
