"""The procedures that rewrite files without changing rows, with Iceberg's names, arguments, options and answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from esker.errors import InvalidInput, Unsupported
from esker.maintain.rewriting.plan_groups import ORDERS
from esker.spark.sql.procedures.call_arguments import Caller, Given, mapping_of, text_of
from esker.spark.sql.queries.query_frames import Answer

_DATA = (
    "rewritten_data_files_count int, added_data_files_count int, rewritten_bytes_count bigint, "
    "failed_data_files_count int, removed_delete_files_count int"
)
_MANIFESTS = "rewritten_manifests_count int, added_manifests_count int"
_DELETES = (
    "rewritten_delete_files_count int, added_delete_files_count int, rewritten_bytes_count bigint, "
    "added_bytes_count bigint"
)


def rewrite_data_files(given: Given, caller: Caller) -> Answer:
    """Compact data files. The defaults are Iceberg's: sorting rewrites only files of a bad size, too."""
    table = caller.table(given.need("table"))
    where, branch = given.get("where"), given.get("branch")
    named = dict(mapping_of("options", given.get("options")))
    _check_spec(named.pop("output-spec-id", None), table.spec.spec_id)
    options = _translated(named, _DATA_OPTIONS, "rewrite_data_files")
    strategy, sort_by = _strategy(given)
    report = table.compact(
        strategy,
        where=None if where is None else text_of("where", where),
        sort_by=sort_by,
        ref="main" if branch is None else text_of("branch", branch),
        **{"rewrite_all": False, "remove_dangling_deletes": False, **options},
    )
    failed = sum(len(one.group.files) for one in report.failed)
    removed = report.delete_files_removed
    return Answer(_DATA, [(report.files_rewritten, report.files_added, report.bytes_rewritten, failed, removed)])


def rewrite_manifests(given: Given, caller: Caller) -> Answer:
    """Rewrite the manifests of the current partition spec, or of another."""
    table = caller.table(given.need("table"))
    given.flag("use_caching")  # of Spark's frames, which this does not use
    spec_id = given.number("spec_id")
    named = given.get("sort_by")
    if isinstance(named, str):
        raise given.refused(f"takes an array of partition fields for sort_by, not {named!r}", "sort_by")
    report = table.rewrite_manifests(
        spec_id=table.spec.spec_id if spec_id is None else spec_id,
        sort_by=[text_of("sort_by", name) for name in named or ()],
        rewrite_all=bool(named),  # else manifests of a good number would stay in their order
    )
    return Answer(_MANIFESTS, [(report.rewritten, report.added)])


def rewrite_position_delete_files(given: Given, caller: Caller) -> Answer:
    """Rewrite position deletes of all partitions, or of those that may have a row of ``where``."""
    table = caller.table(given.need("table"))
    where = given.get("where")
    named = mapping_of("options", given.get("options"))
    options = _translated(named, _DELETE_OPTIONS, "rewrite_position_delete_files")
    report = table.rewrite_position_deletes(
        where=None if where is None else text_of("where", where), **{"min_input_files": 5, **options}
    )
    return Answer(_DELETES, [(report.rewritten, report.added, report.bytes_rewritten, report.bytes_added)])


# ---------------------------------------------------------------- strategy and sort order


def _strategy(given: Given) -> tuple[Any, list[str] | None]:
    """The strategy and the keys. A sort order ``zorder(a, b)`` is a z-order."""
    named = given.get("strategy")
    order = given.get("sort_order")
    word = "" if named is None else text_of("strategy", named).lower()
    if word not in ("", "binpack", "sort"):
        raise given.refused(f"takes binpack or sort for strategy, not {named!r}", "strategy")
    if order is None:
        return ("sort" if word == "sort" else "bin-pack"), None
    if word == "binpack":
        raise given.refused("takes a sort_order only with strategy sort", "sort_order")
    terms = _terms(text_of("sort_order", order))
    is_z_order = [term.lower().replace(" ", "").startswith("zorder(") for term in terms]
    if not any(is_z_order):
        return "sort", terms
    if not all(is_z_order):
        raise given.refused("takes a sort_order of columns or of zorder(…), not both", "sort_order")
    return "z-order", [name for term in terms for name in _terms(term[term.index("(") + 1 : term.rindex(")")])]


