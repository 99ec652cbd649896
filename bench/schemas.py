"""Answers under real-world schemas, judged by a validator of another make.

Every document of the public schema catalogue, and the definitions in it as schemas of their own, take turns: each
request sends one of them with a short prompt of random words, a seed and a temperature to one of the test models, eight
requests at a time. An answer that ends with `stop` must satisfy its schema. What ends with `length` is incomplete and
is counted only; so are the schemas that the service refuses, by keyword.

Every request is one line of the results file. With the file of an earlier run the count goes on where that ended.
"""

import argparse
import collections
import http.client
import itertools
import json
import os
import pathlib
import queue
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile

import fastjsonschema

from harness import MODELS, Server, WORDS, free_port

TEMPERATURES = (0, 0.5, 0.8, 1.0, 1.0, 1.5, 2.0)
DEFINITIONS_PER_DOCUMENT = 6
PART_BYTES = 200_000  # a definition brings all its siblings along
ANSWER_SECONDS = 900  # an answer that takes longer is a hang; pausing the run must not look like one
JUDGED_DRAFTS = re.compile(r"draft-0?[467]\b")
# The judge's own pattern knows no "-" in a scheme and wants something behind it; this is RFC 3986, appendix A.
PCHAR = r"(?:[\w.~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
URI = re.compile(rf"[A-Za-z][A-Za-z0-9+.-]*:"
                 rf"(?://(?:{PCHAR}*@)?(?:\[[0-9A-Fa-f:.v]+\]|(?:[\w.~!$&'()*+,;=-]|%[0-9A-Fa-f]{{2}})*)(?::[0-9]*)?(?:/{PCHAR}*)*"
                 rf"|/(?:{PCHAR}+(?:/{PCHAR}*)*)?|{PCHAR}+(?:/{PCHAR}*)*|)"
                 rf"(?:\?(?:{PCHAR}|[/?])*)?(?:#(?:{PCHAR}|[/?])*)?", re.ASCII)
# The service ignores `regex`, and says so in a warning (docs/json-schema.md).
FORMATS = {"uri": lambda text: URI.fullmatch(text) is not None, "regex": lambda text: True}


class Schema:
    """A schema, where it stands in the catalogue, and the judge of its answers."""

    def __init__(self, name, value):
        self.name, self.value = name, value
        self.lock, self.judge, self.no_judge = threading.Lock(), None, None

    def verdict(self, text):
        """(True, ""), (False, what is wrong) or (None, why nobody can tell)."""
        with self.lock:
            if self.judge is None and self.no_judge is None:
                try:
                    # The judge reads no network: a reference out of the document is refused by both sides.
                    self.judge = fastjsonschema.compile(self.value, handlers={"http": no_network, "https": no_network},
                                                        formats=FORMATS, use_default=False)
                except Exception as error:  # whatever is wrong with the judge, it is not the answer
                    self.no_judge = f"{type(error).__name__}: {error}"[:200]
        if self.judge is None:
            return None, self.no_judge
        try:
            value = json.loads(text, parse_constant=refuse_constant)
        except ValueError as error:
            return False, f"not JSON: {error}"
        try:
            self.judge(value)
        except fastjsonschema.JsonSchemaValueException as error:
            return False, str(error)[:300]
        except Exception as error:
            return None, f"{type(error).__name__}: {error}"[:200]
        return True, ""


def no_network(uri):
    raise ValueError(f"outside the document: {uri}")


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def references(value):
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def parts_of(document, choose):
    """Definitions of a document as schemas of their own, where nothing in them points elsewhere."""
    for key in ("definitions", "$defs"):
        definitions = document.get(key)
        if not isinstance(definitions, dict) or len(json.dumps(definitions)) > PART_BYTES:
            continue
        if not all(target.startswith(f"#/{key}/") for target in references(definitions)):
            continue
        names = sorted(name for name in definitions if re.fullmatch(r"[\w.-]+", name))
        for name in choose.sample(names, min(len(names), DEFINITIONS_PER_DOCUMENT)):
            part = {"$schema": document["$schema"]} if "$schema" in document else {}
            yield name, {**part, "$ref": f"#/{key}/{name}", key: definitions}


def read_catalogue(wheel, seed):
    """All schemas in an order of their own for each seed, and how many documents there are and were left out."""
    choose = random.Random(seed)
    schemas, seen = [], collections.Counter()
    with zipfile.ZipFile(wheel) as archive:
        for member in sorted(name for name in archive.namelist() if "/jsondata/" in name):
            name = pathlib.PurePath(member).stem
            try:
                document = json.loads(archive.read(member))
            except ValueError:
                seen["not JSON"] += 1
                continue
            draft = document.get("$schema", "draft-07")
            if not JUDGED_DRAFTS.search(draft):
                seen["of a draft that the judge does not know"] += 1
                continue
            seen["documents"] += 1
            schemas.append(Schema(name, document))
            schemas += [Schema(f"{name}#{part}", value) for part, value in parts_of(document, choose)]
    choose.shuffle(schemas)
    return schemas, seen


