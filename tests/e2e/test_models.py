"""Models from elsewhere: installs from a hub, deletions, and what other programs have. The hub is a server of this test
that serves a real model file."""

import hashlib
import http.server
import json
import pathlib
import re
import shutil
import signal
import subprocess
import threading
import urllib.parse
import urllib.request

import pytest
from conftest import BIN, FILES, listed, ui, wait_until

FILE = FILES["smollm2-135m-instruct"]
REPOSITORY = "test/SmolLM2-GGUF"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
ID = "smol-test-q4"
QUALIFIED = f"llama-cpp:{ID}"
PIECE = 1 << 16


CHUNK = 100_000
HASH = "5" * 64


def stored(content):
    """The file as content-addressed storage keeps it: chunks that are not packed."""
    chunks = [content[at:at + CHUNK] for at in range(0, len(content), CHUNK)]
    return b"".join(b"\0" + len(c).to_bytes(3, "little") + b"\0" + len(c).to_bytes(3, "little") + c for c in chunks)


class Hub:
    """A hub with one repository. `drop_after`: bytes after which a connection breaks, once for each entry; `hold`: an
    event that answers wait for half-way; `stored`: the file comes out of content-addressed storage only; `pages`: so
    many pages of other files stand before it in the list."""

    def __init__(self, content):
        self.content = content
        self.drop_after, self.offsets = [], []
        self.hold = self.token = self.stored = None
        self.pages = 0
        self.asked = []
        hub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def say(self, value):
                body = json.dumps(value).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def from_storage(self, path):
                if path == "/xet-access":
                    return self.say({"casUrl": hub.url, "accessToken": "storage", "exp": 1})
                if path == f"/v1/reconstructions/{HASH}":
                    chunks = {"start": 0, "end": -(-len(hub.content) // CHUNK)}
                    segment = {"range": chunks, "url": f"{hub.url}/segment",
                               "url_range": {"start": 0, "end": len(hub.stored) - 1}}
                    return self.say({
                        "offset_into_first_range": 0,
                        "terms": [{"hash": "a", "unpacked_length": len(hub.content), "range": chunks}],
                        "fetch_info": {"a": [segment]}})
                if path == "/segment":
                    self.send_response(206)
                    self.send_header("Content-Length", str(len(hub.stored)))
                    self.send_header("Content-Range", f"bytes 0-{len(hub.stored) - 1}/{len(hub.stored)}")
                    self.end_headers()
                    return self.wfile.write(hub.stored)
                if path == "/refused":
                    return self.send_error(403)
                self.send_response(302)
                self.send_header("Location", "/refused")
                self.send_header("X-Xet-Hash", HASH)
                self.send_header("Link", f'<{hub.url}/xet-access>; rel="xet-auth", </other>; rel="other"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def list_page(self, page):
                if page < hub.pages:
                    body = json.dumps([{"type": "file", "path": f"other-{page}.bin", "size": 1}]).encode()
                    self.send_response(200)
                    path = urllib.parse.urlsplit(self.path).path
                    self.send_header("Link", f'<{hub.url}{path}?cursor={page + 1}>; rel="next"')
                    self.send_header("Content-Length", str(len(body)))
                    self.end_headers()
                    return self.wfile.write(body)
                return self.say([{"type": "file", "path": NAME, "size": len(hub.content),
                                  "lfs": {"oid": hashlib.sha256(hub.content).hexdigest()}}])

            def do_GET(self):
                path = urllib.parse.urlsplit(self.path).path
                hub.asked.append(path)
                if hub.token and self.headers.get("Authorization") != f"Bearer {hub.token}":
                    return self.send_error(401)
                if path == f"/api/models/{REPOSITORY}/revision/main":
                    return self.say({"sha": COMMIT})
                if path == f"/api/models/{REPOSITORY}/tree/{COMMIT}":
                    query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
                    return self.list_page(int(query.get("cursor", ["0"])[0]))
                if hub.stored and not path.startswith("/api/"):
                    return self.from_storage(path)
                if path not in (f"/{REPOSITORY}/resolve/{COMMIT}/{NAME}", f"/{REPOSITORY}/resolve/main/{NAME}"):
                    return self.send_error(404)
                found = re.match(r"bytes=(\d+)-", self.headers.get("Range", ""))
                start = int(found.group(1)) if found else 0
                hub.offsets.append(start)
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(hub.content) - start))
                self.send_header("ETag", '"one"')
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(hub.content) - 1}/{len(hub.content)}")
                self.end_headers()
                limit = hub.drop_after.pop(0) if hub.drop_after else None
                sent = start
                while sent < len(hub.content):
                    if limit is not None and sent >= limit:
                        self.close_connection = True
                        self.connection.close()
                        return
                    if hub.hold is not None and sent >= len(hub.content) // 2:
                        hub.hold.wait(60)
                    self.wfile.write(hub.content[sent:sent + PIECE])
                    sent += PIECE

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"


