"""What the service says about memory is what happens: plans, reservations, and two models that take turns."""

import concurrent.futures
import http.client
import json
import os
import pathlib

import pytest

from conftest import GEMMA3, SMOLLM2, plan, wait_until

MIB = 1 << 20


def memory(daemon, **caller):
    status, _, raw = daemon.request("GET", "/v1/memory", **caller)
    assert status == 200, raw
    return json.loads(raw)


def parts(bytes_):
    return sum(bytes_[name] for name in ("weights", "repack", "kv", "compute", "cache"))


def measured(pid):
    """What only this process needs: anonymous and shared memory, without mapped files."""
    rollup = pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text()
    sizes = {line.split(":")[0]: int(line.split()[1]) * 1024 for line in rollup.splitlines()[1:]}
    return sizes["Pss_Anon"] + sizes["Pss_Shmem"]


def test_a_plan_adds_up_and_a_load_keeps_it(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--ctx", "2048", "--slots", "2"))
    status, planned = plan(daemon, SMOLLM2)
    assert status == 200, planned
    assert planned["decision"] == "fits"
    assert (planned["context"], planned["slots"], planned["estimated"]) == (2048, 2, False)
    assert parts(planned["bytes"]) == planned["bytes"]["total"]
    assert memory(daemon)["reservations"] == []

    assert daemon.chat()[0] == 200
    held = memory(daemon)
    pool, (reservation,) = held["pools"][0], held["reservations"]
    assert reservation["key"] == "llama-cpp:smollm2-135m-instruct:0"
    assert parts(reservation) == reservation["total"] == planned["bytes"]["total"]
    assert pool["total"] == pool["budget"] + pool["margin"]
    assert pool["reserved"] >= reservation["total"]


def test_a_dry_run_is_within_five_percent_of_what_the_worker_holds(make_daemon):
    daemon = make_daemon(SMOLLM2, flags=("--ctx", "1024", "--slots", "1"))
    total = plan(daemon, SMOLLM2)[1]["bytes"]["total"]
    # One prompt that fills the window.
    status, reply = daemon.chat("word " * 900, max_tokens=8)
    assert status == 200, reply
    pid = daemon.worker()["pid"]

    def difference():
        # Of the memory for computed prompts, a plan has all and the worker holds what it uses. While it writes some of
        # it to disk, it holds a copy.
        used = daemon.stats()["cache"]
        held = measured(pid)
        planned = total - (used["host_budget"] - used["host_bytes"])
        return abs(planned - held) <= 0.05 * held

    wait_until(difference, 30, "what was planned")


def test_a_wish_of_a_plan_is_checked(make_daemon):
    daemon = make_daemon(SMOLLM2)
    for name, value in (("context", "0"), ("slots", "65"), ("slots", "two")):
        status, reply = plan(daemon, SMOLLM2, **{name: value})
        assert status == 400
        assert reply["error"]["param"] == name
        assert value in reply["error"]["message"]
    assert plan(daemon, "nope")[0] == 404


def test_what_gpus_are_asked_before_a_start_is_told(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_DEVICE_SAFETY_MODE", "off")
    daemon = make_daemon()
    told = {"mode": "off", "state": "off", "gpus": []}
    assert memory(daemon)["device_safety"] == told
    assert memory(daemon, token=daemon.token)["device_safety"] == {**told, "users": []}
    monkeypatch.setenv("GEZEL_LLAMA_BACKEND", "cuda")
    result = daemon.cli("serve", "--port", "0", "--home", daemon.home / "other")
    assert result.returncode != 0
    assert "GEZEL_LLAMA_BACKEND is cuda" in result.stdout + result.stderr


def test_a_model_that_never_fits_is_denied_with_a_reason(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", "0.1")
    daemon = make_daemon(SMOLLM2)
    status, reply = daemon.chat()
    assert status == 503
    assert reply["error"]["code"] == "capacity_denied"
    assert "GiB" in reply["error"]["message"]
    assert plan(daemon, SMOLLM2)[1]["decision"] == "no"
    assert daemon.cli("fit", SMOLLM2).returncode == 1


def test_two_models_that_do_not_fit_together_take_turns(make_daemon, monkeypatch):
    """Six clients, three for each model, want more than the memory holds: everybody is answered, and models are not
    loaded anew for each."""
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", "0.42")
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=("--ctx", "1024", "--slots", "2"))
    requests = 60

    def client(number):
        model = (SMOLLM2, GEMMA3)[number % 2]
        return [daemon.chat(f"Count from {number} to {turn}.", model=model, max_tokens=8)[0]
                for turn in range(requests // 6)]

    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        answers = [status for statuses in pool.map(client, range(6)) for status in statuses]
    assert answers == [200] * requests
    log = (daemon.home / "daemon.log").read_text()
    loads = log.count('"message":"loading a model"')
    assert 2 <= loads < requests / 3, loads
    wait_until(lambda: len(memory(daemon)["reservations"]) == 1, what="one model alone in memory")
    assert "engine process ended unexpectedly" not in log


def test_a_waiting_load_says_for_whom_and_can_be_cancelled(make_daemon, monkeypatch):
    monkeypatch.setenv("GEZEL_CAPACITY_BUDGET_GB", "0.42")
    daemon = make_daemon(SMOLLM2, GEMMA3, flags=("--ctx", "2048", "--slots", "1"))
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        long_answer = pool.submit(daemon.chat, max_tokens=1500, ignore_eos=True)
        wait_until(lambda: (daemon.worker() or {}).get("slots_busy"), what="a busy model")
        waiting = http.client.HTTPConnection("127.0.0.1", daemon.port)
        waiting.request("POST", "/v1/chat/completions",
                        json.dumps({"model": GEMMA3, "messages": [{"role": "user", "content": "Hi"}]}),
                        {"Authorization": f"Bearer {daemon.key}", "Content-Type": "application/json"})
        wait_until(lambda: "waiting for" in (daemon.home / "daemon.log").read_text(), what="the second model's turn to come")
        waiting.close()
        assert long_answer.result()[0] == 200
    wait_until(lambda: daemon.worker(GEMMA3) is None, what="the given-up load to be forgotten")


CGROUP = pathlib.Path("/sys/fs/cgroup/memory")


@pytest.fixture
def small_group():
    """A memory cgroup of 600 MiB (version 1), as a container has one."""
    group = CGROUP / f"gezel-e2e-{os.getpid()}"
    try:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(600 * MIB))
    except OSError as error:
        pytest.skip(f"no memory cgroup of version 1 can be made here: {error}")
    yield group
    # Empty once the daemon and its workers are gone.
    wait_until(lambda: not (group / "cgroup.procs").read_text().strip(), what="an empty group")
    group.rmdir()


def test_in_a_small_container_models_are_admitted_and_nothing_is_killed(small_group, make_daemon):
    daemon = make_daemon(SMOLLM2, GEMMA3, start=False)
    daemon.wrapper = ["sh", "-c", f'echo $$ > {small_group}/cgroup.procs; exec "$@"', "sh"]
    daemon.start()
    try:
        status, smol = plan(daemon, SMOLLM2)
        assert status == 200 and smol["decision"] != "no" and smol["context"] >= 4096, smol
        assert memory(daemon)["pools"][0]["total"] == 600 * MIB
        for _ in range(2):
            assert daemon.chat(max_tokens=8)[0] == 200
            status, reply = daemon.chat(model=GEMMA3, max_tokens=8)
            assert status == 200 or reply["error"]["code"] == "capacity_denied", reply
        assert (small_group / "memory.failcnt").read_text().strip() == "0"
        assert "engine process ended unexpectedly" not in (daemon.home / "daemon.log").read_text()
    finally:
        daemon.stop()
