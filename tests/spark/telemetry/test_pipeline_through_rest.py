"""A pipeline on Spark whose REST catalog loses answers: it waits and goes on, as it does without Spark."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from faulty_rest import Fault, faulty_rest
from outages import IMPATIENT
from pyspark.sql.datasource import DataSourceStreamReader
from telemetry_samples import span_names, spans, write

import esker

pytestmark = pytest.mark.skipif(
    not hasattr(DataSourceStreamReader, "getDefaultReadLimit"), reason="a pipeline needs Spark 4.2"
)


def test_a_catalog_that_dies_while_it_creates_a_table_or_commits_is_waited_for(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows whether the table was created. The next attempt finds it, and no row is lost or doubled."""
    monkeypatch.setattr("esker.catalogs.rest.service._WAIT_S", 0.001)
    write(tmp_path / "in", "a.jsonl", spans([0, 1]))
    (tmp_path / "warehouse").mkdir()
    troubles: list[str] = []
    with faulty_rest(str(tmp_path / "warehouse")) as server:
        lake = esker.connect(server.uri, allowed_roots=[server.warehouse], spark=spark)
        server.faults += [Fault(path="/tables", cut=True, applies=True), Fault(path="/tables/spans", cut=True)]
        query = esker.otlp.pipeline(
            spark,
            tmp_path / "in",
            lake,
            checkpoint=tmp_path / "checkpoint",
            processing_time="200 milliseconds",
            settle_s=0.0,
            properties=IMPATIENT,
            told_trouble=troubles.append,
        )
        try:
            while not (query.lastProgress and query.lastProgress.observedMetrics["esker"].committed):
                assert query.isActive, query.exception()
                query.awaitTermination(0.2)
        finally:
            query.end()
        account = query.account
        assert (account.received, account.holds, server.faults) == (2, True, [])
        assert "cannot tell whether the REST catalog" in troubles[0]
        assert span_names(lake) == Counter(["span 0", "span 1"])
