"""S3 whose requests somebody else signs keeps the storage contract, against a store that checks signatures."""

from __future__ import annotations

import pickle
from dataclasses import replace
from uuid import uuid4

import pytest
from object_stores import QUICK
from request_signing import LocalSigner
from s3_server import ANSWER_500, LOSE_ANSWER, SLOW_DOWN, S3Server
from storage_contract import StorageContract

from esker.errors import AlreadyExists, Corrupt, StorageFailed
from esker.ports.credentials import SignedRequest
from esker.storage.objects.configuration import ObjectConfiguration
from esker.storage.objects.object_storage import ObjectStorage


def storage_of(server: S3Server, signer: LocalSigner, **properties: str) -> ObjectStorage:
    given = {"s3.endpoint": server.endpoint, "s3.region": "us-east-1", **QUICK, **properties}
    return ObjectStorage(ObjectConfiguration.of(given, {}).with_signer(signer))


@pytest.fixture
def place(checking_s3: S3Server) -> str:
    return f"{checking_s3.make_bucket(f'signed-{uuid4().hex[:12]}')}/a b/ü=%20"


@pytest.fixture
def signer(checking_s3: S3Server, place: str) -> LocalSigner:
    return LocalSigner(*checking_s3.make_key(place.rpartition("/")[0]))


class TestSignedS3(StorageContract):
    @pytest.fixture
    def storage(self, checking_s3: S3Server, signer: LocalSigner) -> ObjectStorage:
        return storage_of(checking_s3, signer)


def test_nothing_works_without_the_signature(checking_s3: S3Server, signer: LocalSigner, place: str) -> None:
    storage_of(checking_s3, signer).write_new(f"{place}/x", b"1")
    wrong = LocalSigner(signer.key, "a" * 40)
    for call in (
        lambda s: s.read(f"{place}/x"),
        lambda s: s.write_new(f"{place}/y", b"2"),
        lambda s: list(s.list(place)),
    ):
        with pytest.raises(StorageFailed, match="SignatureDoesNotMatch"):
            call(storage_of(checking_s3, wrong))


def test_the_key_is_nowhere_in_the_storage(checking_s3: S3Server, signer: LocalSigner) -> None:
    configuration = ObjectConfiguration.of({}, {}).with_signer(signer)
    assert signer.secret not in repr(configuration)
    sent = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(configuration)))).signer
    assert signer.secret not in repr(sent)
    assert sent.sign("GET", "http://x/a", {"host": "x"}, region="us-east-1").headers["Authorization"]


@pytest.mark.parametrize("fault", [SLOW_DOWN, ANSWER_500, LOSE_ANSWER])
@pytest.mark.parametrize("size", [10, 9 << 20])
def test_requests_that_fail_are_repeated_and_create_once(
    checking_s3: S3Server, signer: LocalSigner, place: str, fault: str, size: int
) -> None:
    storage = storage_of(checking_s3, signer, **{"s3.retry.num-retries": "3"})
    checking_s3.fail(fault, method="PUT")
    checking_s3.fail(fault, method="POST", skip=1)
    with storage.open_new(f"{place}/x") as file:
        file.write(b"a" * size)
    assert storage.size(f"{place}/x") == size
    assert storage.read(f"{place}/x") == b"a" * size
    with pytest.raises(AlreadyExists):
        storage.write_new(f"{place}/x", b"b")
    assert checking_s3.uploads() == 0


def test_an_upload_that_is_given_up_leaves_nothing(checking_s3: S3Server, signer: LocalSigner, place: str) -> None:
    storage = storage_of(checking_s3, signer)

    def give_up() -> None:
        with storage.open_new(f"{place}/x") as file:
            file.write(b"a" * (17 << 20))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        give_up()
    assert not storage.exists(f"{place}/x")
    assert checking_s3.uploads() == 0


def test_a_signature_for_another_address_is_not_used(checking_s3: S3Server, signer: LocalSigner, place: str) -> None:
    class Elsewhere(LocalSigner):
        def sign(self, *given: object, **how: object) -> SignedRequest:
            found = super().sign(*given, **how)  # type: ignore[arg-type]
            return replace(found, uri="http://127.0.0.1:1/stolen")

    with pytest.raises(Corrupt, match="another address"):
        storage_of(checking_s3, Elsewhere(signer.key, signer.secret)).write_new(f"{place}/x", b"1")
