"""Drafts with the real worker: text that stood before comes in fewer steps."""

from conftest import GEMMA3

LINES = "\n".join(f"The {animal} number {number} sleeps under the {place}." for number, (animal, place) in enumerate(
    [("badger", "old oak"), ("heron", "wooden bridge"), ("otter", "mill"), ("wren", "church roof"), ("hedgehog", "shed")] * 4))
COPY = {"model": GEMMA3, "temperature": 0, "max_tokens": 160, "ignore_eos": True, "guards": False}


def copied(daemon):
    status, reply = daemon.chat(f"Repeat these lines:\n{LINES}\n\nThe lines again:\n{LINES}\n\nOnce more:\n", **COPY)
    assert status == 200, reply
    return reply


def test_text_that_repeats_is_drafted_and_counted(make_daemon):
    daemon = make_daemon(GEMMA3, start=False)
    daemon.speculation = "on"
    daemon.start()
    reply = copied(daemon)
    timings = reply["timings"]
    assert 0 < timings["draft_n_accepted"] <= timings["draft_n"], timings
    assert reply["usage"]["completion_tokens"] == timings["predicted_n"] == 160, "guesses are no tokens"
    assert copied(daemon)["usage"]["completion_tokens"] == 160


def test_drafts_can_be_switched_off(make_daemon):
    reply = copied(make_daemon(GEMMA3))
    assert reply["timings"]["draft_n"] == 0