def write_catalog(home, content, sha256=None, aliases=(), version="1.0.0"):
    """The user's catalog with one item for the file of the hub."""
    size = len(content)
    item = pathlib.Path(home) / "catalog/chat-models" / ID[:2] / ID
    (item / "versions" / version).mkdir(parents=True)
    (item / "manifest.json").write_text(json.dumps({
        "id": ID, "name": "Smol for tests", "description": "A small model.", "tags": ["small"],
        "maintainer": {"name": "Tests", "url": "https://example.org"}, "license": "Apache-2.0", "licenseClass": "open",
        "category": "general", "parameterSize": "135M", "contextWindow": 8192, "supportsTools": False,
        "aliases": list(aliases)}))
    (item / "versions" / version / "manifest.json").write_text(json.dumps({
        "version": version, "releasedAt": "2026-01-01T00:00:00Z", "approxSizeBytes": size,
        "llamaCpp": {"huggingfaceRepo": REPOSITORY, "revision": COMMIT, "filename": NAME,
                     "sha256": sha256 or hashlib.sha256(content).hexdigest(), "approxSizeBytes": size,
                     "quantization": "Q4_1"}}))


@pytest.fixture(scope="module")
def content():
    return FILE.read_bytes()


@pytest.fixture
def hub(content):
    made = Hub(content)
    yield made
    if made.hold:
        made.hold.set()
    made.server.shutdown()


@pytest.fixture
def make_installing(make_daemon, hub, content, tmp_path, monkeypatch):
    """A daemon whose hub is ours and whose user has an empty home."""

    def make(sha256=None, aliases=()):
        monkeypatch.setenv("HF_ENDPOINT", hub.url)
        monkeypatch.setenv("HOME", str(tmp_path))
        for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME",
                     "OLLAMA_MODELS", "HTTPS_PROXY", "https_proxy"):
            monkeypatch.delenv(name, raising=False)
        daemon = make_daemon(start=False)
        write_catalog(daemon.home, content, sha256, aliases)
        return daemon.start()

    return make


def ensure(daemon, model=QUALIFIED, **kwargs):
    status, _, raw = daemon.request("POST", "/v1/models/ensure", {"model": model}, **kwargs)
    return status, json.loads(raw)


def events(daemon, job):
    """Every event of an install, until its end."""
    status, headers, raw = daemon.request("GET", f"/v1/models/ensure/{job}/events")
    assert status == 200, raw
    assert headers["content-type"] == "text/event-stream"
    lines = raw.decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: ")]


def install(daemon):
    status, reply = ensure(daemon)
    assert status == 202, reply
    told = events(daemon, reply["job_id"])
    assert told[-1]["type"] == "done", told[-1]
    return told


def test_a_model_of_the_catalog_is_installed_and_answers(make_installing, hub, content):
    daemon = make_installing(aliases=["smol-alias"])
    entry = listed(daemon)[QUALIFIED]
    assert entry["availability"] == "downloadable"
    assert entry["download_bytes"] == len(content)
    assert entry["fit"]["tier"] == "fits"
    assert entry["capabilities"]["structuredOutput"] is True
    status, refused = daemon.chat(model=QUALIFIED)
    assert status == 404 and f"gezel pull {ID}" in refused["error"]["message"]

    told = install(daemon)
    assert [event["modelId"] for event in told] == [QUALIFIED] * len(told)
    written = [event["bytesWritten"] for event in told if event["type"] == "progress"]
    assert written == sorted(written) and written[-1] == len(content)
    entry = listed(daemon)[QUALIFIED]
    assert entry["availability"] == "available" and entry["capabilities"]["text"] is True
    assert listed(daemon)["llama-cpp:smol-alias"]["alias_of"] == QUALIFIED
    assert ensure(daemon) == (200, {"status": "ready", "model_id": QUALIFIED})
    for model in (QUALIFIED, "llama-cpp:smol-alias"):
        status, answer = daemon.chat(model=model)
        assert status == 200, answer
    rows = ui(daemon, "GET", "/api/llama-cpp/models")[1]["models"]
    assert [(row["id"], row["source"], row["updateAvailable"]) for row in rows] == [(ID, "catalog", False)]


