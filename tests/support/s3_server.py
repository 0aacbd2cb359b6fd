"""An S3 server for tests: moto behind one lock, with faults that a test can order and a log of its requests.

moto alone can let two writers win one conditional create, because it answers in several threads. The lock makes it a
fair judge. It runs as a program of its own: ``python s3_server.py`` prints its port and ends with its standard input.
"""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

CONTROL = "/_control"
ACCESS_KEY, SECRET_KEY = "AKIAESKERTEST00000001", "esker+secret/that/must/never/be/shown"

SLOW_DOWN = "slow_down"  # 503 SlowDown, nothing done
TOO_MANY = "too_many"  # 429, nothing done
CONFLICT = "conflict"  # 409 ConditionalRequestConflict, nothing done
DENY = "deny"  # 403 with everything in its body that a real one has
LOSE_ANSWER = "lose_answer"  # done, then the connection is cut
LOSE_REQUEST = "lose_request"  # not done, and the connection is cut
ANSWER_500 = "answer_500"  # done, then 500
CUT_BODY = "cut_body"  # the answer ends in the middle
IGNORE_CONDITIONS = "ignore_conditions"  # as a store that does not know If-None-Match
DELAY = "delay"  # done a second late
DUPLICATE = "duplicate"  # done twice, as by a proxy that repeats a request; the second answer comes back
LATE = "late"  # the connection is cut at once, and the request is done when the client has given up
FAIL_500 = "fail_500"  # 500, nothing done
FAIL_412 = "fail_412"  # 412, nothing done
HTML = "html"  # not done: a proxy answers 200 with a page of its own
HTML_AFTER = "html_after"  # done, and a proxy answers 200 with a page of its own
NO_CONTENT = "no_content"  # done, then 204 without a body or a header
WRONG_LENGTH = "wrong_length"  # done; the answer is shorter than its Content-Length says
SHORT_PAGE = "short_page"  # a listing gives one key, and where to go on
LOSE_TOKEN = "lose_token"  # a listing says that there is more, and not where
TWICE_LISTED = "twice_listed"  # a listing gives its first key twice

_IN_TURN = (SLOW_DOWN, LOSE_REQUEST, LOSE_ANSWER)

_ERRORS = {
    SLOW_DOWN: ("503 Slow Down", "SlowDown", "Please reduce your request rate."),
    TOO_MANY: ("429 Too Many Requests", "TooManyRequests", "Please reduce your request rate."),
    CONFLICT: ("409 Conflict", "ConditionalRequestConflict", "A conflicting conditional operation is in progress."),
    FAIL_500: ("500 Internal Server Error", "InternalError", "We encountered an internal error."),
    FAIL_412: ("412 Precondition Failed", "PreconditionFailed", "At least one of the preconditions did not hold."),
    ANSWER_500: ("500 Internal Server Error", "InternalError", "We encountered an internal error."),
    DENY: ("403 Forbidden", "SignatureDoesNotMatch", "The request signature we calculated does not match."),
}
_PAGE = b"<!doctype html><html><title>Sign in</title><body>Please sign in.</body></html>"
_LATE_SECONDS = 0.05


class S3Server:
    """The running server, as a test sees it."""

    def __init__(self, process: subprocess.Popen[bytes], port: int) -> None:
        self._process = process
        self.endpoint = f"http://127.0.0.1:{port}"
        self._direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))

    @classmethod
    def start(cls, *, checks_keys: bool = False) -> Self:
        """Start one and wait until it answers. With ``checks_keys`` it takes only requests that a key of
        ``make_key`` signed, and that the key's policy allows."""
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", str(Path(__file__))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                **os.environ,
                "AWS_ACCESS_KEY_ID": "x",
                "AWS_SECRET_ACCESS_KEY": "x",
                "MOTO_ACCOUNT_ID": "1" * 12,
                **({"INITIAL_NO_AUTH_ACTION_COUNT": "0"} if checks_keys else {}),
            },
        )
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, "the S3 server did not start"
        return cls(process, int(line))

    def stop(self) -> None:
        """End the program."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    @property
    def properties(self) -> dict[str, str]:
        """What a lake on this server is opened with."""
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key-id": ACCESS_KEY,
            "s3.secret-access-key": SECRET_KEY,
            "s3.region": "us-east-1",
        }

    def make_bucket(self, name: str) -> str:
        """An empty bucket, as a location."""
        self._control({"bucket": name})
        return f"s3://{name}"

    def make_key(self, *prefixes: str, assumes_roles: bool = False) -> tuple[str, str]:
        """A key and its secret, which may do everything with objects below locations such as ``s3://bucket/a``."""
        places = [prefix.removeprefix("s3://") for prefix in prefixes]
        found = self._control({"key": places, "assumes_roles": assumes_roles})
        return found["id"], found["secret"]

    def drop_key(self, id_: str) -> None:
        """A key that is worth nothing from now on."""
        self._control({"drop_key": id_})

    def fail(self, action: str, *, method: str = "", key: str = "", skip: int = 0, times: int = 1) -> None:
        """From now on: let ``skip`` requests of that method and key (a pattern) pass, then fail ``times`` of them."""
        self._control({"fault": {"action": action, "method": method, "key": key, "skip": skip, "times": times}})

    def refuse_one_in(self, number: int) -> None:
        """From now on: one of so many requests fails, in turn by ``SlowDown``, a lost request and a lost answer."""
        self._control({"refuse_one_in": number})

    def heal(self) -> None:
        """Forget all faults."""
        self._control({"heal": True})

    def uploads(self) -> int:
        """Multipart uploads that are neither completed nor aborted."""
        return int(self._control({"uploads": True})["uploads"])

    @contextmanager
    def counted(self) -> Iterator[list[str]]:
        """The requests of a block, ``GET bucket/key``, filled in at its end."""
        found: list[str] = []
        before = int(self._control({"log": 0})["next"])
        yield found
        found.extend(self._control({"log": before})["requests"])

    def _control(self, order: Mapping[str, Any]) -> dict[str, Any]:
        request = urllib.request.Request(self.endpoint + CONTROL, json.dumps(order).encode(), method="POST")
        with self._direct.open(request, timeout=30) as answer:
            found: dict[str, Any] = json.loads(answer.read())
            return found


