"""Where models are looked for and which one is meant: the default model, folders of the user's own, models of the machine,
updates of the catalog, and what `gezel doctor` says of files that were written by hand."""

import hashlib
import http.server
import json
import os
import shutil
import threading

import pytest
from conftest import FILES, GEMMA3, ROOT, SMOLLM2, listed, ui, wait_until


def link_or_copy(source, target):
    try:
        os.link(source, target)
    except OSError:
        shutil.copy(source, target)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No models of this machine's user."""
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name in ("LLAMA_CACHE", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "OLLAMA_MODELS", "HTTPS_PROXY",
                 "https_proxy", "GEZEL_MODEL_DIRS", "GEZEL_SHARED_ASSETS_DIR", "GEZEL_SYSTEM_SCOPE"):
        monkeypatch.delenv(name, raising=False)


def test_a_request_without_a_model_gets_the_default_one(make_daemon):
    daemon = make_daemon(SMOLLM2, GEMMA3)
    assert daemon.cli("default", "smollm2-135m-instruct").stdout.strip() == "smollm2-135m-instruct"
    body = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4}
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body)
    assert status == 200 and json.loads(raw)["model"] == SMOLLM2, raw
    status, answer = daemon.chat(model="default")
    assert status == 200 and answer["model"] == "default"
    assert [entry["id"] for entry in daemon.ps()] == [SMOLLM2]
    asked = daemon.cli("run", "Say hi", "--max-tokens", "4")
    assert asked.returncode == 0, asked.stderr

    assert daemon.cli("rm", "smollm2-135m-instruct", "--force").returncode == 0
    assert ui(daemon, "GET", "/api/default-model")[1] == {
        "provider": "llama-cpp", "pinned": "smollm2-135m-instruct", "model": GEMMA3}
    daemon.stop()
    daemon.start()
    wait_until(lambda: ui(daemon, "GET", "/api/default-model")[1]["pinned"] == "gemma3-270m", what="the new pin")


def test_without_any_model_the_error_says_how_to_get_one(make_daemon):
    daemon = make_daemon()
    body = {"messages": [{"role": "user", "content": "Hi"}]}
    wait_until(lambda: (daemon.home / "config.json").exists(), what="the first run")
    status, _, raw = daemon.request("POST", "/v1/chat/completions", body)
    error = json.loads(raw)["error"]
    assert status == 404 and error["code"] == "model_not_found" and "gezel pull" in error["message"]
    assert daemon.cli("run", "Say hi").returncode == 4


@pytest.mark.parametrize("how", ["environment", "flag", "config"])
def test_models_of_a_folder_of_ones_own_are_used_where_they_lie(make_daemon, tmp_path, monkeypatch, how):
    folder = tmp_path / "models" / "deep"
    folder.mkdir(parents=True)
    file = folder / "Own.gguf"
    link_or_copy(FILES["smollm2-135m-instruct"], file)
    if how == "environment":
        monkeypatch.setenv("GEZEL_MODEL_DIRS", str(tmp_path / "models"))
    daemon = make_daemon(start=False)
    if how == "flag":
        daemon.flags += ["--model-dir", str(tmp_path / "models")]
    if how == "config":
        (daemon.home / "config.json").write_text(json.dumps({"modelDirs": [str(tmp_path / "models")]}))
    daemon.start()
    wait_until(lambda: "discovered:user/local-own" in listed(daemon), what="the model")
    status, answer = daemon.chat(model="discovered:user/local-own")
    assert status == 200, answer
    assert "llama-cpp:local-own" in listed(daemon)
    assert daemon.cli("rm", "local-own", "--force").returncode == 0
    assert file.exists()


def test_models_of_the_machine_are_used_and_never_deleted(make_daemon, tmp_path, monkeypatch):
    machine = tmp_path / "machine"
    monkeypatch.setenv("GEZEL_SHARED_ASSETS_DIR", str(machine))
    monkeypatch.setenv("GEZEL_SYSTEM_SCOPE", "1")
    owner = make_daemon(start=False)
    imported = owner.cli("import", FILES["smollm2-135m-instruct"], "--id", "shared", "--mode", "copy")
    assert imported.returncode == 0, imported.stderr
    file = next((machine / "models/llama-cpp/shared").glob("*.gguf"))
    assert file.stat().st_mode & 0o777 == 0o644

    monkeypatch.delenv("GEZEL_SYSTEM_SCOPE")
    daemon = make_daemon()
    wait_until(lambda: "llama-cpp:shared" in listed(daemon), what="the machine's model")
    assert listed(daemon)["llama-cpp:shared"]["read_only"] is True
    status, answer = daemon.chat(model="shared")
    assert status == 200, answer
    assert "machine" in daemon.cli("models").stdout
    status, refused = ui(daemon, "DELETE", "/api/llama-cpp/models/shared?force=1")
    assert (status, refused["error"]) == (409, "read-only-model"), refused
    removed = daemon.cli("rm", "shared", "--force")
    assert removed.returncode != 0 and "read-only-model" in removed.stderr
    assert file.exists() and daemon.chat(model="shared")[0] == 200