def test_a_dropped_connection_is_resumed_where_it_broke(make_installing, hub, content):
    third = len(content) // 3 // PIECE * PIECE
    hub.drop_after = [third]
    daemon = make_installing()
    told = install(daemon)
    assert any(event["type"] == "retrying" for event in told)
    assert hub.offsets[0] == 0 and 0 < hub.offsets[1] <= third


def test_a_file_of_content_addressed_storage_is_put_together(make_installing, hub, content):
    hub.stored = stored(content)
    daemon = make_installing()
    told = install(daemon)
    written = [event["bytesWritten"] for event in told if event["type"] == "progress"]
    assert written == sorted(written) and written[-1] == len(content)
    assert hub.asked[-4:] == ["/refused", "/xet-access", f"/v1/reconstructions/{HASH}", "/segment"]
    installed = daemon.home / "engines/llama-cpp/models" / ID / NAME
    assert installed.read_bytes() == content


def test_a_file_on_a_later_page_of_the_list_is_found(make_installing, hub):
    hub.pages = 3
    daemon = make_installing()
    status, reply = ensure(daemon, f"hf:{REPOSITORY}", token=daemon.token)
    assert status == 202, reply
    assert events(daemon, reply["job_id"])[-1]["type"] == "done"


def test_a_model_that_lost_a_file_is_repaired(make_installing, hub):
    daemon = make_installing()
    install(daemon)
    (daemon.home / "engines/llama-cpp/models" / ID / NAME).unlink()
    assert daemon.chat(model=QUALIFIED)[0] == 503
    install(daemon)
    assert daemon.chat(model=QUALIFIED)[0] == 200


def test_a_file_with_another_hash_is_refused(make_installing, hub):
    daemon = make_installing(sha256="ab" * 32)
    told = events(daemon, ensure(daemon)[1]["job_id"])
    assert told[-1]["type"] == "error" and told[-1]["code"] == "hash_mismatch"
    assert told[-1]["mismatch"]["expected"] == "ab" * 32
    assert listed(daemon)[QUALIFIED]["availability"] == "downloadable"


def test_callers_join_one_install_and_cancelling_keeps_what_arrived(make_installing, hub, content):
    hub.hold = threading.Event()
    daemon = make_installing()
    first, second = ensure(daemon), ensure(daemon)
    assert first == second and first[0] == 202
    job = first[1]["job_id"]
    wait_until(lambda: ui(daemon, "GET", "/api/llama-cpp/active-installs")[1]["installs"][0]["bytesWritten"] > 0, 20)
    snapshot = json.loads(daemon.request("GET", f"/v1/models/ensure/{job}")[2])
    assert snapshot["status"] == "running" and snapshot["model_id"] == QUALIFIED
    status, refused = daemon.chat(model=QUALIFIED)
    assert status == 404 and "is being installed" in refused["error"]["message"]
    status, refused = ui(daemon, "DELETE", f"/api/llama-cpp/models/{ID}")
    assert status == 409 and refused["error"] == "install_in_progress"

    assert ui(daemon, "DELETE", f"/api/llama-cpp/models/{ID}/install")[1] == {"aborted": True}
    assert events(daemon, job)[-1]["code"] == "cancelled"
    hub.hold.set()
    rows = ui(daemon, "GET", "/api/llama-cpp/incomplete")[1]["incomplete"]
    assert [(row["id"], row["hasPartial"], row["resumable"]) for row in rows] == [(ID, True, True)]
    install(daemon)
    assert hub.offsets[-1] > 0, "the second install went on where the first was"


def test_a_private_model_is_given_to_everybody_on_the_machine(make_installing, make_daemon, tmp_path, monkeypatch, content):
    owner = make_installing()
    install(owner)
    monkeypatch.setenv("GEZEL_SHARED_ASSETS_DIR", str(tmp_path / "machine"))
    monkeypatch.setenv("GEZEL_SYSTEM_SCOPE", "1")
    service = make_daemon(start=False)
    shutil.copytree(owner.home / "catalog", service.home / "catalog")
    service.start()
    refused = service.cli("share", ID, "--from", owner.home)
    assert refused.returncode != 0 and "gezel stop --home" in refused.stderr, refused.stderr
    owner.stop()
    shared = service.cli("share", ID, "--from", owner.home)
    assert shared.returncode == 0, shared.stderr
    file = tmp_path / "machine/models/llama-cpp" / ID / NAME
    assert file.read_bytes() == content and file.stat().st_mode & 0o777 == 0o644
    assert not (owner.home / "engines/llama-cpp/models" / ID).exists()
    status, answer = service.chat(model=QUALIFIED)
    assert status == 200, answer


