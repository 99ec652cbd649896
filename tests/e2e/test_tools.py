"""Tool calls through the official client. Neither test model's template shows tools: they are described in the system text."""

import json

import openai
import pytest

from conftest import GEMMA3, SMOLLM2

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "Tells the weather of a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 40},
                                                    "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city"], "additionalProperties": False}}}
PING = {"type": "function", "function": {"name": "ping", "parameters": {"type": "object", "properties": {},
                                                                        "additionalProperties": False}}}


@pytest.fixture
def client(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key=daemon.key, max_retries=0)


def ask(client, content="What is the weather in Oslo?", **fields):
    fields.setdefault("max_tokens", 200)
    fields.setdefault("model", SMOLLM2)
    fields.setdefault("tools", [WEATHER, PING])
    return client.chat.completions.create(messages=[{"role": "user", "content": content}], **fields)


def check_call(call):
    assert call.type == "function"
    assert call.id.startswith("call_")
    arguments = json.loads(call.function.arguments)
    if call.function.name == "get_weather":
        assert isinstance(arguments["city"], str)
        assert set(arguments) <= {"city", "days"}
    else:
        assert call.function.name == "ping"
        assert arguments == {}


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
@pytest.mark.parametrize("seed", range(3))
def test_required_gives_calls_that_satisfy_their_schemas(client, model, seed):
    reply = ask(client, model=model, seed=seed, temperature=1.0, tool_choice="required", parallel_tool_calls=False)
    assert reply.choices[0].finish_reason == "tool_calls"
    assert len(reply.choices[0].message.tool_calls) == 1
    check_call(reply.choices[0].message.tool_calls[0])


@pytest.mark.parametrize("name", ["get_weather", "ping"])
def test_a_named_choice_calls_that_function(client, name):
    reply = ask(client, temperature=1.0, seed=2, parallel_tool_calls=False,
                tool_choice={"type": "function", "function": {"name": name}})
    assert [call.function.name for call in reply.choices[0].message.tool_calls] == [name]


def test_none_calls_nothing(client):
    reply = ask(client, tool_choice="none", temperature=0)
    assert not reply.choices[0].message.tool_calls
    assert reply.choices[0].finish_reason in ("stop", "length")


def test_the_reply_says_that_the_template_shows_no_tools(client):
    reply = ask(client, temperature=0, max_tokens=16)
    assert any("template" in warning for warning in reply.model_extra["x_gezel"]["warnings"])


def test_streamed_arguments_join_to_the_whole_ones(client):
    fields = {"temperature": 0, "seed": 1, "tool_choice": "required", "parallel_tool_calls": False}
    ask(client, **fields)  # from here on every run finds the same cells
    whole = ask(client, **fields).choices[0].message.tool_calls[0]
    name, arguments, reasons = "", "", []
    for chunk in ask(client, stream=True, **fields):
        if not chunk.choices:
            continue
        reasons.append(chunk.choices[0].finish_reason)
        for part in chunk.choices[0].delta.tool_calls or []:
            name += part.function.name or ""
            arguments += part.function.arguments or ""
    assert (name, arguments) == (whole.function.name, whole.function.arguments)
    assert reasons[-1] == "tool_calls"


def test_a_conversation_with_a_result_goes_on(client):
    call = ask(client, temperature=0, tool_choice="required", parallel_tool_calls=False).choices[0].message.tool_calls[0]
    reply = client.chat.completions.create(
        model=SMOLLM2, max_tokens=24, temperature=0, tools=[WEATHER, PING],
        messages=[{"role": "user", "content": "What is the weather in Oslo?"},
                  {"role": "assistant", "content": None, "tool_calls": [call.model_dump()]},
                  {"role": "tool", "tool_call_id": call.id, "content": "Sunny, 21 degrees."}])
    assert reply.choices[0].finish_reason in ("stop", "length", "tool_calls")


def test_a_strict_tool_whose_schema_cannot_be_enforced_is_refused(client):
    tool = {"type": "function", "function": {"name": "f", "strict": True, "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, tools=[tool])
    assert "uniqueItems" in error.value.message


def test_a_real_tool_servers_odd_schema_does_not_fail_the_request(client):
    tool = {"type": "function", "function": {"name": "f", "parameters": {
        "type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}}}
    reply = ask(client, tools=[tool], temperature=0, max_tokens=16)
    assert reply.choices[0].finish_reason in ("stop", "length", "tool_calls")
    assert any("uniqueItems" in warning for warning in reply.model_extra["x_gezel"]["warnings"])


def test_tools_that_no_window_holds_are_an_error_with_both_numbers(client):
    """Five hundred tools, a megabyte of schemas: the answer comes before anything is computed or compiled."""
    def tool(i):
        arguments = {f"argument_{j}_of_{i}": {"type": "string", "description": "What it is good for, in many words. " * 5}
                     for j in range(8)}
        return {"type": "function", "function": {"name": f"tool_{i}", "description": "Does something useful. " * 8,
                                                 "parameters": {"type": "object", "properties": arguments}}}
    tools = [tool(i) for i in range(500)]
    assert len(json.dumps(tools)) > 1_000_000
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, tools=tools)
    assert error.value.code == "context_length_exceeded"
    assert error.value.body["n_prompt_tokens"] > error.value.body["n_ctx"] > 0
    assert str(error.value.body["n_ctx"]) in error.value.message


def test_raw_policy_leaves_text_as_it_is(client):
    reply = ask(client, temperature=0, extra_body={"tool_policy": "raw"}, max_tokens=16)
    assert not reply.choices[0].message.tool_calls