@pytest.fixture
def publisher():
    """Serves `files`, bytes by path."""
    files = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def log_message(self, *args):
            pass

        def do_GET(self):
            content = files.get(self.path)
            if content is None:
                return self.send_error(404)
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield files, f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def publish(files, base, change):
    """The shipped catalog as version 1.0.1, changed."""
    kinds = {}
    for kind, name in (("chat-model", "chat-models.json"), ("image-model", "image-models.json")):
        content = json.loads((ROOT / "catalog" / name).read_text())
        content["contentVersion"] = "1.0.1"
        if kind == "chat-model":
            change(content["entries"])
        content["count"] = len(content["entries"])
        text = json.dumps(content).encode()
        files[f"/1.0.1/{name}"] = text
        kinds[kind] = {"count": content["count"], "indexPath": f"1.0.1/{name}",
                       "sha256": hashlib.sha256(text).hexdigest()}
    files["/pointer.json"] = json.dumps({
        "schemaVersion": 1, "contentVersion": "1.0.1", "publishedAt": "2026-09-01T00:00:00Z", "baseUrl": base,
        "kinds": kinds}).encode()


def test_the_catalog_is_updated_where_that_is_switched_on(make_daemon, publisher):
    files, base = publisher
    daemon = make_daemon()
    assert ui(daemon, "POST", "/api/catalog-updates/check")[1]["outcome"] == "blocked"
    status, refused = ui(daemon, "POST", "/api/catalog-updates", {"enabled": True})
    assert status == 400 and "url" in refused["message"]
    status, state = ui(daemon, "POST", "/api/catalog-updates", {"enabled": True, "url": f"{base}/pointer.json"})
    assert status == 200 and state["mode"] == "bundled" and state["bundledVersion"] == "1.0.0", state

    publish(files, base, lambda entries: entries.pop())
    report = ui(daemon, "POST", "/api/catalog-updates/check")[1]
    assert report["outcome"] == "incompatible" and len(report["regressions"]) == 1, report

    def rename(entries):
        newest = dict(entries[0], id="brand-new-q4", name="Brand new", aliases=[])
        entries.append(newest)

    publish(files, base, rename)
    report = ui(daemon, "POST", "/api/catalog-updates/check")[1]
    assert report["outcome"] == "updated", report
    state = ui(daemon, "GET", "/api/catalog-updates")[1]
    assert state["mode"] == "live" and state["activeVersion"] == "1.0.1" and state["lastCheck"]["outcome"] == "updated"
    wait_until(lambda: "llama-cpp:brand-new-q4" in listed(daemon), what="the new model")
    item = ui(daemon, "GET", "/api/catalog/chat-models/brand-new-q4")[1]
    assert item["sourceId"] == "live" and item["manifest"]["name"] == "Brand new"

    daemon.stop()
    daemon.start()
    assert "llama-cpp:brand-new-q4" in listed(daemon), "an update outlives the daemon"
    assert ui(daemon, "POST", "/api/catalog-updates", {"enabled": False})[1]["mode"] == "bundled"
    assert ui(daemon, "GET", "/api/catalog/chat-models/brand-new-q4")[0] == 404


def test_doctor_names_what_is_wrong_in_files_of_the_user(make_daemon):
    daemon = make_daemon(start=False)
    item = daemon.home / "catalog/chat-models/mi/mine"
    item.mkdir(parents=True)
    (item / "manifest.json").write_text(json.dumps({"id": "mine", "name": 7}))
    version = item / "versions/1.0.0"
    version.mkdir(parents=True)
    (version / "manifest.json").write_text(json.dumps({"version": "1.0.0", "approxSizeBytes": -1}))
    (daemon.home / "config.json").write_text(json.dumps({"modelDirs": ["models"]}))
    findings = json.loads(daemon.cli("doctor", "--json").stdout)["findings"]
    details = [finding["detail"] for finding in findings if finding["verdict"] == "warning"]
    assert any("chat-models/mi/mine/manifest.json: /name is 7; it must be" in text for text in details), details
    assert any("versions/1.0.0/manifest.json: /approxSizeBytes is -1; it must be" in text for text in details), details
    assert any('/modelDirs/0 is "models"; it must be an absolute path' in text for text in details), details