def test_errors_of_ensure_name_what_is_wrong(make_installing):
    daemon = make_installing()
    for model, expected in (("", (400, "ambiguous_model")), (ID, (400, "ambiguous_model")),
                            ("ollama:x", (400, "ambiguous_model")), ("llama-cpp:nothing", (404, "unknown_model")),
                            (f"mlx:{ID}", (400, "no_source_for_backend"))):
        status, reply = ensure(daemon, model)
        assert (status, reply["error"]["code"]) == expected, reply
    assert QUALIFIED in ensure(daemon, f"mlx:{ID}")[1]["error"]["message"]
    assert daemon.request("GET", "/v1/models/ensure/nothing")[0] == 404
    assert daemon.request("GET", "/v1/models/ensure/nothing/events")[0] == 404
    assert ensure(daemon, f"hf:{REPOSITORY}")[0] == 403, "the API key does not open the hub"


def test_a_loaded_model_is_deleted_only_by_force(make_installing):
    daemon = make_installing()
    install(daemon)
    assert daemon.chat(model=QUALIFIED)[0] == 200
    status, refused = ui(daemon, "DELETE", f"/api/llama-cpp/models/{ID}")
    assert status == 409 and refused["error"] == "model_in_use" and "engine" in refused["message"]
    assert ui(daemon, "DELETE", f"/api/llama-cpp/models/{ID}?force=1") == (200, {"ok": True})
    assert listed(daemon)[QUALIFIED]["availability"] == "downloadable"
    assert daemon.ps() == []
    assert not (daemon.home / "engines/llama-cpp/models" / ID).exists()
    status, refused = ui(daemon, "DELETE", f"/api/llama-cpp/models/{ID}")
    assert status == 404 and refused["error"] == "model_not_installed"
    assert ui(daemon, "DELETE", "/api/llama-cpp/models/..%2Fx")[1]["error"] == "invalid-model-id"
    install(daemon)
    assert daemon.chat(model=QUALIFIED)[0] == 200


def test_pull_and_rm_on_the_command_line(make_installing, hub, content):
    daemon = make_installing()
    available = json.loads(daemon.cli("models", "--available", "--json").stdout)["models"]
    assert QUALIFIED in [entry["id"] for entry in available]
    assert ID in daemon.cli("models", "--available").stdout
    pulled = daemon.cli("pull", ID)
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.strip() == ID and "100 %" in pulled.stderr
    assert daemon.cli("pull", ID).stdout.strip() == ID
    answer = daemon.cli("run", ID, "Hi", "--max-tokens", "4")
    assert answer.returncode == 0, answer.stderr
    assert daemon.cli("rm", ID).returncode == 1
    assert daemon.cli("rm", ID, "--force").returncode == 0
    assert daemon.cli("rm", ID).returncode == 4

    by_repository = daemon.cli("pull", f"hf:{REPOSITORY}:Q4_1", "--json")
    assert by_repository.returncode == 0, by_repository.stderr
    last = json.loads(by_repository.stdout.strip().splitlines()[-1])
    assert (last["type"], last["modelId"]) == ("done", "llama-cpp:local-smollm2-135m-instruct.q4-1")
    daemon.stop()
    assert daemon.cli("rm", "local-smollm2-135m-instruct.q4-1").returncode == 0
    assert daemon.cli("pull", "hf:no-such").returncode != 0
    assert daemon.cli("stop").returncode == 0


def test_interrupting_pull_stops_the_download_and_says_so(make_installing, hub):
    hub.hold = threading.Event()
    daemon = make_installing()
    process = subprocess.Popen([str(BIN / "gezel"), "pull", ID], env=daemon.environment(), stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)
    wait_until(lambda: ui(daemon, "GET", "/api/llama-cpp/active-installs")[1]["installs"], 20)
    wait_until(lambda: hub.offsets, 20)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "stopped" in said and f"gezel pull {ID}" in said
    wait_until(lambda: not ui(daemon, "GET", "/api/llama-cpp/active-installs")[1]["installs"], 20)


