"""Calibration with the real worker. Which setting wins is this machine's matter; what happens with it is not."""

import itertools
import json
import os
import signal
import threading
import time

from conftest import SMOLLM2, wait_until

PATIENCE = 240  # a busy machine measures points several times


def make_calibrating(make_daemon, *flags):
    daemon = make_daemon(SMOLLM2, flags=flags, start=False)
    daemon.calibration = "on"
    return daemon.start()


def tuned(daemon, model=SMOLLM2):
    status, _, raw = daemon.request("GET", f"/api/tune?model={model}", token=daemon.token)
    assert status == 200, raw
    return json.loads(raw)


def measured(daemon):
    return wait_until(lambda: (t := tuned(daemon)).get("complete") and t, PATIENCE, "the calibration")


def records(daemon):
    return sorted((daemon.home / "calibration").glob("*.json"))


def complete_record(daemon):
    """The one record, once it is on disk: it is written behind what the API tells."""
    (file,) = records(daemon)
    wait_until(lambda: json.loads(file.read_text())["complete"], what="a complete record")
    return file


def test_an_idle_model_is_measured_and_the_choice_is_kept(make_daemon):
    daemon = make_calibrating(make_daemon, "--ctx", "4096", "--slots", "2")
    status, _ = daemon.chat()
    assert status == 200
    result = measured(daemon)
    assert result["source"] == "measured"
    assert result["decode_tps"] > 0 and result["prefill_tps"] > 0
    assert {c["flash_attention"] for c in result["candidates"]} == {True, False}
    chosen = [c for c in result["candidates"] if c["chosen"]]
    assert len(chosen) == 1
    depths = {s["depth"] for s in chosen[0]["samples"]}
    assert 0 in depths and max(depths) >= 2048
    file = complete_record(daemon)
    assert file.stat().st_mode & 0o077 == 0

    # The answer to a greedy question does not depend on measuring having happened.
    before = daemon.chat("Count to five.")[1]["choices"][0]["message"]["content"]
    assert before

    # A second load uses what is stored and measures nothing.
    daemon.cli("stop", SMOLLM2.split(":")[1])
    written = file.stat().st_mtime_ns
    assert daemon.chat()[0] == 200
    again = tuned(daemon)
    assert again["complete"] and again["settings"]["source"] == "measured"
    assert again["settings"]["flash_attention"] == chosen[0]["flash_attention"]
    assert file.stat().st_mtime_ns == written
    status, _, raw = daemon.request("GET", f"/v1/models/{SMOLLM2}")
    performance = json.loads(raw)["performance"]
    assert performance["source"] == "measured" and performance["at_depth"] > 0
    assert performance["settings"]["source"] == "measured"


def test_a_record_that_is_damaged_is_made_again(make_daemon):
    daemon = make_calibrating(make_daemon, "--ctx", "1024", "--slots", "1")
    assert daemon.chat()[0] == 200
    measured(daemon)
    daemon.cli("stop", SMOLLM2.split(":")[1])
    (file,) = records(daemon)
    file.write_text(file.read_text()[:200])
    assert daemon.chat()[0] == 200
    measured(daemon)
    assert complete_record(daemon) == file
    assert "cannot be used and is made again" in (daemon.home / "daemon.log").read_text()


def test_what_the_user_set_stays(make_daemon):
    daemon = make_calibrating(make_daemon, "--ctx", "1024", "--slots", "1", "--flash-attn", "on")
    assert daemon.chat()[0] == 200
    result = measured(daemon)
    assert {c["flash_attention"] for c in result["candidates"]} == {True}
    assert result["settings"]["flash_attention"] is True
    assert result["settings"]["source"] == "user"


def test_requests_are_served_while_it_measures(make_daemon):
    daemon = make_calibrating(make_daemon, "--ctx", "4096", "--slots", "2")
    begun = daemon.request("POST", "/api/tune", {"model": SMOLLM2}, token=daemon.token)
    assert begun[0] == 200, begun
    answers = set()
    for _ in range(8):
        status, reply = daemon.chat("Say hello.", max_tokens=8)
        assert status == 200
        answers.add(reply["choices"][0]["message"]["content"])
    assert len(answers) == 1
    measured(daemon)
    assert daemon.worker() is not None


