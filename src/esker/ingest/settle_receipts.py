"""Receipts without a checkpoint of Esker: those of a Spark stream, marked by its query and epoch."""

from __future__ import annotations

import time
from pathlib import Path

from esker.errors import EskerError
from esker.ingest.account import Account
from esker.ingest.deliver import deliver
from esker.ingest.receipts import Receipt, Receipts
from esker.ingest.run_batches import Pending
from esker.lake import Lake

_MANY_PARTS = 500  # parts of batches that are not checked yet


def hand_over(lake: Lake, receipt: Receipt, account: Account, *, receipts: Receipts | None, counted: set[int]) -> None:
    """Make the commits of a receipt and remove it. Raises ``Pending`` if a commit fails. Its records are counted once,
    however often this is tried."""
    place = Path("the batch") if receipts is None else receipts.path(receipt.number)
    outcome = deliver(lake, receipt, place)
    if receipt.number not in counted:
        counted.add(receipt.number)
        account.count(receipt.counts)
    account.already_committed += len(outcome.found)
    account.conflicts += outcome.conflicts
    account.folded += outcome.folded
    account.expect(receipt.number, (*outcome.made, *outcome.found))
    account.pending = sum(delivery.rows for delivery, _ in outcome.failed)
    account.failures = [(delivery.table, error) for delivery, error in outcome.failed]
    if outcome.failed:
        raise Pending(account.failures)
    if receipts is not None:
        receipts.remove(receipt.number)
    counted.discard(receipt.number)
    account.batches += 1
    if account.unchecked >= _MANY_PARTS:  # a stream may run for months
        account.check(lake, receipt.application)


def settle_earlier(lake: Lake, receipts: Receipts, account: Account, *, before: int, counted: set[int]) -> None:
    """Make the commits that earlier batches left: a table that has a later batch would ignore them."""
    for receipt in receipts:
        if receipt.number < before:
            hand_over(lake, receipt, account, receipts=receipts, counted=counted)


def settle_all(lake: Lake, directory: Path) -> Account:
    """Make the commits of every receipt in a directory, in order, until one fails."""
    receipts = Receipts(directory)
    account = Account()
    began = time.monotonic()
    application = ""
    for receipt in receipts:
        application = receipt.application
        try:
            hand_over(lake, receipt, account, receipts=receipts, counted=set())
        except Pending:  # the account reports it
            break
    account.check(lake, application)
    account.seconds = time.monotonic() - began
    return account


def undelivered(application: str, number: int, pending: Pending, receipts: Receipts | None) -> EskerError:
    """The error that stops a query whose batch is not in all of its tables."""
    kept = "" if receipts is None else f" The receipt {receipts.path(number)} is kept: esker replay can do it too."
    return EskerError(
        f"cannot commit batch {number} of {application} to every table: {pending}. Nothing is lost: start the query "
        f"again, and the batch is finished first.{kept}",
        application=application,
        number=number,
    )
