"""The counts of requests: in buckets of time, and of several processes together."""

from __future__ import annotations

import os
import re

import pytest

from esker.serve.listen.request_counts import SharedCounts

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # the child only counts


def test_the_times_of_answers_are_counted_in_buckets() -> None:
    counts = SharedCounts().of(0)
    for seconds in (0.005, 0.006, 0.3, 99.0):
        counts.count("GET", 200, seconds)
    found = dict(re.findall(r'seconds_bucket{method="GET",le="(.*?)"} (\d+)', counts.text()))
    limits = ("0.005", "0.01", "0.25", "0.5", "10.0", "+Inf")
    assert [found[limit] for limit in limits] == ["1", "2", "2", "3", "3", "4"]
    assert 'esker_request_seconds_sum{method="GET"} 99.311000' in counts.text()


def test_methods_that_clients_make_up_are_counted_together() -> None:
    counts = SharedCounts().of(0)
    for number in range(50):
        counts.count(f"M{number}", 405, 0.1)
    assert re.findall("requests_total.*", counts.text())[1:] == ['requests_total{method="OTHER",status="405"} 50']


@pytest.mark.parametrize("status", [100, 599])
def test_every_status_has_a_count(status: int) -> None:
    counts = SharedCounts().of(0)
    for method in ("GET", "PATCH"):
        counts.count(method, status, 0.1)
    assert f'method="GET",status="{status}"}} 1\n' in counts.text()
    assert f'method="OTHER",status="{status}"}} 1\n' in counts.text()


def test_the_counts_of_all_processes_are_added() -> None:
    shared = SharedCounts(2)
    counts = shared.of(0)
    counts.count("GET", 200, 0.1)
    counts.begin()
    in_child(shared, place=1)
    text = counts.text()
    assert 'requests_total{method="GET",status="200"} 2\n' in text
    assert 'requests_total{method="POST",status="409"} 1\n' in text
    assert 'seconds_count{method="GET"} 2\n' in text
    assert 'seconds_sum{method="GET"} 0.300000\n' in text
    assert "esker_requests_in_work 2\n" in text
    assert counts.in_work == 1  # what is in work elsewhere does not keep this process from work


def test_the_next_process_goes_on_with_the_counts_of_one_that_died() -> None:
    shared = SharedCounts(2)
    counts = shared.of(0)
    in_child(shared, place=1)
    in_child(shared, place=1)
    assert 'requests_total{method="GET",status="200"} 2\n' in counts.text()
    assert "esker_requests_in_work 1\n" in counts.text()  # that of the first died with it


def in_child(shared: SharedCounts, *, place: int) -> None:
    """Two answers and an unfinished request, in another process, which ends at once."""
    process = os.fork()
    if not process:
        try:
            counts = shared.of(place)
            counts.count("GET", 200, 0.2)
            counts.count("POST", 409, 0.01)
            counts.begin()
        finally:
            os._exit(0)
    assert os.waitpid(process, 0)[1] == 0