class Service:
    """The daemon under test, with both models."""

    def __init__(self, options):
        home = tempfile.mkdtemp(prefix="gezel-schemas-")
        env = dict(os.environ, GEZEL_HOME=home, GEZEL_GOOD_NEIGHBOUR="off")
        for model, file in MODELS.items():
            subprocess.run([options.gezel, "import", str(pathlib.Path(options.models) / file), "--id", model], env=env,
                           check=True, stdout=subprocess.DEVNULL)
        port = free_port()
        command = [options.gezel, "serve", "--port", str(port), "--slots", str(options.parallel)]
        if options.threads:
            command += ["--threads", str(options.threads)]
        self.log = open(options.log, "ab")
        self.server = Server("gezel", command, port, env, self.log, home).wait_ready()
        self.key = subprocess.run([options.gezel, "key"], env=env, check=True, text=True,
                                  capture_output=True).stdout.split()[-1]

    def chat(self, body):
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=ANSWER_SECONDS)
        try:
            connection.request("POST", "/v1/chat/completions", json.dumps(body).encode(),
                               {"Authorization": f"Bearer {self.key}", "Content-Type": "application/json"})
            reply = connection.getresponse()
            return reply.status, json.loads(reply.read())
        finally:
            connection.close()


def refused_keyword(message):
    keyword = re.search(r"Keyword '([^']+)'", message)
    return keyword.group(1) if keyword else re.sub(r"[#/]\S*", "...", message)[:70]


