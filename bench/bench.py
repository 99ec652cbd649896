"""Our figures beside the peers', alternately in one run.

Every scenario runs our service and the peers in turn, at least three rounds, and prints the medians and the ratios. The peers
are llama-bench and llama-server built from the same libllama source with the same compiler; llama-server runs with its
defaults ("stock") and, where settings matter, with the best ones found by hand ("tuned").
"""

import argparse
import json
import os
import pathlib
import socket
import statistics
import subprocess
import tempfile
import textwrap
import threading
import time

import cache
from harness import MODELS, Harness, Server, Stream, free_port, no_blank_tokens, percentile, private_text, user

PERSON = {
    "type": "object",
    "properties": {"first_name": {"type": "string", "maxLength": 16}, "last_name": {"type": "string", "maxLength": 16},
                   "age_in_years": {"type": "integer", "minimum": 0, "maximum": 120},
                   "favourite_colour": {"enum": ["red", "green", "blue"]}, "is_member": {"type": "boolean"}},
    "required": ["first_name", "last_name", "age_in_years", "favourite_colour", "is_member"],
    "additionalProperties": False,
}
PEOPLE = {"type": "array", "items": PERSON, "minItems": 5, "maxItems": 5}


class Bench(Harness):
    def worker(self):
        """Decode and prefill inside the worker beside llama-bench: same threads, same flash attention, no client in between."""
        for flash in (False, True):
            ours, peer = {"decode": [], "prefill": []}, {"decode": [], "prefill": []}
            for round_number in range(self.options.rounds):
                server = self.ours(slots=1, flash=flash)
                try:
                    Stream(server, user("Go on."), 32, stream=False).join()
                    # Two of each, as llama-bench repeats its own; the tokens and the samples are timed by the worker.
                    for i in range(2):
                        decode = Stream(server, user(f"Write {2 * round_number + i} stories."), 256, stream=False)
                        decode.join()
                        ours["decode"].append(decode.timings["predicted_per_second"])
                        prefill = Stream(server, user(private_text(480, 2 * round_number + i)), 1, stream=False)
                        prefill.join()
                        ours["prefill"].append(prefill.timings["prompt_per_second"])
                        length = prefill.timings["prompt_n"]
                finally:
                    server.stop()
                output = subprocess.run(
                    [f"{self.options.peers}/llama-bench", "-m", self.model, "-p", str(length), "-n", "256", "-r", "2",
                     "-t", str(self.threads), "-fa", "1" if flash else "0", "-o", "json"],
                    check=True, text=True, capture_output=True).stdout
                for entry in json.loads(output):
                    peer["prefill" if entry["n_gen"] == 0 else "decode"] += entry["samples_ts"]
            self.report("worker", {f"{kind} tok/s, flash attention {'on' if flash else 'off'}":
                                   {"ours": statistics.median(ours[kind]), "llama-bench": statistics.median(peer[kind])}
                                   for kind in ("decode", "prefill")}, "higher")

    def single(self):
        """One stream of 256 tokens through HTTP; the client's clock from first to last token."""
        def measure(server, round_number):
            return {"tok/s": Stream(server, user(f"Write {round_number} stories."), 256).done().tokens_per_second}
        figures = self.alternate(measure)
        self.report("single", figures, "higher")
        speed = figures["tok/s"]
        ratio = speed["ours"] / max(speed["stock"], speed["tuned"])
        self.aim("single", "at least 1.1 x the better peer", ratio >= 1.1, f"{ratio:.2f}")

    def eight(self):
        """Eight private prompts of 850 words at once, 512 tokens each: tokens per second while all eight decode."""
        def measure(server, round_number):
            streams = [Stream(server, user(private_text(850, 100 * round_number + i)), 512) for i in range(8)]
            for stream in streams:
                stream.join()
            begin = max(stream.arrivals[0] for stream in streams)
            end = min(stream.arrivals[-1] for stream in streams)
            count = sum(1 for stream in streams for at in stream.arrivals if begin < at <= end)
            return {"tok/s while all eight decode": count / (end - begin)}
        self.report("eight", self.alternate(measure, ("ours", "stock")), "higher")

    def mixed(self):
        """Three live streams, then a prompt of 4,000 words: the streams' gaps and the prompt's first token."""
        bias = no_blank_tokens(self.model)
        def measure(server, round_number):
            begun = threading.Barrier(4)
            streams = [Stream(server, user(private_text(30, 7 * round_number + i)), 2000, on_first=begun.wait, logit_bias=bias)
                       for i in range(3)]
            begun.wait()
            time.sleep(1)
            long = Stream(server, user(private_text(4000, 1000 + round_number)), 1)
            long.join()
            begin, end = long.sent, long.arrivals[0]
            gaps = [(b - a) * 1000 for stream in streams for a, b in zip(stream.arrivals, stream.arrivals[1:])
                    if begin < b and a < end]
            return {"p50 gap ms": percentile(gaps, 0.5), "p99 gap ms": percentile(gaps, 0.99),
                    "long prompt's first token ms": long.first_token_ms}
        figures = self.alternate(measure, stock={"context": 65536}, tuned={"context": 65536})
        self.report("mixed", figures, "lower")
        gap, first = figures["p99 gap ms"]["ours"], figures["long prompt's first token ms"]
        ratio = first["ours"] / first["stock"]
        self.aim("mixed", "p99 gap at most 150 ms and the prompt at most 1.9 x stock's, or 200 ms and 1.6 x",
                 (gap <= 150 and ratio <= 1.9) or (gap <= 200 and ratio <= 1.6), f"{gap:.0f} ms and {ratio:.2f} x")

    def schema(self):
        """A list of five records with five keys each under its schema, and free text: tokens per second of decoding.

        Keys, quotes and brackets can only be one way and need no sampling: an answer with a form comes faster than a free
        one. Each server is asked for both in turn, so the ratio is one of the same minute.
        """
        def measure(server, round_number):
            speeds = {"free": [], "schema": []}
            for i in range(3):
                topic = f"Describe the people of village {3 * round_number + i}."
                answers = {"free": Stream(server, user(topic), 200, stream=False)}
                answers["free"].join()
                answers["schema"] = Stream(server, user(topic), 600, stream=False, ignore_eos=False, response_format={
                    "type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE, "strict": True}})
                answers["schema"].join()
                choice = answers["schema"].finish["choices"][0]
                if choice["finish_reason"] != "stop" or len(json.loads(choice["message"]["content"])) != 5:
                    raise RuntimeError(f"{server.name} gave no five records: {choice}")
                for kind, answer in answers.items():
                    speeds[kind].append(answer.timings["predicted_per_second"])
            free, held = (statistics.median(speeds[kind]) for kind in ("free", "schema"))
            return {"free tok/s": free, "under a schema tok/s": held, "schema / free in percent": 100 * held / free}
        for model in MODELS:
            settings = {"slots": 1, "context": 4096, "model": model}
            figures = self.alternate(measure, ("ours", "stock"), ours=settings, stock=settings)
            self.report("schema", {f"{model[:6]} {figure}": values for figure, values in figures.items()}, "higher")

    def start(self):
        """Time to the first /health answer and resident memory without a model (no peer offers either)."""
        times, sizes = [], []
        for _ in range(self.options.rounds):
            home = tempfile.mkdtemp(prefix="gezel-bench-")
            port = free_port()
            began = time.monotonic()
            server = Server("gezel", [self.options.gezel, "serve", "--port", str(port)], port,
                            dict(os.environ, GEZEL_HOME=home, GEZEL_GOOD_NEIGHBOUR="off"), self.log, home)
            while True:
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
                        if b" 200 " in connection.recv(64):
                            break
                except OSError:
                    time.sleep(0.001)
            times.append((time.monotonic() - began) * 1000)
            status = pathlib.Path(f"/proc/{server.process.pid}/status").read_text()
            sizes.append(int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) / 1024)
            server.stop()
        print(f"start      /health after {statistics.median(times):.0f} ms (limit 100), "
              f"{statistics.median(sizes):.1f} MiB resident (limit 30)", flush=True)

    def header(self):
        """What one reading of a model file's header takes, with a vocabulary of more than 100,000 tokens."""
        output = subprocess.run([self.options.header_bench, "--benchmark_repetitions=15", "--benchmark_min_time=0.1",
                                 "--benchmark_format=json"], check=True, text=True, stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL,
                                env=dict(os.environ, GEZEL_HEADER_FILE=self.options.vocabulary)).stdout
        for entry in json.loads(output)["benchmarks"]:
            if entry.get("aggregate_name") == "median":
                print(f"header     {entry['label']}: {entry['real_time'] / 1e6:.2f} ms (limit 5), of which "
                      f"{entry['cpu_time'] / 1e6:.2f} ms on a processor", flush=True)


# In the order in which they run when none is named.
SCENARIOS = {name: getattr(Bench, name) for name in ("start", "header", "worker", "single", "eight", "mixed", "schema")}
SCENARIOS.update(cache.SCENARIOS)


def about(scenario):
    """The first paragraph of what a scenario says of itself."""
    return " ".join(SCENARIOS[scenario].__doc__.split("\n\n")[0].split())


def main():
    width = max(map(len, SCENARIOS))
    listed = "\n".join(textwrap.fill(f"{name:{width}}  {about(name)}", 110, initial_indent="  ", subsequent_indent=" " * (width + 4))
                       for name in SCENARIOS)
    parser = argparse.ArgumentParser(
        prog="bench/run.sh", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"scenarios:\n{listed}\n\nexamples:\n"
               "  bench/run.sh                         all of them; an hour and a half on two cores\n"
               "  bench/run.sh fan-out agents          two of them\n"
               "  bench/run.sh resume swap --rounds 5  with more rounds")
    # What bench/run.sh fills in.
    for option in ("--gezel", "--peers", "--models", "--header-bench", "--vocabulary"):
        parser.add_argument(option, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, default=3, help="how often each side has its turn; default: 3")
    parser.add_argument("--check-text", action="store_true",
                        help="compare the answers to prompts that came again with those of a cold cache; takes a while")
    parser.add_argument("scenario", nargs="*", help="what to measure; default: everything")
    options = parser.parse_intermixed_args()
    unknown = [name for name in options.scenario if name not in SCENARIOS]
    if unknown:
        parser.error(f"unknown scenario '{unknown[0]}'; there are {', '.join(SCENARIOS)}")
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    if options.rounds < 3:
        print("fewer than three rounds: good for a look, not for a claim", flush=True)
    bench = Bench(options)
    for name in options.scenario or SCENARIOS:
        SCENARIOS[name](bench)


if __name__ == "__main__":
    main()
