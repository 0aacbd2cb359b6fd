"""The folders of the tour, and the query that both of its drivers run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from esker.ingest.pipeline.rollups import Rollup
    from esker.ingest.spark.pipeline_query import PipelineQuery
    from esker.lake import Lake

FILES_A_BATCH = 8
SERVICE_DAYS = "otel.service_days"


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of the tour."""

    folder: Path
    catalog: str  # the address of the lake's catalog

    @classmethod
    def with_sqlite(cls, folder: Path) -> Places:
        """The folders of a tour whose catalog is a file in one of them."""
        return cls(folder, f"sqlite:///{folder}/catalog.db")

    @property
    def incoming(self) -> Path:
        """The input directory."""
        return self.folder / "incoming"

    @property
    def spool(self) -> Path:
        """The spool of the receiver."""
        return self.folder / "spool"

    @property
    def checkpoint(self) -> Path:
        """The checkpoint of the pipeline."""
        return self.folder / "ingest" / "otlp"


def service_days() -> Rollup:
    """Totals of spans by day and service. The query updates them after each batch."""
    from esker import otlp

    return otlp.Rollup(
        name=SERVICE_DAYS,
        source="otel.spans",
        every="day",
        keys={"ServiceName": "ServiceName"},
        sums={"Requests": "1", "Errors": "CASE WHEN StatusCode = 'STATUS_CODE_ERROR' THEN 1 ELSE 0 END"},
        maxima={"DurationMax": "Duration"},
    )


def start_query(places: Places, lake: Lake, told: Callable[[dict[str, Any]], None], **trigger: Any) -> PipelineQuery:
    """Start the streaming query. It calls ``told`` with the numbers of each batch."""
    from esker import otlp

    def tell(progress: Any) -> None:
        numbers = progress.observedMetrics["esker"].asDict()
        if numbers["received"]:
            told({"number": progress.batchId, **numbers})

    return otlp.pipeline(
        lake.spark,
        [places.incoming, places.spool],
        lake,
        checkpoint=places.checkpoint,
        settle_s=0,
        max_files_per_trigger=FILES_A_BATCH,
        listener=otlp.PipelineListener(tell),
        rollups=[service_days()],
        **trigger,
    )
