"""Profiles: a file of the user's teaches the service a family of models that it does not know."""

import json

from conftest import SMOLLM2
from test_runaway_template import with_template

# Reasoning between markers of its own, calls with the name before the arguments.
WREN = """{% if tools %}<|im_start|>system
{{ tools|tojson }}
Call: <tool_call>NAME
{}</tool_call><|im_end|>
{% endif %}{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking %}<wonder>
{% endif %}{% endif %}"""
PROFILE = {
    "name": "wren",
    "match": {"chat_template": ["<wonder>"]},
    "dialect": "name-json",
    "reasoning": {"open": "<wonder>", "close": "</wonder>"},
    "sampling": {"temperature": 0, "top_k": 1},
    "max_tokens": 60,
    "thinking_budget": 8,
}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}}


def write_profile(daemon, name, content):
    folder = daemon.home / "profiles"
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))


def profile(daemon, model):
    status, _, raw = daemon.request("GET", f"/v1/models/{model}")
    assert status == 200, raw
    return json.loads(raw)["profile"]


def ask(daemon, content, model, **fields):
    body = {"model": model, "messages": [{"role": "user", "content": content}], "include_reasoning": True, **fields}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body)
    assert status == 200, raw
    return json.loads(raw)


def test_a_family_nobody_knows_is_one_file(make_daemon, tmp_path):
    daemon = make_daemon()
    imported = daemon.cli("import", with_template(tmp_path / "wren.gguf", WREN), "--id", "wren")
    assert imported.returncode == 0, imported.stderr
    assert profile(daemon, "wren") == {"name": "hermes", "user": False, "dialect": "hermes"}
    message = ask(daemon, "Name three rivers.", "wren", max_tokens=8)["choices"][0]["message"]
    assert "reasoning_content" not in message, "nothing tells that <wonder> is a marker"

    write_profile(daemon, "wren.json", PROFILE)
    assert daemon.cli("stop", "wren").returncode == 0
    reply = ask(daemon, "Name three rivers.", "wren")
    message = reply["choices"][0]["message"]
    assert message["reasoning_content"].strip()
    assert "wonder>" not in message["reasoning_content"] + message["content"]
    assert 8 <= reply["usage"]["completion_tokens_details"]["reasoning_tokens"] <= 16, "closed by the budget"
    assert reply["usage"]["completion_tokens"] <= 60
    assert message == ask(daemon, "Name three rivers.", "wren")["choices"][0]["message"], "temperature 0 is the profile's"
    shown = profile(daemon, "wren")
    assert shown == {"name": "wren", "user": True, **{k: v for k, v in PROFILE.items() if k not in ("name", "match")}}

    reply = ask(daemon, "How is the weather in Oslo?", "wren", tools=[WEATHER], tool_choice="required")
    call = reply["choices"][0]["message"]["tool_calls"][0]["function"]
    assert call["name"] == "get_weather" and json.loads(call["arguments"])["city"] in ("Oslo", "Rome")

    form = {"type": "grammar", "syntax": "regex", "definition": "Nile|Rhine"}
    message = ask(daemon, "Name a river.", "wren", response_format=form)["choices"][0]["message"]
    assert message["content"] in ("Nile", "Rhine") and message["reasoning_content"].strip(), "the form begins behind the marker"

    short = ask(daemon, "Name three rivers.", "wren", max_tokens=5, max_thinking_tokens=0)
    assert short["usage"]["completion_tokens"] == 5, "what a request says counts more"
    assert short["usage"]["completion_tokens_details"]["reasoning_tokens"] == 5


def test_a_profile_for_one_model_and_one_that_is_wrong(make_daemon):
    daemon = make_daemon(SMOLLM2, start=False)
    write_profile(daemon, "mine.json", {"name": "mine", "match": {"model": ["smollm2-*"]}, "max_tokens": 3})
    write_profile(daemon, "wrong.json", {"name": "wrong", "match": {"model": ["*"]}, "sampling": {"top_p": 9}})
    write_profile(daemon, "broken.json", "{")
    daemon.start()
    assert profile(daemon, SMOLLM2) == {"name": None, "overrides": ["mine"], "user": True, "max_tokens": 3}
    reply = ask(daemon, "Count to a hundred.", SMOLLM2, ignore_eos=True)
    assert reply["usage"]["completion_tokens"] == 3 and reply["choices"][0]["finish_reason"] == "length"
    longer = ask(daemon, "Count to a hundred.", SMOLLM2, ignore_eos=True, max_tokens=4)
    assert longer["usage"]["completion_tokens"] == 4
    log = (daemon.home / "daemon.log").read_text()
    assert "wrong.json" in log and "/sampling/top_p is 9; it must be a number from 0 to 1" in log and "broken.json" in log
    findings = json.loads(daemon.cli("doctor", "--json").stdout)["findings"]
    about = {f["subject"]: f for f in findings if f["area"] == "profiles"}
    assert about["wrong.json"]["detail"] == "not used: /sampling/top_p is 9; it must be a number from 0 to 1"
    assert about["wrong.json"]["remedy"].endswith("profiles/wrong.json")
    assert about["broken.json"]["verdict"] == "warning" and about["in use"]["detail"].endswith("1 of them yours or changed by you")


def test_a_request_names_a_tuning_profile(make_daemon):
    daemon = make_daemon(SMOLLM2, start=False)
    write_profile(daemon, "mine.json", {
        "name": "mine", "match": {"model": ["smollm2-*"]}, "max_tokens": 6,
        "profiles": {"instruct": {"max_tokens": 5}, "terse": {"max_tokens": 3}}})
    daemon.start()
    assert profile(daemon, SMOLLM2)["profiles"] == {"instruct": {"max_tokens": 5}, "terse": {"max_tokens": 3}}

    def used(**fields):
        reply = ask(daemon, "Count to a hundred.", SMOLLM2, ignore_eos=True, **fields)
        return reply["usage"]["completion_tokens"], reply["x_gezel"]["tuning_profile"]

    assert used(tuning_profile="terse") == (3, "terse")
    assert used(tuning_profile="creative") == (5, "instruct"), "what stands in for it"
    assert used() == (5, "instruct"), "the default is thinking-general, for which instruct stands in"
    assert used(tuning_profile="terse", max_tokens=4) == (4, "terse"), "what a request says counts more"
    first = ask(daemon, "Count to a hundred.", SMOLLM2, tuning_profile="deterministic", max_tokens=12)
    again = ask(daemon, "Count to a hundred.", SMOLLM2, tuning_profile="deterministic", max_tokens=12)
    assert first["choices"][0]["message"] == again["choices"][0]["message"]
    assert first["x_gezel"]["tuning_profile"] == "deterministic"

    status, _, raw = daemon.request("POST", "/v1/chat/completions", {
        "model": SMOLLM2, "messages": [{"role": "user", "content": "Hi"}], "tuning_profile": "loud"})
    error = json.loads(raw)["error"]
    assert status == 400 and error["param"] == "tuning_profile"
    for name in ("thinking-general", "thinking-deep", "thinking-coding", "thinking-precise", "instruct", "creative",
                 "terse", "deterministic"):
        assert name in error["message"]
