"""Spark Connect: takes over a writer's command, before it goes to the server, if the table is one of the lake's."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from esker.spark.attached.table_streams import redirected
from esker.spark.expressions.sql_text import expression_text

if TYPE_CHECKING:
    from esker.spark.attached.attach import Attachment

_KEPT = "_esker_session"


def listen(session: Any, attachment: Attachment) -> None:
    """Let the session's client execute commands about the lake's tables itself."""
    client = session._client
    kind: Any = type(client)
    client.__dict__[_KEPT] = (session, attachment, kind)
    client.__class__ = _listening(kind)


def stop_listening(session: Any) -> None:
    """Let the client send every command to the server again."""
    kept = session._client.__dict__.pop(_KEPT, None)
    if kept is not None:
        session._client.__class__ = kept[2]


@cache
def _listening(base: Any) -> Any:
    class AttachedClient(base):  # type: ignore[misc]
        def execute_command(self, command: Any, observations: Any = None) -> Any:
            session, attachment, _ = self.__dict__[_KEPT]
            if not attachment.is_busy and _done(command, session, attachment):
                from pyspark.sql.metrics import ExecutionInfo

                return None, {}, ExecutionInfo(None, [])
            if not attachment.is_busy and command.WhichOneof("command_type") == "write_stream_operation_start":
                write = command.write_stream_operation_start
                if write.WhichOneof("sink_destination") == "table_name" and attachment.writes.owns(write.table_name):
                    redirected(write, attachment, session)
            return super().execute_command(command, observations)

    return AttachedClient


def _done(command: Any, session: Any, attachment: Attachment) -> bool:
    """Execute the command if it is about a table of the lake. Returns whether it was."""
    match command.WhichOneof("command_type"):
        case "write_operation_v2":
            write = command.write_operation_v2
            if not attachment.writes.owns(write.table_name):
                return False
            _write_to(write, _frame(write.input, session), attachment)
            return True
        case "write_operation":
            write = command.write_operation
            if write.WhichOneof("save_type") != "table" or not attachment.writes.owns(write.table.table_name):
                return False
            _write(write, _frame(write.input, session), attachment)
            return True
    return False


def _write_to(write: Any, frame: Any, attachment: Attachment) -> None:
    from pyspark.sql.connect.proto import WriteOperationV2

    modes = WriteOperationV2.Mode
    how: dict[str, Any] = {
        "partition_by": [expression_text(one) for one in write.partitioning_columns],
        "properties": dict(write.table_properties),
    }
    to, name = attachment.writes, write.table_name
    match write.mode:
        case modes.MODE_APPEND:
            to.append(frame, name)
        case modes.MODE_OVERWRITE:
            to.overwrite(frame, name, expression_text(write.overwrite_condition))
        case modes.MODE_OVERWRITE_PARTITIONS:
            to.overwrite_partitions(frame, name)
        case modes.MODE_CREATE:
            to.create(frame, name, **how)
        case modes.MODE_REPLACE:
            to.create(frame, name, replaces=True, must_be_there=True, **how)
        case _:
            to.create(frame, name, replaces=True, **how)


def _write(write: Any, frame: Any, attachment: Attachment) -> None:
    from pyspark.sql.connect.proto import WriteOperation

    names = {
        WriteOperation.SAVE_MODE_APPEND: "append",
        WriteOperation.SAVE_MODE_OVERWRITE: "overwrite",
        WriteOperation.SAVE_MODE_IGNORE: "ignore",
    }
    mode = names.get(write.mode, "error")
    name, to = write.table.table_name, attachment.writes
    if write.table.save_method == WriteOperation.SaveTable.TABLE_SAVE_METHOD_INSERT_INTO:
        to.append(frame, name, by_name=False, overwrite=mode == "overwrite")
    else:
        to.save(
            frame,
            name,
            mode,
            partition_by=list(write.partitioning_columns),
            properties=dict(write.options),
        )


def _frame(relation: Any, session: Any) -> Any:
    """Return the rows of a command as a DataFrame."""
    from pyspark.sql.connect.dataframe import DataFrame
    from pyspark.sql.connect.plan import LogicalPlan

    class Given(LogicalPlan):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(None)

        def plan(self, session: Any) -> Any:
            return relation

    return DataFrame(Given(), session)
