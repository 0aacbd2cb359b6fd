"""Requests that are sent again with the same idempotency key: carried out once, answered each time."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from uuid import UUID

from esker.catalogs.sql_request_log import CarriedOutBefore, KeptRequest, SqlRequestLog
from esker.errors import EskerError, InvalidInput
from esker.serve.call import Answer, Call
from esker.serve.error_answers import answer_to

log = logging.getLogger("esker.serve")

HEADER = "idempotency-key"
LIFETIME = "PT30M"
_KEPT_MS = 35 * 60_000  # five minutes longer than promised, for clocks that differ

Handler = Callable[[Call], Answer]


class Replays:
    """Answers requests with keys. ``again`` has, for each operation, how a success is answered a second time."""

    def __init__(
        self,
        kept: SqlRequestLog,
        again: Mapping[str, Handler],
        now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self._kept = kept
        self._again = again
        self._now_ms = now_ms

    def answer(self, operation: str, call: Call, caller: str, handler: Handler) -> Answer:
        """The answer to a request, which is carried out unless it was before.

        Raises ``InvalidInput`` for a key that is no UUID, or that another request has used.
        """
        key = _checked(call.headers[HEADER])
        parts = (operation, caller, repr(sorted(call.path.items())), repr(sorted(call.query.items())))
        fingerprint = hashlib.sha256("\0".join(parts).encode() + b"\0" + call.body).hexdigest()
        before = self._find(key)
        if before is not None:
            return self._replayed(before, fingerprint, operation, call)
        now = self._now_ms()
        request = KeptRequest(key=key, fingerprint=fingerprint, status=200, answer="", kept_ms=now)
        try:
            with self._kept.beside(request, forget_before_ms=now - _KEPT_MS) as pending:
                answer = handler(call)
            if pending.is_kept:
                return answer
        except CarriedOutBefore:
            found = self._find(key)
            if found is None:
                raise
            return self._replayed(found, fingerprint, operation, call)
        except EskerError as error:
            answer = answer_to(error)
        if answer.status < 500:  # it had no effect in the database: it was refused, or there was nothing to do
            twin = self._find(key)  # the same request, sent twice at a time: the other one came first
            if twin is not None:
                return self._replayed(twin, fingerprint, operation, call)
            try:
                text = answer.body.decode() if answer.status >= 400 else ""
                self._kept.keep(replace(request, status=answer.status, answer=text))
            except EskerError as error:
                log.warning("an answer could not be kept for a replay: %s", error.message)
        return answer

    def _find(self, key: str) -> KeptRequest | None:
        found = self._kept.find(key)
        return found if found is not None and found.kept_ms > self._now_ms() - _KEPT_MS else None

    def _replayed(self, before: KeptRequest, fingerprint: str, operation: str, call: Call) -> Answer:
        if before.fingerprint != fingerprint:
            raise InvalidInput(f"cannot use the {HEADER} {before.key} again: another request had it")
        if before.status >= 400:
            return Answer(status=before.status, body=before.answer.encode())
        return self._again[operation](replace(call, kept=before.answer))


def _checked(text: str) -> str:
    try:
        return str(UUID(text))
    except ValueError:
        raise InvalidInput(f"cannot use the {HEADER} {text[:40]!r}: it must be a UUID") from None
