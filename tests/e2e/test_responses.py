"""The Responses API through the official client for Python, unmodified."""

import json

import openai
import pytest

from conftest import SMOLLM2, wait_until

LOOK = {"type": "function", "name": "look", "description": "Looks at a place.",
        "parameters": {"type": "object", "properties": {"place": {"type": "string", "maxLength": 20}}, "required": ["place"],
                       "additionalProperties": False}}


@pytest.fixture
def client(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key=daemon.key, max_retries=0)


def ask(client, content="What is the capital of France?", **fields):
    fields = {"model": SMOLLM2, "max_output_tokens": 24, "temperature": 0, **fields}
    return client.responses.create(input=content, **fields)


def test_a_whole_response_has_text_and_usage(client):
    response = ask(client)
    assert response.output_text.strip()
    assert response.status in ("completed", "incomplete")
    assert response.usage.total_tokens == response.usage.input_tokens + response.usage.output_tokens
    assert response.usage.input_tokens_details.cached_tokens >= 0


def test_a_streamed_response_has_the_text_of_a_whole_one(client):
    ask(client)  # from here on every run finds the same cells
    whole = ask(client).output_text
    events = list(ask(client, stream=True))
    assert events[0].type == "response.created"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == whole
    assert events[-1].type in ("response.completed", "response.incomplete")
    assert events[-1].response.output_text == whole


def test_the_conversation_goes_on_with_what_was_answered(client):
    first = ask(client, [{"role": "user", "content": "Say one word."}])
    items = [{"role": "user", "content": "Say one word."}, *[item.model_dump() for item in first.output],
             {"role": "user", "content": "Another."}]
    second = ask(client, items)
    assert second.output_text.strip()
    assert second.usage.input_tokens_details.cached_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_and_its_result(client, stream):
    fields = {"tools": [LOOK], "max_output_tokens": 200, "parallel_tool_calls": False}
    question = {"role": "user", "content": "Look at the harbour."}
    response = ask(client, [question], tool_choice="required", stream=stream, **fields)
    if stream:
        response = list(response)[-1].response
    (call,) = [item for item in response.output if item.type == "function_call"]
    assert call.name == "look"
    assert isinstance(json.loads(call.arguments)["place"], str)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "Three ships."}
    assert ask(client, [question, call.model_dump(), result], **fields).status in ("completed", "incomplete")


def test_a_schema_is_kept(client):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 10}, "age": {"type": "integer"}},
              "required": ["name", "age"], "additionalProperties": False}
    response = ask(client, "Invent a person.", max_output_tokens=200,
                   text={"format": {"type": "json_schema", "name": "person", "schema": schema, "strict": True}})
    assert set(json.loads(response.output_text)) == {"name", "age"}


def test_errors_name_the_field(client):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, tools=[{"type": "web_search"}])
    assert error.value.code == "unsupported_tool"
    assert error.value.param == "tools[0].type"
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, previous_response_id="resp_1")
    assert error.value.code == "stored_state_not_supported"
    with pytest.raises(openai.NotFoundError):
        ask(client, model="llama-cpp:nothing")


def test_a_client_that_leaves_frees_the_slot(client, daemon):
    stream = ask(client, "Write a long story about the sea.", max_output_tokens=2000, stream=True)
    for _ in zip(range(6), stream):
        pass
    stream.close()

    def idle():
        (model,) = [entry for entry in daemon.ps() if entry["id"] == SMOLLM2]
        return model["slots_busy"] == 0

    wait_until(idle)