def test_a_gated_model_needs_the_token_that_only_its_hub_gets(make_installing, hub, monkeypatch):
    hub.token = "hf_secret"
    daemon = make_installing()
    told = events(daemon, ensure(daemon)[1]["job_id"])
    assert told[-1]["code"] == "gated_or_denied", told[-1]
    daemon.stop()
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    daemon.start()
    install(daemon)
    assert "hf_secret" not in (daemon.home / "daemon.log").read_text()


def test_an_update_downloads_only_what_differs(make_installing, hub, content):
    daemon = make_installing()
    install(daemon)
    asked = len(hub.offsets)
    write_catalog(daemon.home, content, version="1.1.0")
    updated = daemon.cli("pull", ID, "--update")
    assert updated.returncode == 0, updated.stderr
    assert len(hub.offsets) == asked, "the file was there"
    row = ui(daemon, "GET", "/api/llama-cpp/models")[1]["models"][0]
    assert (row["catalogVersion"], row["updateAvailable"]) == ("1.1.0", False)
    assert daemon.chat(model=QUALIFIED)[0] == 200


def test_a_hub_on_this_machine_is_asked_without_the_proxy(make_installing, monkeypatch):
    daemon = make_installing()
    daemon.stop()
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    daemon.start()
    install(daemon)


def test_a_stop_in_the_middle_of_a_download_is_clean_and_the_next_start_goes_on(make_installing, hub):
    hub.hold = threading.Event()
    daemon = make_installing()
    job = ensure(daemon)[1]["job_id"]
    wait_until(lambda: ui(daemon, "GET", "/api/llama-cpp/active-installs")[1]["installs"][0]["bytesWritten"] > 0, 20)
    request = urllib.request.Request(f"{daemon.url}/v1/models/ensure/{job}/events",
                                     headers={"Authorization": f"Bearer {daemon.key}"})
    watched = urllib.request.urlopen(request, timeout=30)
    assert watched.readline().startswith(b"data: ")
    process = daemon.process
    daemon.stop()
    assert process.returncode == 0, (daemon.home / "daemon.log").read_text()
    watched.read()  # ends, and not in the middle of a chunk
    hub.hold.set()
    daemon.start()
    install(daemon)
    assert hub.offsets[-1] > 0


def test_models_of_other_programs_are_found_and_used_where_they_are(make_installing, tmp_path, content):
    digest = hashlib.sha256(content).hexdigest()
    ollama, studio = tmp_path / ".ollama/models", tmp_path / ".lmstudio/models/org/other"
    (ollama / "blobs").mkdir(parents=True)
    studio.mkdir(parents=True)
    (ollama / f"blobs/sha256-{digest}").hardlink_to(FILE) if same_disk(tmp_path) else (
        ollama / f"blobs/sha256-{digest}").write_bytes(content)
    (studio / "Other-Q4_1.gguf").hardlink_to(ollama / f"blobs/sha256-{digest}")
    tag = ollama / "manifests/registry.example/library/smol/latest"
    tag.parent.mkdir(parents=True)
    tag.write_text(json.dumps({"layers": [{"mediaType": "application/vnd.ollama.image.model",
                                           "digest": f"sha256:{digest}"}]}))
    before = tag.stat().st_mtime_ns
    daemon = make_installing()
    status, reply = ui(daemon, "GET", "/api/models/discovered")
    rows = {row["source"]: row for row in reply["models"]}
    assert set(rows) == {"ollama", "lm-studio"}, reply
    assert rows["ollama"]["catalogMatch"] == ID and rows["ollama"]["importable"]
    assert [row["source"] for row in ui(daemon, "GET", "/api/models/discovered?source=ollama")[1]["models"]] == ["ollama"]
    name = rows["lm-studio"]["id"]
    assert name in listed(daemon)
    status, answer = daemon.chat(model=name)
    assert status == 200, answer
    assert name not in listed(daemon), "it is listed as installed now"
    assert daemon.chat(model=name)[0] == 200, "and the name still works"
    status, answer = daemon.chat(model=rows["ollama"]["id"])
    assert status == 200, answer
    assert listed(daemon)[QUALIFIED]["availability"] == "available", "under the id of the catalog"
    said = daemon.cli("models", "--discovered").stdout
    assert "ollama" in said and "lm-studio" in said

    removed = daemon.cli("rm", ID, "--force")
    assert removed.returncode == 0 and "not touched" in removed.stderr
    assert (ollama / f"blobs/sha256-{digest}").exists() and tag.stat().st_mtime_ns == before


def same_disk(folder):
    return folder.stat().st_dev == FILE.stat().st_dev
