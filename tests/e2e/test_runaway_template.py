"""A chat template is a program that came with the model: what it cannot be stopped at ends its worker, by name."""

import json
import struct

from conftest import FILES


ECHO = "{% for m in messages %}{{ m.role + ': ' + m.content + '\\n' }}{% endfor %}"
NEST = "{% set n = namespace(x=[]) %}{% for i in range(9) %}{% for j in range(90000) %}{% set n.x = [n.x] %}{% endfor %}{% endfor %}"


def with_template(path, template):
    """The small model with another chat template of the same length, so that nothing else in the file moves."""
    data = FILES["smollm2-135m-instruct"].read_bytes()
    key = b"tokenizer.chat_template"
    at = data.index(key) + len(key)
    kind, length = struct.unpack("<IQ", data[at:at + 12])
    assert kind == 8 and len(template) + 4 <= length
    filled = template + "{#" + " " * (length - len(template) - 4) + "#}"
    path.write_bytes(data[:at + 12] + filled.encode() + data[at + 12 + length:])
    return path


def incidents(daemon):
    file = daemon.home / "logs/native-incidents.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_a_template_that_runs_away_costs_its_request_and_is_called_by_its_name(make_daemon, tmp_path):
    hostile = with_template(tmp_path / "m.gguf", ECHO + "{% if messages[-1].content == 'nest' %}" + NEST + "{% endif %}")
    daemon = make_daemon()
    assert daemon.cli("import", hostile, "--id", "hostile").returncode == 0
    assert daemon.chat(model="hostile")[0] == 200
    status, body = daemon.chat("nest", model="hostile")
    assert status == 503, body
    assert body["error"]["code"] == "model_invalid"
    assert "chat template ran out of stack" in body["error"]["message"]
    assert [line["panicKind"] for line in incidents(daemon)] == ["template-overrun"]
    assert daemon.chat(model="hostile")[0] == 200, "the next request has a new worker"


def test_a_template_that_runs_away_at_once_is_a_verdict_about_the_model(make_daemon, tmp_path):
    daemon = make_daemon()
    assert daemon.cli("import", with_template(tmp_path / "m.gguf", ECHO + NEST), "--id", "hostile").returncode == 0
    for _ in range(4):
        status, body = daemon.chat(model="hostile")
        assert status == 503, body
        assert body["error"]["code"] == "model_invalid"
        assert "chat template" in body["error"]["message"]
    assert incidents(daemon) == [], "a refused load is no crash"
