"""A plan, told to a person: what each level of the tree dropped, and which term did it."""

from __future__ import annotations

from esker.model.bind import to_sql
from esker.model.predicate import TRUE
from esker.model.wording import show_bytes, show_ms
from esker.read.plan_tasks import Plan


def explain(plan: Plan) -> str:
    """The funnel from manifests to bytes, then each term with what it alone prunes."""
    funnel = plan.funnel
    lines = [
        _snapshot_line(plan),
        f"filter     {'none' if plan.filter == TRUE else to_sql(plan.filter, dict(plan.schema.name_by_id))}",
        f"manifests  {funnel.manifests_read:,} of {funnel.manifests_total:,} opened"
        f"{_share(funnel.manifests_read, funnel.manifests_total)}",
        f"files      {funnel.files_kept:,} of {funnel.files_total:,} to read"
        f"{_share(funnel.files_kept, funnel.files_total)}",
        f"rows       at most {funnel.rows_kept:,} in {show_bytes(funnel.bytes_kept)}",
    ]
    if funnel.deletes_kept:
        lines.append(f"deletes    {funnel.deletes_kept:,} delete files considered")
    if plan.effects:
        lines.append("terms      each alone would drop")
        names = dict(plan.schema.name_by_id)
        shown = [(to_sql(effect.term, names), effect) for effect in plan.effects]
        width = min(60, max(len(text) for text, _ in shown))
        lines.extend(
            f"  {text:<{width}}  {effect.manifests:,} manifests by partition, {effect.files:,} files by statistics"
            for text, effect in shown
        )
    return "\n".join(lines)


def _snapshot_line(plan: Plan) -> str:
    if plan.snapshot is None:
        return "snapshot   none: the table is empty"
    return f"snapshot   {plan.snapshot.snapshot_id} of {show_ms(plan.snapshot.timestamp_ms)}"


def _share(part: int, whole: int) -> str:
    return f" ({100 * (whole - part) / whole:.1f} % left out)" if whole else ""