class Faulty:
    """moto's application with one lock, a log and faults."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self._lock = threading.RLock()
        self._faults: list[dict[str, Any]] = []
        self._log: list[str] = []
        self._refuse_one_in = 0
        self._requests = 0

    def __call__(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        if environ["PATH_INFO"] == CONTROL:
            return self._ordered(environ, start)
        is_chunked = environ.get("HTTP_TRANSFER_ENCODING", "").lower() == "chunked"
        body = environ["wsgi.input"].read(-1 if is_chunked else int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = _Body(body)
        if is_chunked:
            environ["CONTENT_LENGTH"] = str(len(body))
        with self._lock:
            self._log.append(f"{environ['REQUEST_METHOD']} {_key(environ)}")
            action = self._due(environ)
            if action == DELAY:
                time.sleep(1)
            return self._answer(environ, start, action, body)

    def _answer(self, environ: dict[str, Any], start: Any, action: str | None, body: bytes) -> Iterable[bytes]:
        match action:
            case "lose_request":
                return _cut(environ)
            case "late":
                threading.Timer(_LATE_SECONDS, self._done_late, (dict(environ), body)).start()
                return _cut(environ)
            case "slow_down" | "too_many" | "conflict" | "deny" | "fail_500" | "fail_412":
                return _refuse(environ, start, action)
            case "html":
                return _page(start)
            case "ignore_conditions":
                environ.pop("HTTP_IF_NONE_MATCH", None)
            case "short_page" if "list-type" in environ.get("QUERY_STRING", ""):
                environ["QUERY_STRING"] += "&max-keys=1"
            case "duplicate":
                self._done(environ)
                environ["wsgi.input"] = _Body(body)
        status, headers, content = self._done(environ)
        match action:
            case "lose_answer":
                return _cut(environ)
            case "answer_500":
                return _refuse(environ, start, action)
            case "html_after":
                return _page(start)
            case "no_content":
                start("204 No Content", [])
                return []
            case "lose_token" | "twice_listed" if b"<ListBucketResult" in content:
                content = _without_token(content) if action == LOSE_TOKEN else _with_first_key_twice(content)
                headers = _with_length(headers, len(content))
            case "wrong_length" if environ["REQUEST_METHOD"] != "HEAD":
                start(status, _with_length(headers, len(content) + 7))
                return _half(environ, content, len(content))
        start(status, headers)
        return _half(environ, content, len(content) // 2) if action == CUT_BODY else [content]

    def _done(self, environ: dict[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
        kept: list[Any] = []
        content = b"".join(self._inner(environ, lambda status, headers, *_: kept.extend((status, headers))))
        return kept[0], kept[1], content

    def _done_late(self, environ: dict[str, Any], body: bytes) -> None:
        environ["wsgi.input"] = _Body(body)
        with self._lock:
            self._done(environ)

    def _due(self, environ: dict[str, Any]) -> str | None:
        self._requests += 1
        if self._refuse_one_in and self._requests % self._refuse_one_in == 0:
            return _IN_TURN[self._requests // self._refuse_one_in % len(_IN_TURN)]
        for fault in self._faults:
            if fault["method"] not in ("", environ["REQUEST_METHOD"]) or not re.search(fault["key"], _key(environ)):
                continue
            if fault["skip"] > 0:
                fault["skip"] -= 1
            elif fault["times"] > 0:
                fault["times"] -= 1
                return str(fault["action"])
        return None

    def _ordered(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        order = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
        answer: dict[str, Any] = {}
        with self._lock:
            if "bucket" in order:
                self._s3().create_bucket(order["bucket"], "us-east-1")
            if "key" in order:
                answer = _new_key(order["key"], assumes_roles=order["assumes_roles"])
            if "drop_key" in order:
                _drop_key(order["drop_key"])
            if "fault" in order:
                self._faults.append(order["fault"])
            if "refuse_one_in" in order:
                self._refuse_one_in = int(order["refuse_one_in"])
            if "heal" in order:
                self._faults.clear()
                self._refuse_one_in = 0
            if "uploads" in order:
                answer["uploads"] = sum(len(bucket.multiparts) for bucket in self._s3().buckets.values())
            if "log" in order:
                answer = {"next": len(self._log), "requests": self._log[order["log"] :]}
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def _s3(self) -> Any:
        from moto.s3.models import s3_backends

        return s3_backends["1" * 12]["aws"]


def _new_key(prefixes: list[str], *, assumes_roles: bool) -> dict[str, str]:
    from moto.iam.models import iam_backends

    iam = iam_backends["1" * 12]["aws"]
    name = f"user-{len(iam.users)}"
    iam.create_user("us-east-1", name)
    objects = [f"arn:aws:s3:::{prefix}/*" for prefix in prefixes]
    buckets = sorted({f"arn:aws:s3:::{prefix.partition('/')[0]}" for prefix in prefixes})
    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": [*objects, *buckets]}
    roles = [{"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}] if assumes_roles else []
    iam.put_user_policy(name, "policy", json.dumps({"Version": "2012-10-17", "Statement": [allowed, *roles]}))
    key = iam.create_access_key(name)
    return {"id": key.access_key_id, "secret": key.secret_access_key}


def _drop_key(id_: str) -> None:
    from moto.iam.models import iam_backends

    iam = iam_backends["1" * 12]["aws"]
    for user in list(iam.users.values()):
        if any(key.access_key_id == id_ for key in user.access_keys):
            user.access_keys = []
            iam.access_keys.pop(id_, None)


def _obey_session_policies() -> None:
    """moto looks at the policies of a role and not at the policy of its session. Here every role may do everything, so
    that its session's policy decides. The prefixes of lists are left out: moto does not know them."""
    from moto.iam.access_control import AssumedRoleAccessKey
    from moto.sts.models import sts_backends

    def of_session(key: Any) -> list[str]:
        role = sts_backends[key.account_id][key.partition].get_assumed_role_from_access_key(key._access_key_id)
        policy = json.loads(role.policy)
        for statement in policy["Statement"]:
            statement.pop("Condition", None)
        return [json.dumps(policy)]

    AssumedRoleAccessKey.collect_policies = of_session


