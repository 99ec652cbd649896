"""The command line as a person or a script uses it."""

import json
import pathlib
import signal
import subprocess

from conftest import BIN, FILES, SMOLLM2, wait_until


def test_run_starts_the_daemon_says_so_and_streams_the_answer(make_daemon):
    home = make_daemon(SMOLLM2, start=False)
    result = home.cli("run", SMOLLM2, "What is the capital of France?", "--max-tokens", "24", "--temperature", "0")
    try:
        assert result.returncode == 0, result.stderr
        assert result.stdout.strip()
        assert "start" in result.stderr.lower()
        assert home.cli("ps", "--json").returncode == 0
    finally:
        assert home.cli("stop").returncode == 0
    assert home.cli("ps").returncode == 3


def test_exit_codes(make_daemon):
    daemon = make_daemon(SMOLLM2)
    assert daemon.cli("run", "llama-cpp:nothing", "Hi").returncode == 4
    assert daemon.cli("run").returncode == 2
    assert daemon.cli("--no-such-flag").returncode == 2
    assert daemon.cli("models").returncode == 0
    assert daemon.cli("stop", "smollm2-135m-instruct").returncode in (1, 4)


def test_a_near_miss_is_suggested(daemon):
    result = daemon.cli("run", "smollm2-135m-instrct", "Hi")
    assert result.returncode == 4
    assert "smollm2-135m-instruct" in result.stderr


def test_listings_are_json_when_asked(daemon):
    daemon.chat()
    for command in ("models", "ps", "doctor"):
        result = daemon.cli(command, "--json")
        assert result.returncode == 0, result.stderr
        json.loads(result.stdout)


def test_every_command_has_help_with_an_example(daemon):
    for command in ("serve", "run", "chat", "models", "import", "ps", "cache", "stop", "key", "doctor", "completion"):
        result = daemon.cli(command, "--help")
        assert result.returncode == 0
        assert f"gezel {command}" in result.stdout


def test_the_key_survives_a_restart_and_rotates(make_daemon):
    daemon = make_daemon()
    first = daemon.key
    daemon.stop()
    daemon.start()
    assert daemon.key == first
    rotated = daemon.cli("key", "--rotate").stdout.strip().splitlines()[-1]
    assert rotated != first
    assert daemon.request("GET", "/v1/models", token=first)[0] == 401
    assert daemon.request("GET", "/v1/models", token=rotated)[0] == 200


def test_import_by_reference_is_usable_at_once(make_daemon):
    daemon = make_daemon()
    result = daemon.cli("import", FILES["smollm2-135m-instruct"], "--id", "mine")
    assert result.returncode == 0, result.stderr
    status, body = daemon.chat(model="llama-cpp:mine")
    assert status == 200, body


def test_interrupt_ends_run_with_130(make_daemon):
    daemon = make_daemon(SMOLLM2)
    process = subprocess.Popen([str(BIN / "gezel"), "run", SMOLLM2, "Count to a million.", "--max-tokens", "100000"],
                               env=daemon.environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    wait_until(lambda: daemon.stats()["sequences"] == 0, 5, "the run to be cancelled")


def test_completion_scripts_are_printed_for_each_shell(daemon):
    for shell in ("bash", "zsh", "fish"):
        result = daemon.cli("completion", shell)
        assert result.returncode == 0 and "gezel" in result.stdout
    script = daemon.cli("completion", "bash").stdout
    assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0
