"""Scenarios of prompts that come again: shared heads, growing conversations, stops in between, answers that repeat.

What counts is how many tokens of the prompts were computed (usage: prompt tokens less cached ones) and how soon the first
token of an answer came. No request carries a session: whatever is found again is found by its tokens.
"""

import json
import random
import statistics
import threading
import urllib.request

from harness import MODEL_ID, MODELS, SIDES, WORDS, Stream, at_once, percentile, private_text, user

OTHER_MODEL = "gemma3-270m"


def code(functions, seed):
    """A module of small functions that no model knows by heart; some 55 tokens each."""
    choose = random.Random(seed)
    parts = []
    for _ in range(functions):
        verb, noun, left, right = (choose.choice(WORDS) for _ in range(4))
        parts.append(f"def {verb}_{noun}({left}, {right}):\n    if {left} > {choose.randrange(100)}:\n"
                     f"        return {right} - {choose.randrange(100)}\n    return {left} * {right} + {choose.randrange(100)}\n")
    return "\n\n".join(parts)


class Tokens:
    """Prompts as their tokens, from a peer: it renders and tokenizes as the service does."""

    def __init__(self, server):
        self.server = server

    def ask(self, path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{self.server.port}{path}", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            return json.load(reply)

    def of(self, messages):
        prompt = self.ask("/apply-template", {"messages": messages})["prompt"]
        return self.ask("/tokenize", {"content": prompt, "add_special": True, "parse_special": True})["tokens"]

    def unique(self, conversations):
        """Tokens of all prompts when a beginning that several share is counted once."""
        total, before = 0, []
        for tokens in sorted(self.of(messages) for messages in conversations):
            common = next((i for i, (a, b) in enumerate(zip(before, tokens)) if a != b), min(len(before), len(tokens)))
            total, before = total + len(tokens) - common, tokens
        return total


def unique_tokens(bench, rounds):
    """What each of these rounds of conversations must at least compute once, by a peer that answers nothing else."""
    server = bench.stock(slots=1, context=4096)
    try:
        return [Tokens(server).unique(conversations) for conversations in rounds]
    finally:
        server.stop()


class Prompts:
    """The prompts that each side was sent, round by round, for what they have in common."""

    def __init__(self):
        self.rounds = {side: [] for side in SIDES}

    def figures(self, bench, figures):
        """Adds the unique tokens, and how often each of them was computed."""
        unique = {side: statistics.median(unique_tokens(bench, rounds)) for side, rounds in self.rounds.items()}
        figures["unique prompt tokens"] = unique
        figures["computed / unique in percent"] = {
            side: 100 * figures["prompt tokens computed"][side] / unique[side] for side in SIDES}
        return figures


def side_of(server):
    if server.name == "gezel":
        return "ours"
    return "tuned" if "-fa" in server.command else "stock"


def ask(bench, server, messages, tokens):
    """An answer; ours are kept where they are to be checked."""
    stream = Stream(server, messages, tokens).done()
    if bench.options.check_text and side_of(server) == "ours":
        bench.answers.append((messages, tokens, stream.text))
    return stream


NEAR_TIE = 0.5  # between the logarithms of the two likeliest tokens: the shape of a batch alone can turn that


def judge(text, cold):
    """How an answer stands to the one that a peer computed from the first token on."""
    if text == cold.text:
        return "equal"
    written = ""
    for piece in cold.pieces:
        for token in json.loads(piece)["choices"][0]["logprobs"]["content"]:
            written += token["token"]
            if not text.startswith(written):
                first, second = (each["logprob"] for each in token["top_logprobs"][:2])
                return "near tie" if first - second < NEAR_TIE else "different"
    return "different"


def check_texts(bench, scenario):
    """Our answers beside those of a cache that is cold: they may part only where two tokens are nearly as likely."""
    answers, bench.answers = bench.answers, []
    if not answers:
        return
    server = bench.tuned(slots=1, context=4096)
    try:
        verdicts = [judge(text, Stream(server, messages, tokens, cache_prompt=False, logprobs=True, top_logprobs=2).done())
                    for messages, tokens, text in answers]
    finally:
        server.stop()
    counts = {verdict: verdicts.count(verdict) for verdict in ("equal", "near tie", "different")}
    bench.aim(scenario, "answers as those of a cold cache", counts["different"] == 0,
              ", ".join(f"{count} {verdict}" for verdict, count in counts.items()))


def waiting(streams):
    first = [stream.first_token_ms for stream in streams]
    return {"first token p50 ms": percentile(first, 0.5), "first token p95 ms": percentile(first, 0.95),
            "prompt tokens": sum(stream.prompt_tokens for stream in streams),
            "prompt tokens computed": sum(stream.computed_tokens for stream in streams)}


def sooner(figures, figure):
    """How many times sooner than stock and than tuned."""
    return figures[figure]["stock"] / figures[figure]["ours"], figures[figure]["tuned"] / figures[figure]["ours"]


def fan_out(bench):
    """32 requests, four at a time, with the same system text of 1,500 words, questions of 20 words and 16 tokens of answer."""
    prompts = Prompts()

    def measure(server, round_number):
        system = [{"role": "system", "content": private_text(1500, 50 + round_number)}]
        conversations = [system + user(private_text(20, 1000 * (round_number + 1) + i)) for i in range(32)]
        prompts.rounds[side_of(server)].append(conversations)
        return waiting(at_once(4, [lambda asked=asked: ask(bench, server, asked, 16) for asked in conversations]))

    peer = {"slots": 8, "context": 8 * 4096}
    figures = bench.alternate(measure, ours={"slots": 8, "context": 4096}, stock=peer, tuned=peer)
    bench.report("fan-out", prompts.figures(bench, figures), "lower")
    computed = figures["computed / unique in percent"]["ours"]
    bench.aim("fan-out", "computes at most 110 % of the unique tokens", computed <= 110, f"{computed:.0f} %")
    stock, tuned = sooner(figures, "first token p50 ms")
    bench.aim("fan-out", "median first token 8 x sooner than stock, 2 x sooner than tuned", stock >= 8 and tuned >= 2,
              f"{stock:.1f} x and {tuned:.1f} x")
    check_texts(bench, "fan-out")


def agents(bench):
    """Eight agents with a common head of 800 words and histories of their own: eight turns of 100 words in and 24 tokens out,
    two at a time, in two slots."""
    prompts = Prompts()

    def measure(server, round_number):
        head = {"role": "system", "content": private_text(800, 60 + round_number)}
        histories = [[head] for _ in range(8)]
        turns_of = [threading.Lock() for _ in range(8)]  # a turn begins when the one before it has its answer
        asked = []

        def turn(agent, number):
            with turns_of[agent]:
                history = histories[agent]
                history += user(private_text(100, 10_000 * (round_number + 1) + 100 * agent + number))
                asked.append(list(history))
                stream = ask(bench, server, list(history), 24)
                history.append({"role": "assistant", "content": stream.text})
                return stream

        streams = at_once(2, [lambda agent=agent, number=number: turn(agent, number)
                              for number in range(8) for agent in range(8)])
        prompts.rounds[side_of(server)].append(asked)
        return waiting(streams)

    peer = {"slots": 2, "context": 2 * 4096}
    figures = bench.alternate(measure, ours={"slots": 2, "context": 4096}, stock=peer, tuned=peer)
    bench.report("agents", prompts.figures(bench, figures), "lower")
    computed = figures["computed / unique in percent"]["ours"]
    bench.aim("agents", "computes at most 110 % of the unique tokens", computed <= 110, f"{computed:.0f} %")
    ratio = min(sooner(figures, "first token p50 ms"))
    bench.aim("agents", "median first token 3 x sooner than the better peer", ratio >= 3, f"{ratio:.1f} x")
    check_texts(bench, "agents")


CHATS = 4


def begin_chats(server, round_number):
    """Four conversations of some 2,500 tokens, one after the other, each with a first answer."""
    chats = []
    for number in range(CHATS):
        chat = user(private_text(2150, 5000 * (round_number + 1) + number))
        answer = Stream(server, chat, 16).done()
        chats.append(chat + [{"role": "assistant", "content": answer.text}])
    return chats


def continue_chats(bench, server, chats):
    streams = [ask(bench, server, chat + user("Go on."), 16) for chat in chats]
    first = [stream.first_token_ms for stream in streams]
    return {"first chat's first token ms": first[0], "median first token ms": statistics.median(first),
            "prompt tokens": sum(stream.prompt_tokens for stream in streams),
            "prompt tokens computed": sum(stream.computed_tokens for stream in streams)}


def stop_and_continue(bench, server, round_number):
    chats = begin_chats(server, round_number)
    server.restart()
    load = Stream(server, user("Hello"), 8).done()  # the model's load is a figure of its own
    return {**continue_chats(bench, server, chats), "load of the model ms": load.first_token_ms}


CHAT_SETTINGS = {"ours": {"slots": CHATS, "context": 4096}, "stock": {"slots": CHATS, "context": CHATS * 4096},
                 "tuned": {"slots": CHATS, "context": CHATS * 4096}}


def resume(bench):
    """Four chats of 2,500 tokens; stop the server, start it again, continue each."""
    figures = bench.alternate(lambda server, round_number: stop_and_continue(bench, server, round_number), **CHAT_SETTINGS)
    bench.report("resume", figures, "lower")
    ratio = min(sooner(figures, "median first token ms"))
    bench.aim("resume", "median first token 20 x sooner than the better peer", ratio >= 20, f"{ratio:.1f} x")
    check_texts(bench, "resume")


SWAP_CONTEXT = 16384  # of ours: prompts are kept in what a plan leaves over, and here that is a model's size


def budget_for_one(bench, models):
    """Gigabytes that hold each of these models and not quite both, from what the service plans for each."""
    def planned(model):
        plan = bench.say(server, "fit", model, "--ctx", str(SWAP_CONTEXT), "--slots", str(CHATS), "--json")
        parts = json.loads(plan)["bytes"]
        return parts["total"] - parts["cache"]  # the cache takes what is left over

    server = bench.ours(slots=CHATS, context=SWAP_CONTEXT, others=models[1:])
    try:
        return (sum(map(planned, models)) - 128 * 2**20) / 2**30
    finally:
        server.stop()


def swap(bench):
    """As resume, but another model takes the memory in between; no peer offers that, so its figures are those of resume."""
    models = (MODEL_ID, OTHER_MODEL)
    budget = budget_for_one(bench, models)

    def measure(server, round_number):
        if side_of(server) != "ours":
            return stop_and_continue(bench, server, round_number)
        chats = begin_chats(server, round_number)
        Stream(server, user("Hello"), 8, model=OTHER_MODEL).done()
        loaded = [entry["id"] for entry in json.loads(bench.say(server, "ps", "--json"))["models"] if entry["state"] == "ready"]
        if len(loaded) != 1 or not loaded[0].endswith(OTHER_MODEL):
            raise RuntimeError(f"the other model did not take the memory; loaded: {loaded}")
        load = Stream(server, user("Hello"), 8).done()
        return {**continue_chats(bench, server, chats), "load of the model ms": load.first_token_ms}

    ours = {"slots": CHATS, "context": SWAP_CONTEXT, "others": models[1:],
            "env": {"GEZEL_CAPACITY_BUDGET_GB": f"{budget:.3f}"}}
    figures = bench.alternate(measure, **{**CHAT_SETTINGS, "ours": ours})
    bench.report("swap", figures, "lower")
    ratio = min(sooner(figures, "median first token ms"))
    bench.aim("swap", "median first token 20 x sooner than the better peer after a stop", ratio >= 20, f"{ratio:.1f} x")
    check_texts(bench, "swap")


def copy(bench):
    """"Repeat this code" of some 900 tokens, beside the model's own speed in a free answer of 256 tokens; both models."""
    def measure(server, round_number):
        free = Stream(server, user(f"Write {round_number} stories."), 256).done()
        again = Stream(server, user("Repeat this code and write nothing else.\n\n```python\n" + code(20, round_number) + "```"),
                       800).done()
        return {"free tok/s": free.tokens_per_second, "copy tok/s": again.tokens_per_second,
                "copy / free in percent": 100 * again.tokens_per_second / free.tokens_per_second,
                "prompt tokens of the copy": again.prompt_tokens}

    for model in MODELS:
        peer = {"slots": 1, "context": 4096, "model": model}
        # Proposing what stood in the prompt is off by default there.
        figures = bench.alternate(measure, ours=peer, stock=peer, tuned={**peer, "extra": ("--spec-type", "ngram-simple")})
        bench.report("copy", {f"{model[:6]} {figure}": values for figure, values in figures.items()}, "higher")
        if model == OTHER_MODEL:
            ratio = figures["copy / free in percent"]["ours"] / 100
            bench.aim("copy", f"{model}: at least 2 x its own free speed", ratio >= 2, f"{ratio:.2f} x")


def deep(bench):
    """One stream of 256 tokens after a prompt of 4,000, with nothing configured."""
    def measure(server, round_number):
        stream = Stream(server, user(private_text(3450, 70 + round_number)), 256).done()
        return {"tok/s": stream.tokens_per_second, "prompt tokens": stream.prompt_tokens}

    settings = {"slots": 1, "context": 8192}
    figures = bench.alternate(measure, ours=settings, stock=settings, tuned=settings)
    bench.report("deep", figures, "higher")
    ratio = figures["tok/s"]["ours"] / figures["tok/s"]["tuned"]
    bench.aim("deep", "at least 0.95 x tuned", ratio >= 0.95, f"{ratio:.2f} x")


SCENARIOS = {"fan-out": fan_out, "agents": agents, "resume": resume, "swap": swap, "copy": copy, "deep": deep}