def test_tune_shows_a_table_and_list_shows_it_again(make_daemon):
    daemon = make_calibrating(make_daemon, "--ctx", "1024", "--slots", "1")
    result = daemon.cli("tune", SMOLLM2.split(":")[1], timeout=PATIENCE)
    assert result.returncode == 0, result.stderr
    assert "FLASH ATTENTION" in result.stdout and "chosen" in result.stdout
    listed = daemon.cli("tune", "--list")
    assert listed.returncode == 0
    assert "smollm2-135m-instruct" in listed.stdout

    # The list of models has the same speed, and doctor says what limits it.
    (model,) = json.loads(daemon.cli("models", "--json").stdout)["models"]
    speed = tuned(daemon)["decode_tps"]
    assert model["performance"]["source"] == "measured"
    assert abs(model["performance"]["decode_tps"] - speed) < 0.01 * speed
    assert "PREFILL TOK/S" in daemon.cli("models").stdout
    report = json.loads(daemon.cli("doctor", "--json").stdout)
    (judged,) = report["speed"]["models"]
    assert judged["bytes_per_token"] > 50e6
    (finding,) = [f for f in report["findings"] if f["area"] == "speed" and f["subject"] == "smollm2-135m-instruct"]
    assert "% of memory's speed" in finding["detail"] and "limit" in finding["detail"]


def test_the_first_request_of_a_model_is_answered_before_anything_is_measured(make_daemon):
    """Spec 35, case 2: it waits for nothing. What that comes to in milliseconds, bench/calibration.py says."""
    daemon = make_calibrating(make_daemon, "--ctx", "1024", "--slots", "1")
    assert daemon.chat()[0] == 200
    # A second later it may be measuring; a whole calibration takes many.
    assert not tuned(daemon).get("complete")
    other = make_daemon(SMOLLM2, flags=("--ctx", "1024", "--slots", "1"))
    assert other.chat()[0] == 200

    def settings(each):
        return {name: each.worker()[name] for name in ("flash_attention", "kv_type", "threads")}

    assert settings(daemon) == settings(other), "those of a model that is never measured"


class Throttled:
    """Lets a process run for a third of the time, as a processor does that is too hot."""

    def __init__(self, pid):
        self.pid, self.over = pid, threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self):
        for stop, length in itertools.cycle([(signal.SIGSTOP, 0.02), (signal.SIGCONT, 0.01)]):
            os.kill(self.pid, stop)
            if self.over.wait(length):
                break
        os.kill(self.pid, signal.SIGCONT)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *ignored):
        self.over.set()
        self.thread.join()


def test_a_machine_that_slows_down_is_reported_once_and_its_record_stays(make_daemon):
    """Spec 35, case 12."""
    daemon = make_calibrating(make_daemon, "--ctx", "2048", "--slots", "1")
    assert daemon.chat()[0] == 200
    measured(daemon)
    file = complete_record(daemon)
    daemon.cli("stop", SMOLLM2.split(":")[1])
    assert daemon.chat()[0] == 200
    before = file.read_bytes()

    def reports():
        return (daemon.home / "daemon.log").read_text().count("computes much slower than it was measured to")

    with Throttled(daemon.worker()["pid"]):
        end = time.monotonic() + 90
        while time.monotonic() < end:
            assert daemon.chat("Count to a thousand.", max_tokens=200, ignore_eos=True)[0] == 200
    assert reports() == 1
    assert file.read_bytes() == before


def test_switched_off_nothing_is_measured(make_daemon):
    daemon = make_daemon(SMOLLM2)
    assert daemon.chat()[0] == 200
    result = daemon.cli("tune", SMOLLM2.split(":")[1])
    assert result.returncode != 0
    assert "calibration_off" in result.stderr
    assert tuned(daemon)["state"] == "unknown"
    assert not records(daemon)
