"""API keys that this process knows, kept out of whatever is written or shown."""

from __future__ import annotations

_LEAST = 8
"""A shorter key is not looked for: it would be found in ordinary text."""

_known: set[str] = set()


def know(*keys: str | None) -> None:
    """Remember keys, so that ``without_keys`` finds them."""
    _known.update(key for key in keys if key and len(key) >= _LEAST)


def without_keys(text: str) -> str:
    """The text with ``[key]`` for each known key; for a server's words, never for a reply that is still to be read."""
    for key in _known:
        text = text.replace(key, "[key]")
    return text
