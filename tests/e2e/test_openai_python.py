"""The official OpenAI client for Python, unmodified."""

import openai
import pytest

from conftest import GEMMA3, SMOLLM2, wait_until


@pytest.fixture
def client(daemon):
    return openai.OpenAI(base_url=daemon.url + "/v1", api_key=daemon.key, max_retries=0)


def ask(client, content, **fields):
    fields.setdefault("max_tokens", 24)
    fields.setdefault("temperature", 0)
    fields.setdefault("model", SMOLLM2)
    return client.chat.completions.create(messages=[{"role": "user", "content": content}], **fields)


def test_whole_reply_has_text_usage_and_finish_reason(client):
    reply = ask(client, "What is the capital of France?")
    assert reply.choices[0].message.content.strip()
    assert reply.choices[0].finish_reason in ("stop", "length")
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.total_tokens == reply.usage.prompt_tokens + reply.usage.completion_tokens
    assert reply.model == SMOLLM2


def test_streamed_and_whole_replies_have_the_same_text(client):
    ask(client, "Name three colours.", seed=1)  # from here on every run finds the same cells
    whole = ask(client, "Name three colours.", seed=1).choices[0].message.content
    parts = [chunk.choices[0].delta.content or "" for chunk in ask(client, "Name three colours.", seed=1, stream=True)]
    assert "".join(parts) == whole
    assert len([part for part in parts if part]) > 3


def test_usage_chunk_comes_last_when_asked_for(client):
    chunks = list(ask(client, "Hi", stream=True, stream_options={"include_usage": True}))
    assert chunks[-1].choices == []
    assert chunks[-1].usage.completion_tokens > 0
    assert all(chunk.usage is None for chunk in chunks[:-1])


def test_stop_string_ends_the_answer_before_it(client):
    text = ask(client, "Count from one to ten in digits, separated by commas.", stop=["5"], max_tokens=64)
    assert "5" not in text.choices[0].message.content
    assert text.choices[0].finish_reason == "stop"


def test_second_turn_reuses_the_first(client):
    messages = [{"role": "system", "content": "You are terse. " * 40}, {"role": "user", "content": "Say one word."}]
    first = client.chat.completions.create(model=SMOLLM2, messages=messages, max_tokens=8, temperature=0)
    messages += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "Another."}]
    second = client.chat.completions.create(model=SMOLLM2, messages=messages, max_tokens=8, temperature=0)
    assert second.usage.prompt_tokens_details.cached_tokens >= first.usage.prompt_tokens - 16


def test_log_probabilities_are_those_of_the_chosen_tokens(client):
    reply = ask(client, "Say yes.", logprobs=True, top_logprobs=3, max_tokens=4)
    content = reply.choices[0].logprobs.content
    assert len(content) >= 1
    for entry in content:
        assert len(entry.top_logprobs) == 3
        assert entry.logprob == pytest.approx(max(top.logprob for top in entry.top_logprobs), abs=1e-4)


def test_greedy_answers_repeat(client):
    ask(client, "Tell me about tea.")
    assert ask(client, "Tell me about tea.").choices[0].message.content == \
        ask(client, "Tell me about tea.").choices[0].message.content


def test_seeded_sampling_repeats(client):
    ask(client, "Invent a name for a ship.", temperature=1.0, seed=7)
    first = ask(client, "Invent a name for a ship.", temperature=1.0, seed=7)
    second = ask(client, "Invent a name for a ship.", temperature=1.0, seed=7)
    assert first.choices[0].message.content == second.choices[0].message.content


def test_a_model_without_a_template_answers_too(client, daemon):
    reply = ask(client, "What is the capital of France?", model=GEMMA3)
    assert reply.choices[0].message.content.strip()
    assert client.models.retrieve(GEMMA3).model_extra["chat_template"] == "default:gemma"


def test_models_are_listed_and_retrieved(client):
    ids = [model.id for model in client.models.list()]
    assert SMOLLM2 in ids and GEMMA3 in ids
    assert client.models.retrieve(SMOLLM2).owned_by == "llama-cpp"


def test_unknown_model_is_a_typed_error(client):
    with pytest.raises(openai.NotFoundError) as error:
        ask(client, "Hi", model="llama-cpp:smollm2-135m-instrukt")
    assert error.value.code == "model_not_found"
    assert "smollm2-135m-instruct" in str(error.value)


def test_wrong_key_is_a_typed_error(daemon):
    client = openai.OpenAI(base_url=daemon.url + "/v1", api_key="wrong", max_retries=0)
    with pytest.raises(openai.AuthenticationError) as error:
        ask(client, "Hi")
    assert error.value.code == "invalid_api_key"


def test_bad_field_is_a_typed_error(client):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, "Hi", temperature=9)
    assert error.value.code == "invalid_body"
    assert "temperature" in str(error.value)


def test_a_prompt_beyond_the_window_names_both_numbers(client):
    with pytest.raises(openai.BadRequestError) as error:
        ask(client, "word " * 30_000)
    assert error.value.code == "context_length_exceeded"
    assert error.value.body["n_prompt_tokens"] > error.value.body["n_ctx"] > 0


def test_closing_a_stream_cancels_the_generation(client, daemon):
    stream = ask(client, "Write a long story about the sea.", stream=True, max_tokens=4000)
    for _, chunk in zip(range(3), stream):
        assert chunk
    stream.close()
    wait_until(lambda: daemon.stats()["sequences"] == 0, 5, "the cancelled run to be gone")


