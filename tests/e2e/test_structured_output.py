"""Answers that must have a form: response_format through the official client, judged by an independent validator."""

import json
import re

import fastjsonschema
import openai
import pytest

from conftest import GEMMA3, SMOLLM2, stream_events

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "colours": {"type": "array", "items": {"enum": ["red", "green", "blue"]}, "maxItems": 3},
    },
    "required": ["name", "age", "colours"],
    "additionalProperties": False,
}


@pytest.fixture
def client(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key=daemon.key, max_retries=0)


def ask(client, content="Describe a person.", **fields):
    fields.setdefault("max_tokens", 200)
    fields.setdefault("model", SMOLLM2)
    return client.chat.completions.create(messages=[{"role": "user", "content": content}], **fields)


def schema_format(schema, name="answer"):
    return {"type": "json_schema", "json_schema": {"name": name, "schema": schema, "strict": True}}


@pytest.mark.parametrize("model", [SMOLLM2, GEMMA3])
@pytest.mark.parametrize("seed", range(4))
def test_an_answer_with_a_schema_satisfies_it(client, model, seed):
    reply = ask(client, model=model, seed=seed, temperature=1.0, response_format=schema_format(PERSON))
    assert reply.choices[0].finish_reason == "stop"
    fastjsonschema.validate(PERSON, json.loads(reply.choices[0].message.content))


def test_json_object_gives_an_object(client):
    reply = ask(client, response_format={"type": "json_object"}, max_tokens=400, seed=3)
    if reply.choices[0].finish_reason == "stop":
        assert isinstance(json.loads(reply.choices[0].message.content), dict)
    else:
        assert reply.choices[0].message.content.startswith("{")


def test_white_space_between_tokens_is_one_blank_or_none(client):
    text = ask(client, temperature=0, response_format=schema_format(PERSON)).choices[0].message.content
    assert text == json.dumps(json.loads(text), ensure_ascii=False)


def test_streamed_and_whole_answers_are_equal(client):
    fields = {"temperature": 0, "seed": 1, "response_format": schema_format(PERSON)}
    ask(client, **fields)  # from here on every run finds the same cells
    whole = ask(client, **fields).choices[0].message.content
    parts = [chunk.choices[0].delta.content or "" for chunk in ask(client, stream=True, **fields)]
    assert "".join(parts) == whole


def test_a_cut_answer_ends_with_length_and_is_delivered(client):
    reply = ask(client, max_tokens=6, response_format=schema_format(PERSON))
    assert reply.choices[0].finish_reason == "length"


def test_a_regular_expression_holds_for_the_whole_answer(client):
    reply = ask(client, extra_body={"response_format": {"type": "grammar", "syntax": "regex",
                                                        "definition": "[A-F][0-9]{3}"}})
    assert re.fullmatch("[A-F][0-9]{3}", reply.choices[0].message.content)


def test_a_grammar_in_the_notation_of_llama_cpp_is_taken(client):
    reply = ask(client, extra_body={"grammar": 'root ::= "yes" | "no"'})
    assert reply.choices[0].message.content in ("yes", "no")


def test_a_schema_that_cannot_be_enforced_is_refused_before_anything_is_decoded(daemon, client):
    before = daemon.stats()["generated_tokens_total"] if daemon.worker() else 0
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, response_format=schema_format(
            {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True}}}))
    assert error.value.code == "unsupported_response_format"
    assert "uniqueItems" in error.value.message
    assert "/properties/a" in error.value.message
    after = daemon.stats()["generated_tokens_total"] if daemon.worker() else 0
    assert after == before


def test_that_refusal_is_plain_json_for_a_stream_as_well(daemon):
    status, headers, body = daemon.request("POST", "/v1/chat/completions", {
        "model": SMOLLM2, "stream": True, "messages": [{"role": "user", "content": "Hi"}],
        "response_format": schema_format({"not": {"pattern": "(?=a)"}})})
    assert status == 400
    assert headers["content-type"].startswith("application/json")
    assert json.loads(body)["error"]["code"] == "unsupported_response_format"


def test_every_run_keeps_its_own_constraint_when_others_end_and_join(daemon, client):
    """B25: a plain answer ends beside a schema answer that goes on, and another one takes its place in the batch."""
    people = {"type": "array", "items": PERSON, "minItems": 4, "maxItems": 4}
    alone = daemon.chat("Write about the sea.", max_tokens=48)[1]["choices"][0]["message"]["content"]
    stream = client.chat.completions.create(
        model=SMOLLM2, messages=[{"role": "user", "content": "Describe people."}], max_tokens=600, temperature=1.0,
        seed=5, stream=True, response_format=schema_format(people))
    chunks = iter(stream)
    text, reason, beside = "", None, []
    for chunk in chunks:
        text += chunk.choices[0].delta.content or "" if chunk.choices else ""
        reason = chunk.choices[0].finish_reason or reason if chunk.choices else reason
        # Each of them begins and ends while the schema answer is on its way.
        if text and len(beside) < 3 and reason is None:
            beside.append(daemon.chat("Write about the sea.", max_tokens=(6, 8, 6)[len(beside)]))
    assert reason == "stop"
    fastjsonschema.validate(people, json.loads(text))
    assert len(beside) == 3
    for status, reply in beside:
        assert status == 200
        content = reply["choices"][0]["message"]["content"]
        assert not content.lstrip().startswith(("[", "{"))
        assert alone.split()[:2] == content.split()[:2]


@pytest.mark.parametrize("offered", [False, True], ids=["alone", "tools"])
def test_a_long_answer_that_repeats_itself_is_not_stopped_where_a_form_holds(client, offered):
    # B26. Eighty times one of two texts: nothing but repetition, and every time it is the model's choice.
    texts = [f"{first} international organisations and administrative responsibilities in information technology, "
             "environmental protection, international development, professional communication, public administration, "
             "agricultural engineering and computational science" for first in ("Large", "Small")]
    schema = {"type": "array", "items": {"enum": texts}, "minItems": 80, "maxItems": 80}
    tool = {"type": "function", "function": {"name": "note", "parameters": {"type": "object", "properties": {}}}}
    reply = ask(client, "List them.", temperature=0, max_tokens=7500, response_format=schema_format(schema),
                **({"tools": [tool]} if offered else {}))
    content = reply.choices[0].message.content
    assert reply.choices[0].finish_reason == "stop"
    assert len(json.loads(content)) == 80
    assert len(content) >= 20_000
    assert "stop" not in (reply.model_extra.get("x_gezel") or {})


def test_plain_requests_beside_a_schema_request_stay_free(daemon, client):
    plain = daemon.chat("Write about the sea.", max_tokens=40)[1]["choices"][0]["message"]["content"]
    stream = client.chat.completions.create(
        model=SMOLLM2, messages=[{"role": "user", "content": "Describe a person."}], max_tokens=300, temperature=1.0,
        seed=5, stream=True, response_format=schema_format({"type": "array", "items": PERSON, "minItems": 4}))
    first = next(chunk for chunk in stream if chunk.choices[0].delta.content)
    beside = daemon.chat("Write about the sea.", max_tokens=40)[1]["choices"][0]["message"]["content"]
    text = first.choices[0].delta.content + "".join(c.choices[0].delta.content or "" for c in stream if c.choices)
    assert text.startswith("[")
    assert not beside.startswith("[")
    assert beside.split()[:3] == plain.split()[:3]
