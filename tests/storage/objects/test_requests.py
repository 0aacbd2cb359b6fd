"""How many requests an object store is asked, and what its faults become."""

from __future__ import annotations

import io
import logging
import pickle
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from object_stores import storage_on
from s3_server import (
    ACCESS_KEY,
    ANSWER_500,
    CONFLICT,
    CUT_BODY,
    DENY,
    HTML,
    IGNORE_CONDITIONS,
    LOSE_ANSWER,
    LOSE_REQUEST,
    NO_CONTENT,
    SECRET_KEY,
    SHORT_PAGE,
    SLOW_DOWN,
    TOO_MANY,
    TWICE_LISTED,
    WRONG_LENGTH,
    S3Server,
)

from esker.errors import AlreadyExists, EskerError, InvalidInput, NoSuchFile, StorageFailed, Unsupported
from esker.storage.objects import object_storage
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.files import PART, TAIL
from esker.storage.objects.object_storage import ObjectStorage

ROW_GROUPS = 4


def parquet(rows: int = 50_000) -> bytes:
    sink = io.BytesIO()
    table = pa.table({"id": range(rows), "text": [f"{n:x}" * 9 for n in range(rows)]})
    pq.write_table(table, sink, row_group_size=rows // ROW_GROUPS, compression="none")
    return sink.getvalue()


def test_a_footer_is_one_request_and_read_again_it_is_none(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    content = parquet()
    assert len(content) > 4 * TAIL
    s3_storage.write_new(f"{bucket}/a.parquet", content)
    with s3.counted() as requests, s3_storage.open(f"{bucket}/a.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_rows == 50_000
    assert requests == [f"GET {bucket[5:]}/a.parquet"]
    with s3.counted() as again, s3_storage.open(f"{bucket}/a.parquet") as file:
        assert pq.ParquetFile(file).metadata.num_row_groups == ROW_GROUPS
        assert s3_storage.size(f"{bucket}/a.parquet") == len(content)
    assert again == []


def test_neighbouring_columns_are_read_together(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    content = parquet()
    s3_storage.write_new(f"{bucket}/a.parquet", content)
    with s3.counted() as requests, s3_storage.open(f"{bucket}/a.parquet") as file:
        assert pq.read_table(pa.PythonFile(file, mode="r")).num_rows == 50_000
    assert len(requests) <= 1 + ROW_GROUPS


def test_a_file_reads_as_a_local_one_does(s3_storage: ObjectStorage, bucket: str) -> None:
    content = bytes(n % 251 for n in range(3 << 20))
    s3_storage.write_new(f"{bucket}/a", content)
    with s3_storage.open(f"{bucket}/a") as file:
        for start, size in ((0, 10), (10, 2_000_000), (5, 1), (2_900_000, 500_000), (1 << 20, 1 << 20), (9 << 20, 4)):
            file.seek(start)
            assert file.read(size) == content[start : start + size]
            assert file.tell() == start + len(content[start : start + size])
        file.seek(-5, io.SEEK_END)
        assert file.read() == content[-5:]
        file.seek(0)
        assert file.read() == content


def test_reading_on_takes_ever_larger_pieces(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3_storage.write_new(f"{bucket}/a", bytes(12 << 20))
    with s3.counted() as requests, s3_storage.open(f"{bucket}/a") as file:
        while file.read(10_000):
            pass
    assert len(requests) <= 5


def test_a_long_read_is_divided_and_whole(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    content = bytes(range(251)) * ((20 << 20) // 251)
    s3_storage.write_new(f"{bucket}/a", content)
    with s3.counted() as requests, s3_storage.open(f"{bucket}/a") as file:
        assert file.read() == content
    assert len(requests) == 4  # the end, and nearly 20 MiB in pieces of 8


def test_many_objects_are_deleted_by_one_request(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    for number in range(7):
        s3_storage.write_new(f"{bucket}/t/{number}", b"x")
    with s3.counted() as requests:
        s3_storage.delete_many([f"{bucket}/t/{number}" for number in range(9)])
    assert requests == [f"POST {bucket[5:]}?delete"]
    assert list(s3_storage.list(f"{bucket}/t")) == []


def test_a_large_object_is_written_in_parts(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    piece = bytes(range(256)) * 4096
    with s3.counted() as requests:
        with s3_storage.open_new(f"{bucket}/big") as file:
            for _ in range(20):
                file.write(piece)
            assert not s3_storage.exists(f"{bucket}/big")
        assert s3_storage.read(f"{bucket}/big") == piece * 20
    assert sum("partNumber" in request for request in requests) == 3
    assert s3.uploads() == 0


def test_a_large_object_that_is_given_up_leaves_no_part(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    with pytest.raises(ZeroDivisionError), s3_storage.open_new(f"{bucket}/big") as file:  # noqa: PT012
        file.write(bytes(2 * PART + 1))
        assert s3.uploads() == 1
        raise ZeroDivisionError
    assert s3.uploads() == 0
    assert list(s3_storage.list(bucket)) == []


def test_a_large_object_overwrites_nothing(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3_storage.write_new(f"{bucket}/big", b"first")
    with pytest.raises(AlreadyExists), s3_storage.open_new(f"{bucket}/big") as file:
        file.write(bytes(2 * PART + 1))
    assert s3_storage.read(f"{bucket}/big") == b"first"
    assert s3.uploads() == 0


def test_a_part_that_fails_is_an_error_when_the_block_ends(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    s3.fail(SLOW_DOWN, method="PUT", key="partNumber=2", times=99)
    with pytest.raises(StorageFailed) as raised, s3_storage.open_new(f"{bucket}/big") as file:
        file.write(bytes(2 * PART + 1))
    assert raised.value.retryable
    assert not s3_storage.exists(f"{bucket}/big")
    assert s3.uploads() == 0


@pytest.mark.parametrize("action", [LOSE_ANSWER, ANSWER_500])
def test_a_large_object_whose_last_answer_is_lost_is_there(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, action: str
) -> None:
    s3.fail(action, method="POST", key="uploadId")
    with s3_storage.open_new(f"{bucket}/big") as file:
        file.write(bytes(2 * PART + 1))
    assert s3_storage.size(f"{bucket}/big") == 2 * PART + 1


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("action", [SLOW_DOWN, TOO_MANY, CONFLICT, LOSE_ANSWER, LOSE_REQUEST, ANSWER_500])
def test_f43_a_create_is_repeated_and_knows_its_own_object(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, action: str, times: int
) -> None:
    s3.fail(action, method="PUT", times=times)
    s3_storage.write_new(f"{bucket}/a", b"ours")
    assert s3_storage.read(f"{bucket}/a") == b"ours"


@pytest.mark.parametrize("action", [SLOW_DOWN, CONFLICT, LOSE_ANSWER, LOSE_REQUEST])
def test_f43_an_object_of_another_writer_is_never_taken_for_ours(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, action: str
) -> None:
    s3_storage.write_new(f"{bucket}/a", b"same bytes")
    s3.fail(action, method="PUT")
    with pytest.raises(AlreadyExists):
        s3_storage.write_new(f"{bucket}/a", b"same bytes")


def test_a_create_that_is_never_answered_says_so(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3.fail(LOSE_ANSWER, method="PUT", times=99)
    s3.fail(LOSE_ANSWER, method="HEAD", times=99)
    with pytest.raises(StorageFailed, match=f"cannot create {bucket}/a: .*; the store does not answer") as raised:
        s3_storage.write_new(f"{bucket}/a", b"x")
    assert raised.value.retryable
    assert raised.value.unanswered


def test_a_refused_create_is_certain(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3.fail(DENY, method="PUT", times=99)
    with pytest.raises(StorageFailed, match="check the credentials") as raised:
        s3_storage.write_new(f"{bucket}/a", b"x")
    assert not raised.value.retryable
    assert "unanswered" not in raised.value.facts


@pytest.mark.parametrize("action", [SLOW_DOWN, TOO_MANY, LOSE_ANSWER, LOSE_REQUEST, ANSWER_500, HTML, NO_CONTENT])
def test_an_empty_object_is_put_once_whatever_happens_to_the_request(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, action: str
) -> None:
    """How a store is asked whether it knows conditions."""
    s3_storage.put_empty(f"{bucket}/a")
    s3.fail(action, method="PUT")
    assert not s3_storage.put_empty(f"{bucket}/a")
    s3.fail(IGNORE_CONDITIONS, method="PUT", times=9)
    assert s3_storage.put_empty(f"{bucket}/a")


@pytest.mark.parametrize("then", [DENY, TOO_MANY])
@pytest.mark.parametrize("first", [LOSE_ANSWER, ANSWER_500])
def test_f16_a_refusal_of_the_second_request_says_nothing_of_the_first(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, first: str, then: str
) -> None:
    """The credentials end, or the store throttles, between a create that was made and its repetition."""
    s3.fail(first, method="PUT")
    s3.fail(then, method="PUT", times=99)
    with pytest.raises(StorageFailed) as raised:
        s3_storage.write_new(f"{bucket}/a", b"x")
    assert raised.value.unanswered
    assert s3_storage.read(f"{bucket}/a") == b"x"


def test_a_create_that_is_throttled_every_time_is_certain(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3.fail(TOO_MANY, method="PUT", times=99)
    with s3.counted() as requests, pytest.raises(StorageFailed) as raised:
        s3_storage.write_new(f"{bucket}/a", b"x")
    assert "unanswered" not in raised.value.facts
    assert len(requests) == 4  # bounded: the first and three more


@pytest.mark.parametrize("action", [SLOW_DOWN, TOO_MANY, CUT_BODY, LOSE_ANSWER, ANSWER_500])
def test_a_read_is_repeated(s3: S3Server, s3_storage: ObjectStorage, bucket: str, action: str) -> None:
    s3_storage.write_new(f"{bucket}/a", b"0123456789")
    s3.fail(action, method="GET", times=2)
    assert s3_storage.read(f"{bucket}/a") == b"0123456789"


@pytest.mark.parametrize("verb", ["read", "open", "size", "exists", "delete"])
def test_a_store_that_throttles_for_long_is_named(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, verb: str
) -> None:
    s3.fail(SLOW_DOWN, times=99)
    with s3.counted() as requests, pytest.raises(StorageFailed, match="the store asks for fewer requests") as raised:
        getattr(s3_storage, verb)(f"{bucket}/a")
    assert raised.value.retryable
    assert len(requests) == 3  # bounded: the first and two more


def test_a_listing_that_fails_is_never_empty(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    s3_storage.write_new(f"{bucket}/t/a", b"x")
    s3.fail(SLOW_DOWN, method="GET", times=99)
    with pytest.raises(StorageFailed, match="cannot list"):
        list(s3_storage.list(f"{bucket}/t"))


@pytest.mark.parametrize("action", [HTML, NO_CONTENT, CUT_BODY, WRONG_LENGTH])
@pytest.mark.parametrize("verb", ["list", "folders"])
def test_f23_f43_a_listing_that_something_else_answers_is_asked_again(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, verb: str, action: str
) -> None:
    """The client takes a page of a proxy for an empty listing."""
    s3_storage.write_new(f"{bucket}/t/a", b"x")
    s3.fail(action, method="GET")
    found = getattr(s3_storage, verb)(f"{bucket}/t")
    assert [file.location for file in (found if verb == "list" else found[1])] == [f"{bucket}/t/a"]


@pytest.mark.parametrize("verb", ["list", "folders", "read", "open", "size", "exists", "mark", "write_new"])
def test_f23_a_server_that_is_no_object_store_is_found_out(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str, verb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(object_storage, "_WAIT", 0.001)
    s3.fail(HTML, times=99)
    said = f"cannot .* {bucket}/a: the answer is not one of an object store; check the address of the store"
    with pytest.raises(StorageFailed, match=said) as raised:
        list(getattr(s3_storage, verb)(f"{bucket}/a", *([b"x"] if verb == "write_new" else [])) or ())
    assert raised.value.retryable
    assert raised.value.facts.get("unanswered", False) == (verb == "write_new")


def test_an_empty_listing_costs_three_requests(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    with s3.counted() as requests:
        assert list(s3_storage.list(f"{bucket}/t")) == []
    assert [request.split()[0] for request in requests] == ["GET", "HEAD", "GET"]


def test_f43_a_key_that_is_listed_twice_or_on_short_pages_is_there(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    for name in ("a", "b", "c"):
        s3_storage.write_new(f"{bucket}/t/{name}", b"x")
    s3.fail(SHORT_PAGE, method="GET", times=99)
    with s3.counted() as requests:
        assert [file.location[-1] for file in s3_storage.list(f"{bucket}/t")] == ["a", "b", "c"]
    assert len(requests) == 3
    s3.heal()
    s3.fail(TWICE_LISTED, method="GET")
    found = [file.location for file in s3_storage.list(f"{bucket}/t")]
    assert sorted(set(found)) == [f"{bucket}/t/{name}" for name in ("a", "b", "c")]
    s3_storage.delete_many([*found, *found])
    assert list(s3_storage.list(f"{bucket}/t")) == []


def test_f43_an_answer_shorter_than_its_length_is_no_content(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    s3_storage.write_new(f"{bucket}/a", b"0123456789")
    s3.fail(WRONG_LENGTH, method="GET")
    assert s3_storage.read(f"{bucket}/a") == b"0123456789"
    s3.fail(WRONG_LENGTH, method="GET")
    with s3_storage.open(f"{bucket}/a") as file:
        assert file.read() == b"0123456789"


@pytest.mark.parametrize("verb", ["read", "write_new"])
def test_a_lost_connection_to_a_metadata_file_is_no_lack_of_credentials(s3: S3Server, verb: str) -> None:
    lost = storage_on(s3, **{"s3.endpoint": "http://127.0.0.1:9", "s3.retry.num-retries": "0"})
    with pytest.raises(StorageFailed, match="no connection; the store does not answer"):
        getattr(lost, verb)("s3://bucket/t/metadata/v1.metadata.json", *([b"x"] if verb == "write_new" else []))


def test_a_store_that_is_gone_does_not_answer(s3: S3Server) -> None:
    lost = storage_on(s3, **{"s3.endpoint": "http://127.0.0.1:9"})
    with pytest.raises(StorageFailed, match="the store does not answer") as raised:
        lost.read("s3://bucket/a")
    assert raised.value.retryable


def test_a_bucket_that_is_not_there_is_no_missing_file(s3_storage: ObjectStorage) -> None:
    for call in (
        lambda: s3_storage.read("s3://no-such-bucket/a"),
        lambda: list(s3_storage.list("s3://no-such-bucket/a")),
    ):
        with pytest.raises(StorageFailed, match="there is no such bucket; check its name") as raised:
            call()
        assert not raised.value.retryable


def test_an_empty_object_can_be_opened(s3_storage: ObjectStorage, bucket: str) -> None:
    s3_storage.write_new(f"{bucket}/a", b"")
    with s3_storage.open(f"{bucket}/a") as file:
        assert file.read() == b""


def test_a_deleted_object_is_not_served_from_memory(s3_storage: ObjectStorage, bucket: str) -> None:
    s3_storage.write_new(f"{bucket}/a", b"x")
    s3_storage.open(f"{bucket}/a").close()
    s3_storage.delete(f"{bucket}/a")
    with pytest.raises(NoSuchFile):
        s3_storage.open(f"{bucket}/a")


def test_s05_no_verb_leaves_the_roots(s3: S3Server, bucket: str) -> None:
    configuration = ObjectConfiguration.of(s3.properties, {})
    storage = ObjectStorage(configuration, roots=[f"{bucket}/warehouse", f"{bucket}/more"])
    storage.write_new(f"{bucket}/warehouse/a", b"x")
    storage.write_new(f"{bucket.replace('s3:', 's3a:')}/more/a", b"x")
    for location in (f"{bucket}/warehouses/a", f"{bucket}/warehouse/../b", "s3://elsewhere/warehouse/a", bucket):
        for verb in ("read", "open", "size", "exists", "delete", "local_path", "check"):
            with pytest.raises(InvalidInput, match=r"allowed_roots|climbs"):
                getattr(storage, verb)(location)
        with pytest.raises(InvalidInput):
            storage.write_new(location, b"")
        with pytest.raises(InvalidInput):
            list(storage.list(location))
    with pytest.raises(Unsupported, match="not in an object store"):
        storage.read("http://169.254.169.254/latest")


def test_no_secret_is_shown(s3: S3Server, bucket: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    storage = storage_on(s3, **{"s3.session-token": "session+token/that/is/secret"})
    s3.fail(DENY, times=99)
    shown = [repr(storage), str(storage.configuration), repr(storage.configuration), repr(vars(storage))]
    for verb in ("read", "open", "size", "exists", "delete"):
        with pytest.raises(EskerError) as raised:
            getattr(storage, verb)(f"{bucket}/a")
        shown += [str(raised.value), repr(raised.value.facts), "".join(_chain(raised.value))]
    text = "\n".join((*shown, caplog.text))
    for secret in (ACCESS_KEY, SECRET_KEY, "session+token/that/is/secret"):
        assert secret not in text
    assert pickle.loads(pickle.dumps(storage)).configuration.properties["s3.secret-access-key"] == SECRET_KEY


def _chain(error: BaseException | None) -> list[str]:
    import traceback

    return traceback.format_exception(error)


def test_a_store_that_ignores_conditions_lets_two_creates_win(
    s3: S3Server, s3_storage: ObjectStorage, bucket: str
) -> None:
    """What the check of a store has to find out."""
    s3.fail(IGNORE_CONDITIONS, times=99)
    s3_storage.write_new(f"{bucket}/a", b"first")
    s3_storage.write_new(f"{bucket}/a", b"second")
    assert s3_storage.read(f"{bucket}/a") == b"second"


def test_requests_are_signed_for_the_key_of_the_caller(s3: S3Server, s3_storage: ObjectStorage, bucket: str) -> None:
    assert re.fullmatch(r"s3://bucket-[0-9a-f]{12}", bucket)
    s3_storage.write_new(f"{bucket}/a", b"x")
    assert s3_storage.mark(f"{bucket}/a") == s3_storage.mark(f"{bucket}/a")
