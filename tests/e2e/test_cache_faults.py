"""A disk that is full or read-only costs speed, never an answer: on real file systems."""

import shutil
import subprocess

import pytest

from test_prefix_cache import QUESTIONS, TINY, ask, make, records, tiny  # noqa: F401

NAMESPACES = shutil.which("unshare") and subprocess.run(
    ["unshare", "--mount", "true"], capture_output=True).returncode == 0
pytestmark = pytest.mark.skipif(not NAMESPACES, reason="this user may not mount file systems of its own")


def mounted(daemon, command):
    """The daemon sees the folder of records as `command` mounts it on $1; nobody else does."""
    folder = daemon.home / "engines/embedded/kv"
    folder.mkdir(parents=True, exist_ok=True)
    daemon.wrapper = ["unshare", "--mount", "sh", "-ec", f'{command}; shift; exec "$@"', "sh", str(folder)]


def test_a_read_only_disk_still_gives_what_it_has(make):  # noqa: F811
    daemon = make(TINY)
    first = ask(daemon, QUESTIONS[0])
    daemon.stop()
    before = records(daemon)
    assert before
    mounted(daemon, 'mount --bind "$1" "$1"; mount -o remount,bind,ro "$1"')
    daemon.start()
    again = ask(daemon, QUESTIONS[0])
    assert again.text == first.text
    assert again.cached == again.tokens - 1
    other = ask(daemon, QUESTIONS[1], system="Other rules: " + "Say it in one word. " * 200)
    assert other.text
    daemon.cli("cache", "flush", TINY)
    cache = daemon.stats(TINY)["cache"]
    assert cache["cached"]["disk"] == again.cached
    assert cache["written"] == 0 < cache["disk_errors"]
    daemon.stop()
    assert records(daemon) == before


def test_a_full_disk_costs_the_records_only(make):  # noqa: F811
    whole = make(TINY)
    expected = ask(whole, QUESTIONS[0])
    whole.stop()
    daemon = make(TINY, start=False)
    mounted(daemon, 'mount -t tmpfs -o size=64k,mode=700 tmpfs "$1"')
    daemon.start()
    first = ask(daemon, QUESTIONS[0])
    assert first.text == expected.text
    daemon.cli("cache", "flush", TINY)
    second = ask(daemon, QUESTIONS[1])
    assert second.cached >= second.tokens - 40, "from memory"
    cache = daemon.stats(TINY)["cache"]
    assert cache["written"] == 0 < cache["disk_errors"]
