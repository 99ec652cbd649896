"""Models step back while other programs want the processors, and answer the same meanwhile."""

import json
import os
import pathlib
import subprocess
import sys
import threading

import pytest

from conftest import SMOLLM2, wait_until

BURN = "while True: pass"
USUAL = os.getpriority(os.PRIO_PROCESS, 0)
LOW = max(10, USUAL)
# Without the right to lower a nice value again.
HUMBLE = """
import ctypes, os, resource, sys
ctypes.CDLL(None).prctl(24, 23, 0, 0, 0)  # CAP_SYS_NICE leaves the bounding set
resource.setrlimit(resource.RLIMIT_NICE, (0, 0))
os.execvp(sys.argv[1], sys.argv[1:])
"""


class Machine:
    """A folder that stands for "/": one processor, of which other programs use so much."""

    def __init__(self, folder):
        self.stat = pathlib.Path(folder) / "proc/stat"
        self.stat.parent.mkdir(parents=True)
        self.busy, self.total, self.share = 0, 0, 0.0
        self.step()
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.02):
            self.step()

    def step(self):
        self.total += 1000
        self.busy += int(1000 * self.share)
        new = self.stat.with_suffix(".new")
        new.write_text(f"cpu {self.busy} 0 0 {self.total - self.busy} 0 0 0\n")
        new.replace(self.stat)

    def end(self):
        self.ended.set()
        self.thread.join()


@pytest.fixture
def machine(tmp_path, monkeypatch):
    made = Machine(tmp_path / "root")
    monkeypatch.setenv("GEZEL_GOOD_NEIGHBOUR", "auto")
    monkeypatch.setenv("GEZEL_NEIGHBOUR_TRIAL", f"50,100,200,{tmp_path / 'root'}")
    yield made
    made.end()


def neighbour(daemon):
    status, _, raw = daemon.request("GET", "/api/ps", token=daemon.token)
    assert status == 200, raw
    return json.loads(raw)["neighbour"]


def nice_values(pid):
    """Of every thread of a process."""
    return {int(task.read_text().rsplit(")", 1)[1].split()[16]) for task in
            pathlib.Path(f"/proc/{pid}/task").glob("*/stat")}


def state_is(daemon, state):
    wait_until(lambda: neighbour(daemon).get("state") == state, what=f"the state {state}")


def test_a_busy_program_makes_the_model_step_back(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_GOOD_NEIGHBOUR", "auto")
    monkeypatch.setenv("GEZEL_NEIGHBOUR_TRIAL", "100,300,600000")
    daemon = make_daemon(SMOLLM2, flags=("--threads", "2", "--ctx", "1024"))
    daemon.chat("Name three colours.")  # from here on every run finds the same cells
    answer = daemon.chat("Name three colours.")[1]["choices"][0]["message"]["content"]
    burners = [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(2)]
    try:
        state_is(daemon, "yielding")
        assert neighbour(daemon)["others_cpu"] is not None
        wait_until(lambda: daemon.stats()["threads"] == 1, what="half the threads")
        worker = daemon.worker()
        assert nice_values(worker["pid"]) == {LOW}
        assert (worker["threads"], worker["nice"]) == (1, 10)
        assert daemon.chat("Name three colours.")[1]["choices"][0]["message"]["content"] == answer
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()


def test_a_model_returns_when_the_others_are_done(make_daemon, machine):
    daemon = make_daemon(SMOLLM2, flags=("--threads", "2", "--ctx", "1024"))
    daemon.chat()  # from here on every run finds the same cells
    answer = daemon.chat()[1]["choices"][0]["message"]["content"]
    machine.share = 0.9
    state_is(daemon, "yielding")
    wait_until(lambda: daemon.stats()["threads"] == 1, what="half the threads")
    machine.share = 0.0
    state_is(daemon, "normal")
    wait_until(lambda: daemon.stats()["threads"] == 2, what="all threads")
    assert daemon.chat()[1]["choices"][0]["message"]["content"] == answer


def test_where_priority_may_not_be_raised_the_next_load_has_it_back(make_daemon, machine):
    daemon = make_daemon(SMOLLM2, flags=("--threads", "2", "--ctx", "1024"), start=False)
    daemon.wrapper = [sys.executable, "-c", HUMBLE]
    daemon.start()
    assert daemon.chat()[0] == 200
    machine.share = 0.9
    state_is(daemon, "yielding")
    machine.share = 0.0
    state_is(daemon, "normal")
    worker = daemon.worker()
    assert (worker["threads"], worker["nice"]) == (2, 10)
    assert nice_values(worker["pid"]) == {LOW}
    assert "keeps a low priority until its next load" in daemon.cli("doctor").stdout
    assert daemon.cli("stop", SMOLLM2).returncode == 0
    assert daemon.chat()[0] == 200
    assert nice_values(daemon.worker()["pid"]) == {USUAL}


def test_a_model_that_is_loaded_meanwhile_steps_back_from_the_start(make_daemon, machine):
    machine.share = 0.9
    daemon = make_daemon(SMOLLM2, flags=("--threads", "2", "--ctx", "1024"))
    state_is(daemon, "yielding")
    assert daemon.chat()[0] == 200
    assert daemon.stats()["threads"] == 1
    assert nice_values(daemon.worker()["pid"]) == {LOW}


def test_switched_off_it_says_so(make_daemon):
    daemon = make_daemon()
    assert neighbour(daemon) == {"mode": "off"}