class _Body:
    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, size: int | None = -1) -> bytes:
        size = len(self._data) if size is None or size < 0 else size
        found, self._data = self._data[:size], self._data[size:]
        return found


def _key(environ: dict[str, Any]) -> str:
    query = environ.get("QUERY_STRING", "")
    return environ["PATH_INFO"].lstrip("/") + (f"?{query}" if query else "")


def _refuse(environ: dict[str, Any], start: Any, action: str) -> Iterable[bytes]:
    status, code, message = _ERRORS[action]
    shown = f"<AWSAccessKeyId>{ACCESS_KEY}</AWSAccessKeyId>" if action == DENY else ""
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>{message}</Message>{shown}</Error>".encode()
    start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body))), ("Retry-After", "1")])
    return [] if environ["REQUEST_METHOD"] == "HEAD" else [body]


def _cut(environ: dict[str, Any]) -> Iterable[bytes]:
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)
    raise ConnectionAbortedError


def _half(environ: dict[str, Any], content: bytes, size: int) -> Iterator[bytes]:
    yield content[:size]
    environ["werkzeug.socket"].shutdown(socket.SHUT_RDWR)


def _page(start: Any) -> Iterable[bytes]:
    start("200 OK", [("Content-Type", "text/html"), ("Content-Length", str(len(_PAGE)))])
    return [_PAGE]


def _with_length(headers: list[tuple[str, str]], length: int) -> list[tuple[str, str]]:
    return [*(pair for pair in headers if pair[0].lower() != "content-length"), ("Content-Length", str(length))]


def _without_token(content: bytes) -> bytes:
    cut = re.sub(rb"<NextContinuationToken>.*?</NextContinuationToken>", b"", content, flags=re.DOTALL)
    return re.sub(rb"<IsTruncated>\w+</IsTruncated>", b"<IsTruncated>true</IsTruncated>", cut)


def _with_first_key_twice(content: bytes) -> bytes:
    return re.sub(rb"(<Contents>.*?</Contents>)", rb"\1\1", content, count=1, flags=re.DOTALL)


def main() -> None:
    """Serve on a free port of the loopback interface until the standard input ends."""
    import logging

    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    _obey_session_policies()
    server = make_server("127.0.0.1", 0, Faulty(DomainDispatcherApplication(create_backend_app)), threaded=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115  # what the server says of connections that it cuts
    print(server.server_port, flush=True)
    sys.stdin.buffer.read()


if __name__ == "__main__":
    main()
