"""Models of any address and model bundles: from a server that drops and refuses, into one home, out of it as one file, and
into another home, over HTTP and from the command line."""

import hashlib
import json
import zipfile

import pytest
from conftest import FILES
from test_models import events, listed, ui
from test_plan import PlanHub

NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
ID = "llama-cpp:notes"
SCAN = "/api/model-bundles/imports/scan"
CONFIRM = "/api/model-bundles/imports/confirm"


@pytest.fixture(scope="module")
def content():
    return FILES["smollm2-135m-instruct"].read_bytes()


@pytest.fixture
def host(content):
    made = PlanHub(content)
    yield made
    made.server.shutdown()


def ensure(daemon, **fields):
    status, _, raw = daemon.request("POST", "/v1/models/ensure", fields, token=daemon.token)
    return status, json.loads(raw)


def post(daemon, path, body, **headers):
    status, _, raw = daemon.request("POST", path, body, token=daemon.token, headers=headers)
    return status, json.loads(raw)


def test_a_file_of_any_address_is_installed_checked_and_deleted(make_daemon, host, content):
    daemon = make_daemon()
    address, digest = f"{host.url}/{NAME}", hashlib.sha256(content).hexdigest()
    status, reply = ensure(daemon, model=address, sha256="0" * 64)
    assert status == 202, reply
    assert events(daemon, reply["job_id"])[-1]["code"] == "hash_mismatch"
    status, reply = ensure(daemon, model=address, id="notes", sha256=digest)
    assert (status, reply["model_id"]) == (202, ID)
    told = events(daemon, reply["job_id"])
    assert told[-1]["type"] == "done", told[-1]
    assert [event["totalBytes"] for event in told if event["type"] == "progress"][0] == len(content)
    assert ensure(daemon, model=f"url:{address}#sha256={digest}", id="notes") == (
        200, {"status": "ready", "model_id": ID})
    assert ui(daemon, "DELETE", "/api/llama-cpp/models/notes")[0] == 200
    assert ID not in listed(daemon)


def test_a_host_without_ranges_and_a_page_that_is_no_model(make_daemon, host):
    daemon = make_daemon()
    host.mode = "page"
    status, reply = ensure(daemon, model=f"{host.url}/{NAME}")
    assert (status, reply["error"]["code"]) == (502, "model_invalid"), reply
    host.mode = "none"
    pulled = daemon.cli("pull", f"{host.url}/{NAME}", "--id", "notes")
    assert pulled.returncode == 0, pulled.stderr
    assert pulled.stdout.strip() == "notes"
    assert "installed already" in daemon.cli("pull", f"{host.url}/{NAME}", "--id", "notes").stderr
    fit = daemon.cli("fit", f"{host.url}/{NAME}")
    assert fit.returncode == 0, fit.stderr


def test_addresses_of_this_network_are_not_asked(make_daemon):
    daemon = make_daemon()
    for address in ("https://10.0.0.1/m.gguf", "https://[fd00::1]/m.gguf", "https://169.254.169.254/m.gguf"):
        status, reply = ensure(daemon, model=address)
        assert (status, reply["error"]["code"]) == (403, "private_address"), reply
    assert ensure(daemon, model="http://example.org/m.gguf")[0] == 400
    status, _, raw = daemon.request("POST", "/v1/models/ensure", {"model": "https://example.org/m.gguf"})
    assert status == 403, raw


def test_a_model_moves_to_another_home_over_http(make_daemon, content):
    first, second = make_daemon("smollm2-135m-instruct"), make_daemon()
    path = "/api/model-bundles/llama-cpp/smollm2-135m-instruct/export"
    status, headers, archive = first.request("GET", path, token=first.token)
    assert status == 200
    assert headers["content-type"] == "application/vnd.gezel.model+zip"
    assert int(headers["x-gezel-model-bytes"]) == len(archive) > len(content)
    assert first.request("GET", path)[0] == 403, "the API key exports nothing"

    status, review = post(second, SCAN, archive, **{"content-type": "application/vnd.gezel.model+zip"})
    assert status == 200, review
    assert (review["id"], review["approxSizeBytes"], review["exists"]) == ("smollm2-135m-instruct", len(content), False)
    assert listed(second).get("llama-cpp:smollm2-135m-instruct", {}).get("availability") != "available"
    status, reply = post(second, CONFIRM, {"importId": review["importId"]})
    assert status == 200, reply
    assert listed(second)["llama-cpp:smollm2-135m-instruct"]["availability"] == "available"
    installed = second.home / "engines/llama-cpp/models/smollm2-135m-instruct"
    assert [file.read_bytes() == content for file in installed.glob("*.gguf")] == [True]
    assert not list((second.home / ".transactions/gezmodel-imports").iterdir())
    assert post(second, CONFIRM, {"importId": review["importId"]})[0] == 404


def test_hostile_uploads_leave_nothing(make_daemon, tmp_path):
    daemon = make_daemon()
    waiting = daemon.home / ".transactions/gezmodel-imports"
    hostile = {
        "traversal": [("../../evil", b"x")],
        "absolute": [("/etc/passwd", b"x")],
        "program": [("manifest.json", b"{}"), ("model/run.sh", b"x")],
        "empty": [],
    }
    for name, entries in hostile.items():
        with zipfile.ZipFile(tmp_path / name, "w") as archive:
            for path, data in entries:
                archive.writestr(path, data)
        status, reply = post(daemon, SCAN, (tmp_path / name).read_bytes())
        assert (status, reply["error"]) == (400, "invalid_bundle"), reply
    with zipfile.ZipFile(tmp_path / "bomb", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model/zeros.gguf", b"\0" * 50_000_000)
    status, reply = post(daemon, SCAN, (tmp_path / "bomb").read_bytes())
    assert status == 400 and "200 to 1" in reply["message"], reply
    assert not waiting.exists() or not list(waiting.iterdir())
    assert daemon.request("GET", "/health")[0] == 200


def test_a_model_moves_to_another_home_by_hand(make_daemon, content, tmp_path):
    first, second = make_daemon("smollm2-135m-instruct", start=False), make_daemon(start=False)
    target = tmp_path / "smol.gezmodel"
    exported = first.cli("export", "smollm2-135m-instruct", "-o", target)
    assert exported.returncode == 0, exported.stderr
    assert exported.stdout.strip() == str(target)
    assert first.cli("export", "smollm2-135m-instruct", "-o", target).returncode != 0, "nothing is written over"
    with zipfile.ZipFile(target) as archive:  # any program can read it
        assert archive.testzip() is None
        names = archive.namelist()
    assert names[:3] == ["manifest.json", "manifests/installed.json", "manifests/catalog.json"]

    looked = second.cli("import", target, "--dry-run", "--json")
    assert looked.returncode == 0, looked.stderr
    assert json.loads(looked.stdout)["id"] == "smollm2-135m-instruct"
    imported = second.cli("import", target)
    assert imported.returncode == 0, imported.stderr
    assert imported.stdout.strip() == "smollm2-135m-instruct"
    again = second.cli("import", target)
    assert again.returncode != 0 and "--replace" in again.stderr
    second.start()
    assert listed(second)["llama-cpp:smollm2-135m-instruct"]["availability"] == "available"
    replaced = second.cli("import", target, "--replace")
    assert replaced.returncode == 0, replaced.stderr
    damaged = bytearray(target.read_bytes())
    damaged[len(damaged) // 2] ^= 1
    target.write_bytes(damaged)
    refused = second.cli("import", target, "--replace")
    assert refused.returncode != 0 and "damaged" in refused.stderr
