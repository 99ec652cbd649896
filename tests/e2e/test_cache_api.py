"""The prefix cache as the API and the command line show it, with a real model."""

import json
import urllib.request

import pytest

from conftest import GEMMA3, SMOLLM2, stream_events, wait_until

SYSTEM = "You are the librarian of a small town. " + " ".join(
    f"Shelf {number} holds books about the {kind} of the region." for number, kind in enumerate(
        ["history", "rivers", "trees", "stones", "songs", "weather", "trains", "bridges", "markets", "gardens"] * 4))


@pytest.fixture(scope="module")
def cached(request):
    """A daemon of this module's own: other tests would fill its cache."""
    import shutil
    import tempfile

    from conftest import Daemon

    home = tempfile.mkdtemp(prefix="gezel-e2e-")
    daemon = Daemon(home, "--slots", "2", "--ctx", "4096")
    daemon.install(SMOLLM2, GEMMA3)
    daemon.start()
    yield daemon
    daemon.stop()
    shutil.rmtree(home, ignore_errors=True)


def messages(question, system=SYSTEM):
    return [{"role": "system", "content": system}, {"role": "user", "content": question}]


def ask(daemon, question, system=SYSTEM, headers=None, **fields):
    """Returns (reply, headers)."""
    body = {"model": SMOLLM2, "messages": messages(question, system), "temperature": 0, "max_tokens": 8, **fields}
    status, reply_headers, raw = daemon.request("POST", "/v1/chat/completions", body, headers=headers)
    assert status == 200, raw
    return json.loads(raw), {name.lower(): value for name, value in reply_headers.items()}


def cache(daemon, method, path, body=None, expect=200):
    status, _, raw = daemon.request(method, "/api/cache" + path, body, token=daemon.token)
    assert status == expect, raw
    return json.loads(raw)


def details(reply):
    return reply["usage"]["prompt_tokens_details"]


def nodes(daemon):
    return cache(daemon, "GET", f"?model={SMOLLM2}")["nodes"]


def test_cached_tokens_are_exact_and_say_where_they_came_from(cached):
    first, _ = ask(cached, "Where are the trains?")
    again, _ = ask(cached, "Where are the trains?")
    assert again["usage"]["prompt_tokens"] == first["usage"]["prompt_tokens"]
    assert details(again)["cached_tokens"] == again["usage"]["prompt_tokens"] - 1
    assert again["timings"]["prompt_n"] == 1
    assert sum(details(again)["cached_from"].values()) == details(again)["cached_tokens"]


def test_a_shared_head_is_found_whoever_sends_it(cached):
    ask(cached, "Where are the bridges?", headers={"X-Gezel-Session": "a"})
    reply, _ = ask(cached, "Which shelf is about songs?", headers={"X-Gezel-Session": "b"})
    assert details(reply)["cached_tokens"] > 400


def test_a_break_is_told_in_numbers_and_to_debuggers_in_text(cached):
    ask(cached, "Hello", system="Today is Monday. " + SYSTEM)
    reply, headers = ask(cached, "Hello", system="Today is Tuesday. " + SYSTEM, headers={"X-Gezel-Debug": "1"})
    numbers = dict(part.split("=") for part in headers["x-gezel-prefix-break"].split(", "))
    found = reply["x_gezel"]["prefix_break"]
    assert int(numbers["matched"]) == found["matched"] < 20 < found["previous"]
    assert found["at_message"] == 0
    assert "Tuesday" in found["snippets"]["now"]
    assert found["snippets"]["then"] == "", "that may be what another application asked"
    plain, headers = ask(cached, "Hello", system="Today is Wednesday. " + SYSTEM)
    assert "x-gezel-prefix-break" in headers
    assert "x_gezel" not in plain
    assert "Wednesday" not in (cached.home / "daemon.log").read_text()


def test_a_stream_has_the_text_in_its_last_event(cached):
    body = {"model": SMOLLM2, "messages": messages("Hello", "Today is Friday. " + SYSTEM), "max_tokens": 4, "stream": True}
    request = urllib.request.Request(cached.url + "/v1/chat/completions", json.dumps(body).encode())
    request.add_header("Authorization", f"Bearer {cached.key}")
    request.add_header("X-Gezel-Debug", "1")
    with urllib.request.urlopen(request, timeout=120) as response:
        assert "matched=" in response.headers["x-gezel-prefix-break"]
        events = list(stream_events(response))
    assert [event for event in events if "x_gezel" in event] == events[-1:]
    assert "Friday" in events[-1]["x_gezel"]["prefix_break"]["snippets"]["now"]


@pytest.mark.parametrize("name, value", [("X-Gezel-Ephemeral", "yes"), ("X-Gezel-Debug", "2"), ("X-Gezel-Parent", "x" * 513)])
def test_hints_that_mean_nothing_are_refused(cached, name, value):
    body = {"model": SMOLLM2, "messages": messages("Hello")}
    status, _, raw = cached.request("POST", "/v1/chat/completions", body, headers={name: value})
    error = json.loads(raw)["error"]
    assert (status, error["code"], error["param"]) == (400, "invalid_header", name.lower())


