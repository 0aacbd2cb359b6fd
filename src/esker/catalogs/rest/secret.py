"""A text that is never shown."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Secret:
    """A token, a key or a password. ``str``, ``repr`` and ``format`` show stars; ``reveal`` gives the text."""

    _text: str = field(repr=False)

    def reveal(self) -> str:
        """The text itself, for the one place that sends it."""
        return self._text

    def __repr__(self) -> str:
        return "Secret(***)"

    def __str__(self) -> str:
        return "***"


def without(text: str, *secrets: Secret | None) -> str:
    """The text with every secret replaced by stars: servers have been seen to quote what was sent to them."""
    for secret in secrets:
        if secret is not None and secret.reveal():
            text = text.replace(secret.reveal(), "***")
    return text
