"""Bad input over a real socket: a precise 4xx or a clean close, and the daemon lives."""

import json
import socket

import pytest

from conftest import SMOLLM2


def exchange(daemon, raw, timeout=20):
    """Sends bytes, returns everything that comes back until the daemon closes or goes quiet."""
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=timeout) as connection:
        try:
            connection.sendall(raw)
        except (BrokenPipeError, ConnectionResetError):
            pass
        out = b""
        try:
            while True:
                part = connection.recv(65536)
                if not part:
                    break
                out += part
                head, separator, body = out.partition(b"\r\n\r\n")
                for line in head.split(b"\r\n"):
                    if line.lower().startswith(b"content-length:") and separator:
                        if len(body) >= int(line.split(b":")[1]):
                            return out
        except (TimeoutError, ConnectionResetError):
            pass
        return out


def status_of(reply):
    return int(reply.split(b" ", 2)[1])


def error_of(reply):
    return json.loads(reply.partition(b"\r\n\r\n")[2])["error"]


@pytest.fixture(autouse=True)
def still_alive(daemon):
    yield
    status, _, body = daemon.request("GET", "/health")
    assert status == 200 and json.loads(body)["ok"] is True


def post(daemon, body, path="/v1/chat/completions", headers=""):
    return (f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1:{daemon.port}\r\nAuthorization: Bearer {daemon.key}\r\n"
            f"Content-Length: {len(body)}\r\n{headers}\r\n").encode() + body


@pytest.mark.parametrize("body,code,named", [
    (b'{"model":', "invalid_json", "byte 9"),
    (b'{"model":"a","messages":[{"role":"user","content":"\xff"}]}', "invalid_utf8", "byte 51"),
    (b'{"model":"a","messages":[]}', "invalid_body", "messages"),
    (b'{"model":7,"messages":"x","temperature":"hot"}', "invalid_body", "temperature"),
    (b'[]', "invalid_body", "object"),
    (b'[' * 100_000, "invalid_json", "byte"),
    (b'', "invalid_json", "byte 0"),
])
def test_bad_bodies_name_what_is_wrong(daemon, body, code, named):
    reply = exchange(daemon, post(daemon, body))
    assert status_of(reply) == 400
    assert error_of(reply)["code"] == code
    assert named in error_of(reply)["message"]


def test_an_unknown_model_names_it(daemon):
    body = json.dumps({"model": "llama-cpp:no-such", "messages": [{"role": "user", "content": "x"}]}).encode()
    reply = exchange(daemon, post(daemon, body))
    assert status_of(reply) == 404
    assert "no-such" in error_of(reply)["message"]


def test_an_announced_body_above_the_limit_is_refused_before_it_is_sent(daemon):
    reply = exchange(daemon, (f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n"
                              f"Content-Length: {65 * 1024 * 1024}\r\n\r\n").encode())
    assert status_of(reply) == 413
    assert error_of(reply)["code"] == "request_too_large"


def test_a_header_flood_is_431(daemon):
    many = "".join(f"X-H{i}: v\r\n" for i in range(200))
    assert status_of(exchange(daemon, f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{many}\r\n".encode())) == 431
    large = "X-Large: " + "a" * 40_000 + "\r\n"
    assert status_of(exchange(daemon, f"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n{large}\r\n".encode())) == 431


def test_garbage_is_400_or_a_clean_close(daemon):
    for garbage in (b"\x00\x01\x02\x03\r\n\r\n", b"GET\r\n\r\n", b"\x16\x03\x01\x02\x00" + b"a" * 200, b"GET / HTTP/9.9\r\n\r\n"):
        reply = exchange(daemon, garbage, timeout=12)
        assert reply == b"" or status_of(reply) in (400, 403, 408, 505)


def test_a_foreign_host_header_is_refused(daemon):
    reply = exchange(daemon, f"GET /v1/models HTTP/1.1\r\nHost: evil.example\r\nAuthorization: Bearer {daemon.key}\r\n\r\n".encode())
    assert status_of(reply) == 403
    assert b"forbidden_host" in reply


def test_a_request_cut_in_the_middle_of_its_body_leaves_nothing_behind(daemon):
    for _ in range(50):
        with socket.create_connection(("127.0.0.1", daemon.port)) as connection:
            connection.sendall(post(daemon, b'{"model":"x","messages":[]}')[:-10])


def test_pipelined_requests_are_answered_in_order(daemon):
    one = f"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()
    last = f"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\nConnection: close\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=20) as connection:
        connection.sendall(one + one + last)
        out = b""
        while part := connection.recv(65536):
            out += part
    assert out.count(b"HTTP/1.1 200") == 2
    assert out.count(b"HTTP/1.1 404") == 1
    assert out.rindex(b"HTTP/1.1 404") > out.rindex(b"HTTP/1.1 200")


def test_a_wrong_method_names_the_right_one(daemon):
    reply = exchange(daemon, f"DELETE /v1/models HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {daemon.key}\r\n\r\n".encode())
    assert status_of(reply) == 405
    assert b"allow: get" in reply.lower()


def test_no_key_is_401_and_health_needs_none(daemon):
    reply = exchange(daemon, b"GET /v1/models HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert status_of(reply) == 401
    assert status_of(exchange(daemon, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")) == 200


def test_the_api_key_does_not_open_management(daemon):
    status, _, raw = daemon.request("GET", "/api/ps")
    assert status == 403
    assert b"missing_scope:ui" in raw


def test_an_image_is_refused_by_name(daemon):
    status, body = daemon.chat(messages=[{"role": "user", "content": [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]}], model=SMOLLM2)
    assert status == 400
    assert body["error"]["code"] == "unsupported_content"


def test_a_prompt_that_cannot_fit_is_refused_before_it_is_tokenized(daemon):
    status, body = daemon.chat("a" * (8 * 1024 * 1024))
    assert status == 400
    assert body["error"]["code"] == "context_length_exceeded"
    assert "at least" in body["error"]["message"]
    assert body["error"]["n_prompt_tokens"] > body["error"]["n_ctx"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("version", ["1.1", "1.0"])
def test_a_client_that_only_stops_sending_is_answered(daemon, stream, version):
    body = json.dumps({"model": SMOLLM2, "stream": stream, "max_tokens": 16,
                       "messages": [{"role": "user", "content": "Say hello."}]}).encode()
    with socket.create_connection(("127.0.0.1", daemon.port), timeout=60) as connection:
        connection.sendall(post(daemon, body).replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1))
        connection.shutdown(socket.SHUT_WR)
        reply = b""
        while part := connection.recv(65536):
            reply += part
    assert reply.startswith(b"HTTP/1.1 200 OK\r\n")
    assert b"data: [DONE]" in reply if stream else b'"finish_reason"' in reply


def test_a_bias_for_a_token_that_does_not_exist_is_refused_by_name(daemon):
    status, body = daemon.chat(logit_bias={"49152": 5})
    assert status == 400
    assert body["error"]["param"] == "logit_bias.49152"
    assert "49152 tokens" in body["error"]["message"]
    assert daemon.chat(logit_bias={"49151": 5})[0] == 200


@pytest.mark.parametrize("seed", [2**64 - 1, 2**63, -2**63, -2])
def test_every_64_bit_seed_is_taken(daemon, seed):
    assert daemon.chat(seed=seed)[0] == 200


@pytest.mark.parametrize("seed", [2**64, -2**63 - 2048, 0.5])
def test_any_other_seed_is_refused_by_name(daemon, seed):
    status, body = daemon.chat(seed=seed)
    assert status == 400
    assert body["error"]["param"] == "seed"