def test_the_tree_is_listed_and_looked_into(cached):
    ask(cached, "Where are the gardens?")
    listed = nodes(cached)
    ids = {node["id"] for node in listed}
    assert all(node["parent"] is None or node["parent"] in ids for node in listed)
    assert all(node["start"] < node["end"] for node in listed)
    texts = [cache(cached, "GET", f"/{node['id']}?model={SMOLLM2}")["text"] for node in listed if node["class"] == "system"]
    assert any("books about the gardens of the region" in text for text in texts)
    cache(cached, "GET", f"/987654321?model={SMOLLM2}", expect=404)


def test_explain_computes_nothing(cached):
    ask(cached, "Where are the rivers?")
    before = cached.stats()["prompt_tokens_total"]
    found = cache(cached, "POST", "/explain", {"model": SMOLLM2, "messages": messages("Where are the stones?")})
    assert found["reusable_tokens"] > 400
    cold = cache(cached, "POST", "/explain", {"model": SMOLLM2, "messages": messages("Hi", "Now it is 12:01. " + SYSTEM)})
    assert cold["reusable_tokens"] < 20
    assert "12:01" in cold["prefix_break"]["snippets"]["now"]
    assert cached.stats()["prompt_tokens_total"] == before


def test_a_prompt_that_was_warmed_is_there(cached):
    system = "You count the boats in the harbour. " + SYSTEM
    body = {"model": SMOLLM2, "messages": messages("How many?", system), "wait": True}
    warmed = cache(cached, "POST", "/warm", body)
    assert warmed["prompt_tokens"] > 400 > warmed["cached_tokens"]
    reply, _ = ask(cached, "How many?", system)
    assert details(reply)["cached_tokens"] >= reply["usage"]["prompt_tokens"] - 16


def test_warming_never_loads_a_model_unless_it_is_to(cached):
    body = {"model": GEMMA3, "messages": messages("Hello")}
    answer = cache(cached, "POST", "/warm", body, expect=202)
    assert answer == {"ok": True, "model": GEMMA3, "loaded": False}
    assert cached.worker(GEMMA3) is None
    cache(cached, "POST", "/drop", {"model": GEMMA3, "session": "s"}, expect=404)
    assert cache(cached, "POST", "/warm", {**body, "start": True}, expect=202)["loaded"]
    wait_until(lambda: (cached.worker(GEMMA3) or {}).get("state") == "ready", 60, "the other model")
    assert cached.cli("stop", "gemma3-270m").returncode == 0


def test_pins_are_counted_and_a_session_is_forgotten(cached):
    ask(cached, "Where is the weather?", "You are a sailor. " + SYSTEM, headers={"X-Gezel-Session": "sailor"})
    # Of the branch that was used last, the end of the system text.
    system = max((node for node in nodes(cached) if node["class"] == "system"),
                 key=lambda node: (node["last_use"], node["end"]))
    assert cache(cached, "POST", "/pin", {"model": SMOLLM2, "id": system["id"]})["nodes"] > 0
    assert next(node for node in nodes(cached) if node["id"] == system["id"])["pins"] == 1
    cache(cached, "POST", "/unpin", {"model": SMOLLM2, "id": system["id"]})
    assert next(node for node in nodes(cached) if node["id"] == system["id"])["pins"] == 0
    assert cache(cached, "POST", "/drop", {"model": SMOLLM2, "session": "sailor"})["nodes"] > 0
    reply, _ = ask(cached, "Where is the weather?", "You are a sailor. " + SYSTEM)
    assert details(reply)["cached_tokens"] < 20


def test_what_was_flushed_survives_a_restart(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--slots", "2", "--ctx", "4096"))
    ask(daemon, "Where are the trees?")
    # Whatever the worker had not written by itself.
    assert cache(daemon, "POST", "/flush", {"model": SMOLLM2})["records"] >= 0
    nodes = cache(daemon, "GET", f"?model={SMOLLM2}")["nodes"]
    assert all(node["bytes"]["disk"] for node in nodes if node["end"] - node["start"] >= 32), nodes
    daemon.stop()
    daemon.start()
    reply, _ = ask(daemon, "Where are the songs?")
    assert details(reply)["cached_from"]["disk"] > 400


def test_the_command_line_uses_the_same_words(cached, tmp_path):
    ask(cached, "Where are the markets?")
    listed = cached.cli("cache", "list")
    assert listed.returncode == 0, listed.stderr
    assert "system" in listed.stdout
    assert json.loads(cached.cli("cache", "list", SMOLLM2, "--json").stdout)["nodes"]
    request = tmp_path / "request.json"
    request.write_text(json.dumps({"model": SMOLLM2, "messages": messages("Hi", "At 12:02 sharp. " + SYSTEM)}))
    explained = cached.cli("cache", "explain", "smollm2-135m-instruct", "--messages", request)
    assert explained.returncode == 0, explained.stderr
    assert "12:02" in explained.stdout
    warmed = cached.cli("cache", "warm", "smollm2-135m-instruct", "Hello", "--system", "You are a baker. " + SYSTEM)
    assert "tokens are kept" in warmed.stderr
    assert cached.cli("cache", "flush").returncode == 0
    assert cached.cli("cache", "show", "smollm2-135m-instruct", "987654321").returncode != 0
    assert cached.cli("cache", "pin").returncode == 2


def test_the_routes_are_for_management_only(cached):
    assert cached.request("GET", f"/api/cache?model={SMOLLM2}")[0] == 403
    assert cached.request("POST", "/api/cache/flush", {"model": SMOLLM2})[0] == 403