class Run:
    def __init__(self, options):
        self.options = options
        self.schemas, self.seen = read_catalogue(options.catalogue, options.seed)
        self.lock = threading.Lock()
        self.outcomes, self.by_model = collections.Counter(), collections.Counter()
        self.refused = {}  # schema -> keyword
        self.used, self.troubles, self.unjudged = set(), [], collections.Counter()
        self.done, self.tokens, self.slowest = set(), 0, 0.0
        self.over = False  # what comes now is the service's end and no answer
        self.asked = 0  # of the answers asked for, those that came or are on their way
        self.began = time.monotonic()
        if options.results.exists():
            for line in options.results.read_text().splitlines():
                self.count(self.judged_again(json.loads(line)))
        self.asked = self.generations
        self.at_start = self.generations
        self.results = open(options.results, "a", buffering=1)

    @property
    def generations(self):
        return sum(count for outcome, count in self.outcomes.items() if outcome != "refused")

    def judged_again(self, result):
        """What an earlier run called wrong, as the judge of this one sees it."""
        schema = self.schemas[result["job"] % len(self.schemas)]
        if result["outcome"] == "invalid" and schema.name == result["schema"]:
            satisfied, result["why"] = schema.verdict(result["text"])
            result["outcome"] = {True: "valid", False: "invalid", None: "unjudged"}[satisfied]
        return result

    def count(self, result):
        self.done.add(result["job"])
        self.outcomes[result["outcome"]] += 1
        if result["outcome"] == "refused":
            self.refused[result["schema"]] = refused_keyword(result["why"])
            return
        self.by_model[result["model"], result["outcome"]] += 1
        self.used.add(result["schema"])
        self.tokens += result.get("tokens", 0)
        self.slowest = max(self.slowest, result["seconds"])
        if result["outcome"] == "unjudged":
            self.unjudged[result["why"]] += 1
        elif result["outcome"] not in ("valid", "length"):
            self.troubles.append(result)

    def jobs(self):
        """Numbers of requests, until enough answers came; a schema that was refused once is left out."""
        for job in range(1_000_000_000):
            if job in self.done:
                continue
            while True:
                with self.lock:
                    if self.generations >= self.options.count or self.over:
                        return
                    if self.asked < self.options.count:
                        if self.schemas[job % len(self.schemas)].name not in self.refused:
                            self.asked += 1
                            break
                        job = None
                        break
                time.sleep(0.05)  # a refusal makes room for one more
            if job is not None:
                yield job
            if len(self.refused) == len(self.schemas):
                return

    def ask(self, service, job):
        schema = self.schemas[job % len(self.schemas)]
        choose = random.Random(f"{self.options.seed} {job}")
        model = list(MODELS)[(job + job // len(self.schemas)) % 2]
        words = " ".join(choose.choice(WORDS) for _ in range(choose.randint(1, 6)))
        body = {"model": "llama-cpp:" + model, "messages": [{"role": "user", "content": f"Write JSON about {words}."}],
                "max_tokens": choose.choice(self.options.max_tokens), "temperature": choose.choice(TEMPERATURES),
                "seed": choose.randrange(1 << 31),
                "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema.value}}}
        result = {"job": job, "schema": schema.name, "model": model}
        began = time.monotonic()
        try:
            status, reply = service.chat(body)
        except (OSError, ValueError, http.client.HTTPException) as error:
            status, reply = 0, {"error": {"code": "no answer", "message": f"{type(error).__name__}: {error}"}}
        result["seconds"] = round(time.monotonic() - began, 2)
        if status == 200:
            choice = reply["choices"][0]
            text = choice["message"]["content"] or ""
            result |= {"outcome": choice["finish_reason"], "tokens": reply["usage"]["completion_tokens"]}
            if choice["finish_reason"] == "stop":
                satisfied, why = schema.verdict(text)
                result["outcome"] = {True: "valid", False: "invalid", None: "unjudged"}[satisfied]
                if not satisfied:
                    result |= {"why": why, "text": text}
        else:
            error = reply["error"]
            refused = status == 400 and error["code"] == "unsupported_response_format"
            result |= {"outcome": "refused" if refused else error["code"] or str(status), "why": error["message"]}
        if result["outcome"] not in ("valid", "length", "refused", "unjudged"):
            result["request"] = {key: body[key] for key in ("messages", "max_tokens", "temperature", "seed")}
        return result

    def work(self, service, jobs):
        while (job := jobs.get()) is not None:
            result = self.ask(service, job)
            with self.lock:
                if service.server.process.poll() is not None:
                    self.over = True
                if self.over:
                    return
                self.results.write(json.dumps(result) + "\n")
                self.count(result)
                if result["outcome"] == "refused":
                    self.asked -= 1
                elif result["outcome"] not in ("valid", "length", "unjudged"):
                    print(f"job {job}: {result['outcome']} {result['schema']} {result.get('why', '')}", flush=True)
                elif self.generations % self.options.every == 0:
                    self.progress()

    def progress(self):
        rate = (self.generations - self.at_start) / (time.monotonic() - self.began)
        print(f"{time.strftime('%H:%M:%S')} {self.generations} answers, {rate:.2f} a second, "
              f"{len(self.used)} schemas, {dict(self.outcomes)}", flush=True)

    def perform(self):
        service = Service(self.options)
        try:
            jobs = queue.Queue(maxsize=1)
            workers = [threading.Thread(target=self.work, args=(service, jobs), daemon=True)
                       for _ in range(self.options.parallel)]
            for worker in workers:
                worker.start()
            for job in itertools.chain(self.jobs(), [None] * len(workers)):
                while not self.over:
                    try:
                        jobs.put(job, timeout=1)
                        break
                    except queue.Full:
                        pass
            for worker in workers:
                worker.join()
            ended = self.over
            if ended:
                print(f"the service ended with {service.server.process.returncode}; its log says why (--log)", flush=True)
        finally:
            self.over = True
            service.server.stop()
        return self.summary() and not ended

    def summary(self):
        total, refused = self.generations, self.outcomes["refused"]
        rows = [("documents in the catalogue", self.seen["documents"]),
                ("left out, of a draft that the judge does not know", self.seen["of a draft that the judge does not know"]),
                ("left out, not JSON", self.seen["not JSON"]),
                ("schemas made of them", len(self.schemas)),
                ("schemas that were refused", refused),
                ("schemas that had answers", len(self.used)),
                ("their documents", len({name.split("#")[0] for name in self.used})),
                ("answers", total)]
        for outcome, count in self.outcomes.most_common():
            if outcome != "refused":
                share = ", ".join(f"{model} {self.by_model[model, outcome]}" for model in MODELS)
                rows.append((f"  {outcome}", f"{count} ({100 * count / max(total, 1):.1f} %; {share})"))
        rows += [("tokens", self.tokens), ("slowest answer", f"{self.slowest:.1f} s")]
        print()
        for name, value in rows:
            print(f"{name:52} {value}")
        print("\nrefused for")
        for keyword, count in collections.Counter(self.refused.values()).most_common(20):
            print(f"  {count:5}  {keyword}")
        if self.unjudged:
            print("\nnot judged")
            for why, count in self.unjudged.most_common(8):
                print(f"  {count:5}  {why}")
        for result in self.troubles[:20]:
            print(f"\njob {result['job']}: {result['outcome']}\n  {json.dumps(result)[:1500]}")
        sys.stdout.flush()
        return not self.troubles


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gezel", required=True)
    parser.add_argument("--models", required=True)
    parser.add_argument("--catalogue", required=True, help="the wheel with the schemas")
    parser.add_argument("--count", type=int, default=10_000, help="answers to ask for")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--threads", type=int, help="threads of each worker; default: the service's choice")
    parser.add_argument("--max-tokens", type=int, nargs="+", default=[64, 96])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--every", type=int, default=100, help="answers between two lines of progress")
    parser.add_argument("--results", type=pathlib.Path, required=True, help="one line a request; an existing file is continued")
    parser.add_argument("--log", default=os.devnull, help="where the daemon's log goes")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the service is ended as well
    sys.exit(0 if Run(parser.parse_args()).perform() else 1)


if __name__ == "__main__":
    main()
