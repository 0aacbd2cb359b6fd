"""Where the tour keeps things, and the query over them that both of its drivers run."""

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
    """Folders of the tour."""

    folder: Path

    @property
    def catalog(self) -> str:
        """The lake's."""
        return f"sqlite:///{self.folder}/catalog.db"

    @property
    def incoming(self) -> Path:
        """Files are put here."""
        return self.folder / "incoming"

    @property
    def spool(self) -> Path:
        """What the receiver has answered for."""
        return self.folder / "spool"

    @property
    def checkpoint(self) -> Path:
        """What the pipeline has planned and done."""
        return self.folder / "ingest" / "otlp"


def service_days() -> Rollup:
    """What spans come to by day and service; the query keeps it up to date after each batch."""
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
    """The streaming query; ``told`` is called with the numbers of each batch."""
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
