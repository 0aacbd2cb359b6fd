"""What a throttling server asks for: ``Retry-After`` is honoured, within bounds, and only where a request may be sent
again."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from esker.catalogs.rest.operations import Operation
from esker.catalogs.rest.service import ATTEMPTS, RestService
from esker.catalogs.rest.settings import RestSettings
from esker.catalogs.rest.transport import LONGEST_WAIT_S, Answer, Request
from esker.errors import OutcomeUnknown, StorageFailed


class Throttling:
    """Answers the configuration, and everything else first by these answers."""

    def __init__(self, *answers: Answer, keys: bool = False) -> None:
        self.answers = list(answers)
        self.seen: list[Request] = []
        self.keys = b',"idempotency-key-lifetime":"PT30M"' if keys else b""

    def send(self, request: Request) -> Answer:
        if request.url.endswith("/v1/config"):
            return Answer(status=200, body=b'{"defaults":{},"overrides":{}' + self.keys + b"}")
        self.seen.append(request)
        return self.answers.pop(0) if self.answers else Answer(status=200, body=b'{"namespaces":[]}')


def busy(status: int, after: str) -> Answer:
    return Answer(status=status, headers={"retry-after": after})


def service_with(transport: Throttling) -> tuple[RestService, list[float]]:
    slept: list[float] = []
    return RestService(RestSettings.of("https://c.example"), transport, sleep=slept.append), slept


def listed(service: RestService) -> object:
    return service.ask(Operation.LIST_NAMESPACES, None, "list namespaces")


@pytest.mark.parametrize("status", [429, 503])
def test_a_question_waits_as_long_as_the_server_asks(status: int) -> None:
    service, slept = service_with(Throttling(busy(status, "7"), busy(status, "2")))
    listed(service)
    assert slept == [7.0, 2.0]


def test_the_wait_is_bounded_and_never_shorter_than_the_own_one() -> None:
    service, slept = service_with(Throttling(busy(429, "86400"), busy(429, "0"), busy(429, "soon")))
    listed(service)
    assert slept[0] == LONGEST_WAIT_S
    assert all(0 < wait < 5 for wait in slept[1:])


def test_a_date_is_a_wait_too() -> None:
    ends = format_datetime(datetime.now(UTC) + timedelta(seconds=20), usegmt=True)
    service, slept = service_with(Throttling(busy(503, ends), busy(503, "Mon, 01 Jan 2001 00:00:00 GMT")))
    listed(service)
    assert 15 < slept[0] <= 20
    assert 0 < slept[1] < 5


def test_a_server_that_never_has_time_is_given_up() -> None:
    transport = Throttling(*[busy(429, "1")] * 20)
    service, slept = service_with(transport)
    with pytest.raises(StorageFailed, match="429") as raised:
        listed(service)
    assert raised.value.retryable
    assert len(transport.seen) == ATTEMPTS
    assert slept == [1.0] * (ATTEMPTS - 1)


def changed(service: RestService) -> object:
    return service.change(Operation.CREATE_NAMESPACE, None, {"namespace": ["a"]}, "create namespace a")


CHANGES: dict[str, tuple[int, bool, list[float] | None]] = {
    "429 says that nothing was done": (429, False, [3.0]),
    "503 may have done it": (503, False, None),
    "503 under a key is done once": (503, True, [3.0]),
}


@pytest.mark.parametrize("kind", CHANGES)
def test_a_change_is_sent_again_only_where_it_cannot_be_made_twice(kind: str) -> None:
    status, keys, waits = CHANGES[kind]
    transport = Throttling(busy(status, "3"), keys=keys)
    service, slept = service_with(transport)
    act: Callable[[], object] = lambda: changed(service)  # noqa: E731
    if waits is None:
        with pytest.raises(OutcomeUnknown):
            act()
        assert len(transport.seen) == 1
    else:
        act()
        assert slept == waits
        assert len({request.headers.get("Idempotency-Key") for request in transport.seen}) == 1