def _terms(text: str) -> list[str]:
    """The parts between commas that are in no parentheses and no quotes."""
    parts, depth, quoted = [""], 0, False
    for sign in text:
        quoted ^= sign == "`"
        depth += 0 if quoted else (sign == "(") - (sign == ")")
        if sign == "," and not depth and not quoted:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


# ---------------------------------------------------------------- options


def _whole(name: str, text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise InvalidInput(f"cannot use option {name} = {text!r}: it is a whole number", option=name)
    return int(text)


def _switch(name: str, text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise InvalidInput(f"cannot use option {name} = {text!r}: it is true or false", option=name)
    return text.lower() == "true"


def _ratio(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidInput(f"cannot use option {name} = {text!r}: it is a number", option=name) from None


def _job_order(name: str, text: str) -> str:
    if text.lower() not in ORDERS:
        raise InvalidInput(f"cannot use option {name} = {text!r}: it is one of {', '.join(ORDERS)}", option=name)
    return text.lower()


def _check_spec(text: str | None, current: int) -> None:
    """Raise ``Unsupported`` for a partition spec that is not the table's current one."""
    if text is not None and _whole("output-spec-id", text.strip()) != current:
        raise Unsupported(
            f"cannot call rewrite_data_files with option output-spec-id = {text.strip()}: new files have the table's "
            f"current partition spec, which is {current}; change the partitioning first",
            feature="output-spec-id",
        )


Parse = Callable[[str, str], Any]
_NO_EFFECT = ("", _ratio)

_DATA_OPTIONS: Mapping[str, tuple[str, Parse]] = {
    "target-file-size-bytes": ("target_file_size", _whole),
    "min-file-size-bytes": ("min_file_size", _whole),
    "max-file-size-bytes": ("max_file_size", _whole),
    "min-input-files": ("min_input_files", _whole),
    "delete-file-threshold": ("delete_file_threshold", _whole),
    "delete-ratio-threshold": ("delete_ratio", _ratio),
    "max-file-group-size-bytes": ("max_group_size", _whole),
    "max-file-group-input-files": ("max_group_files", _whole),
    "max-concurrent-file-group-rewrites": ("max_concurrent_groups", _whole),
    "max-files-to-rewrite": ("max_files", _whole),
    "rewrite-job-order": ("group_order", _job_order),
    "rewrite-all": ("rewrite_all", _switch),
    "partial-progress.enabled": ("partial_progress", _switch),
    "partial-progress.max-commits": ("max_commits", _whole),
    "use-starting-sequence-number": ("keep_sequence_number", _switch),
    "remove-dangling-deletes": ("remove_dangling_deletes", _switch),
    "partial-progress.max-failed-commits": _NO_EFFECT,
    "compression-factor": _NO_EFFECT,
    "shuffle-partitions-per-file": _NO_EFFECT,
    "max-output-partitions": _NO_EFFECT,
    "var-length-contribution": _NO_EFFECT,
    "max-output-size": _NO_EFFECT,
    "cache-delete-files": ("", _switch),
}
_DELETE_OPTIONS: Mapping[str, tuple[str, Parse]] = {
    "min-input-files": ("min_input_files", _whole),
    "rewrite-all": ("rewrite_all", _switch),
    "target-file-size-bytes": _NO_EFFECT,
    "min-file-size-bytes": _NO_EFFECT,
    "max-file-size-bytes": _NO_EFFECT,
    "max-file-group-size-bytes": _NO_EFFECT,
    "max-file-group-input-files": _NO_EFFECT,
    "max-concurrent-file-group-rewrites": _NO_EFFECT,
    "partial-progress.enabled": ("", _switch),  # all groups are one snapshot
    "partial-progress.max-commits": _NO_EFFECT,
    "rewrite-job-order": ("", _job_order),  # all groups are one snapshot, so their order cannot be observed
}


def _translated(options: Mapping[str, str], known: Mapping[str, tuple[str, Parse]], procedure: str) -> dict[str, Any]:
    """Iceberg's options as arguments of a table's method. Options without an effect are checked only."""
    found: dict[str, Any] = {}
    for name, text in options.items():
        if name not in known:
            raise InvalidInput(
                f"cannot call {procedure}: there is no option {name!r}; there are {', '.join(sorted(known))}",
                option=name,
            )
        argument, parse = known[name]
        value = parse(name, text.strip())
        if argument:
            found[argument] = value
    return found
