"""Models whose memory cannot be cut at any token: a sliding window, recurrent layers beside attention, recurrent layers
alone. What comes out of a slot, of memory or of the disk goes on as the same prompt computed whole."""

import pytest

from test_prefix_cache import QUESTIONS, SYSTEM, ask
from tiny_model import family_template, write_tiny_model

KINDS = ["window", "hybrid", "recurrent"]
# Of scripted answers: what a model of noise writes would not always be read as the same tokens.
ANSWERS = ["Topic 12 is about the stones of the region, and they have to do with its rivers.",
           "The Danube passes Vienna, the Rhine passes Basel, and the Loire passes Orleans."]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    return {kind: write_tiny_model(folder / f"{kind}.gguf", family_template("Qwen-Qwen3-0.6B"), kind) for kind in KINDS}


@pytest.fixture
def make(make_daemon, files, monkeypatch):
    def made(kind, mode="auto"):
        daemon = make_daemon(flags=["--slots", "1", "--ctx", "4096"], start=False)
        imported = daemon.cli("import", files[kind], "--id", kind)
        assert imported.returncode == 0, imported.stderr
        monkeypatch.setenv("GEZEL_KV_MODE", mode)
        return daemon.start()

    return made


def conversation(turns):
    messages = [{"role": "system", "content": SYSTEM}]
    for turn in range(turns):
        messages.append({"role": "user", "content": QUESTIONS[turn]})
        if turn + 1 < turns:
            messages.append({"role": "assistant", "content": ANSWERS[turn]})
    return messages


def turn(daemon, kind, turns):
    return ask(daemon, model=kind, messages=conversation(turns), tokens=12, temperature=0)


@pytest.mark.parametrize("kind", KINDS)
def test_a_conversation_is_the_same_warm_and_cold(make, kind):
    cold = make(kind, "none")
    whole = [turn(cold, kind, turns) for turns in (1, 2, 3)]
    assert [reply.cached for reply in whole] == [0, 0, 0]
    cold.stop()

    daemon = make(kind)
    mode = {"window": "window", "hybrid": "hybrid", "recurrent": "recurrent"}[kind]
    first, second = turn(daemon, kind, 1), turn(daemon, kind, 2)
    assert daemon.stats(kind)["cache"]["mode"] == mode
    ask(daemon, QUESTIONS[2], kind, "Be brief. " * 200, tokens=1)  # takes the only slot
    third = turn(daemon, kind, 3)
    assert third.cached > first.tokens // 2
    assert daemon.stats(kind)["cache"]["cached"]["host"] > 0
    assert [reply.text for reply in (first, second, third)] == [reply.text for reply in whole]

    daemon.stop()
    daemon.start()
    again = [turn(daemon, kind, turns) for turns in (3, 2, 1)]
    assert again[0].cached > first.tokens // 2
    assert daemon.stats(kind)["cache"]["cached"]["disk"] > 0
    assert [reply.text for reply in reversed(again)] == [reply.text for reply in whole]
    cache = daemon.stats(kind)["cache"]
    assert cache["failed_imports"] == cache["corrupt"] == 0
