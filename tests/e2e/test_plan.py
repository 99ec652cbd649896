"""Plans of models that are not installed: the header of a real file is read from a hub, by ranges where it knows them, and
what the plan says is what a load then takes."""

import json
import re
import threading
import urllib.parse

import pytest
from conftest import FILES, listed, plan
from test_memory import parts
from test_models import ID, NAME, QUALIFIED, REPOSITORY, Hub, install, write_catalog

KIB, MIB = 1 << 10, 1 << 20
HUB_NAME = f"hf:{REPOSITORY}:Q4_1"


class PlanHub(Hub):
    """The hub of the installs, which here also answers ranges with an end as a hub does, and counts what it sends. `mode`:
    "ranges", "none" (whole files only), "truncated" (a file of half the size), "corrupt", "page" (a web page), "silent"."""

    def __init__(self, content):
        super().__init__(content)
        self.mode, self.ranges, self.sent = "ranges", [], 0
        self.whole = content
        hub, handler = self, self.server.RequestHandlerClass
        listing = handler.do_GET

        def do_GET(self):
            path = urllib.parse.urlsplit(self.path).path
            if "/resolve/" not in path and path != f"/{NAME}":
                return listing(self)
            hub.ranges.append(self.headers.get("Range", ""))
            if hub.mode == "silent":
                return hub.hold.wait(60)
            body = hub.whole
            if hub.mode == "truncated":
                body = body[:len(body) // 2]
            elif hub.mode == "corrupt":
                body = body[:60] + b"\xff" * 60 + body[120:]
            elif hub.mode == "page":
                body = b"<html>Please sign in.</html>"
            size, start, end = len(body), 0, len(body)
            found = re.match(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
            if found and hub.mode != "none":
                start = int(found.group(1))
                end = min(size, int(found.group(2)) + 1 if found.group(2) else size)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{size}")
            else:
                self.send_response(200)
            self.send_header("Content-Length", str(end - start))
            self.send_header("ETag", '"one"')
            self.end_headers()
            try:
                for at in range(start, end, 64 * KIB):
                    piece = body[at:min(end, at + 64 * KIB)]
                    self.wfile.write(piece)
                    hub.sent += len(piece)
            except OSError:
                self.close_connection = True  # the client has enough

        handler.do_GET = do_GET


@pytest.fixture(scope="module")
def content():
    return FILES["smollm2-135m-instruct"].read_bytes()


@pytest.fixture
def hub(content):
    made = PlanHub(content)
    yield made
    if made.hold:
        made.hold.set()
    made.server.shutdown()


@pytest.fixture
def make_planning(make_daemon, hub, content, tmp_path, monkeypatch):
    """A daemon whose hub is ours, or a port that nobody listens on, with flags as they are given."""

    def make(*flags, hub_url=None):
        monkeypatch.setenv("HF_ENDPOINT", hub_url or hub.url)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
                     "OLLAMA_MODELS", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        daemon = make_daemon(start=False, flags=flags)
        write_catalog(daemon.home, content)
        return daemon.start()

    return make


def planned(daemon, model, **wish):
    status, reply = plan(daemon, model, token=daemon.token, **wish)
    assert status == 200, reply
    assert parts(reply["bytes"]) == reply["bytes"]["total"]
    assert reply["estimated"] or reply["source"] == "installed"
    return reply


def test_a_model_of_the_catalog_is_planned_before_and_measured_after_its_install(make_planning, hub, content):
    daemon = make_planning("--ctx", "2048", "--slots", "2")
    before = planned(daemon, ID)
    assert (before["model"], before["source"], before["decision"]) == (QUALIFIED, "header", "fits")
    assert (before["context"], before["slots"], before["kv_type"]) == (2048, 2, "f16")
    assert before["bytes"]["weights"] == before["download_bytes"] == len(content)
    assert before["largest_context"] == 8192
    assert before["header_bytes_read"] == hub.sent < 4 * MIB < len(content)
    assert hub.ranges[0] == f"bytes=0-{256 * KIB - 1}"
    assert listed(daemon)[QUALIFIED]["availability"] == "downloadable"

    install(daemon)
    after = planned(daemon, ID)
    assert (after["source"], after["estimated"]) == ("installed", False)
    assert (after["context"], after["slots"]) == (2048, 2)
    assert after["bytes"]["kv"] == before["bytes"]["kv"], "the cache of a header is exact"
    assert before["bytes"]["total"] >= after["bytes"]["total"], "an estimate may not promise too much"


def test_a_header_is_read_once(make_planning, hub):
    daemon = make_planning()
    first = planned(daemon, HUB_NAME)
    assert first["model"] == HUB_NAME and first["header_bytes_read"] > 0
    requests = len(hub.ranges)
    again = planned(daemon, HUB_NAME, context=512, slots=1)
    assert (again["header_bytes_read"], again["context"], again["slots"]) == (0, 512, 1)
    assert len(hub.ranges) == requests


def test_a_file_that_nothing_pins_is_asked_for_again(make_planning, hub, content):
    daemon = make_planning()
    address = f"{hub.url}/{NAME}"
    assert planned(daemon, address)["download_bytes"] == len(content)
    sent = hub.sent
    assert planned(daemon, address)["source"] == "header"
    assert hub.sent > sent


def test_a_hub_without_ranges_is_cut_off_after_the_header(make_planning, hub, content):
    hub.mode = "none"
    daemon = make_planning()
    reply = planned(daemon, HUB_NAME)
    assert len(hub.ranges) == 1
    assert reply["header_bytes_read"] < len(content) // 4
    assert reply["bytes"]["weights"] == len(content)


@pytest.mark.parametrize("mode, says", [("truncated", "is truncated by"), ("corrupt", "byte"),
                                        ("page", "is not a GGUF file")])
def test_a_damaged_file_is_refused_naming_the_host(make_planning, hub, mode, says):
    hub.mode = mode
    daemon = make_planning()
    status, reply = plan(daemon, HUB_NAME, token=daemon.token)
    assert (status, reply["error"]["code"], reply["error"]["param"]) == (502, "model_invalid", "model")
    assert says in reply["error"]["message"] and "127.0.0.1" in reply["error"]["message"]
    assert daemon.request("GET", "/health")[0] == 200


def test_without_a_network_the_catalog_answers_and_says_so(make_planning, content):
    daemon = make_planning(hub_url="http://127.0.0.1:9")
    reply = planned(daemon, ID)
    assert reply["source"] == "catalog" and reply["header_bytes_read"] == 0
    assert "127.0.0.1 refused the connection" in reply["note"]
    assert reply["download_bytes"] == reply["bytes"]["weights"] == len(content)
    status, refused = plan(daemon, HUB_NAME, token=daemon.token)
    assert (status, refused["error"]["code"]) == (503, "connection_refused")
    assert "127.0.0.1" in refused["error"]["message"] and "connection" in refused["error"]["message"]


def test_the_network_is_named_by_the_user_only(make_planning, hub):
    daemon = make_planning()
    for model in (HUB_NAME, f"{hub.url}/{NAME}"):
        status, reply = plan(daemon, model)
        assert (status, reply["error"]["code"]) == (403, "missing_scope:ui")
    assert hub.ranges == []
    assert plan(daemon, ID)[0] == 200


def test_a_client_that_goes_away_is_not_waited_for(make_planning, hub):
    hub.mode, hub.hold = "silent", threading.Event()
    daemon = make_planning()
    with pytest.raises(TimeoutError):
        daemon.request("GET", f"/v1/memory/plan?model={ID}", timeout=1)
    hub.mode = "ranges"
    # The reading of the first client would have kept the second waiting for 20 s and more.
    assert daemon.request("GET", f"/v1/memory/plan?model={ID}", timeout=10)[0] == 200


def test_fit_draws_a_model_that_is_not_here(make_planning, hub, content):
    daemon = make_planning()
    for argument in (ID, HUB_NAME, f"{hub.url}/{NAME}"):
        result = daemon.cli("fit", argument, "--ctx", "2048")
        assert result.returncode == 0, result.stderr
        assert "gets" in result.stdout and "weights" in result.stdout and "█" in result.stdout
        assert "nothing was downloaded" in result.stderr
    assert re.search(r"only the file's header was read \([\d.]+ (KiB|MiB) of [\d.]+ MiB\)", result.stderr), result.stderr
    assert daemon.cli("fit", "no-such-model").returncode != 0
    assert listed(daemon)[QUALIFIED]["availability"] == "downloadable"
