"""What can be wrong with a benchmark's data, for every benchmark."""

from __future__ import annotations


class DataError(ValueError):
    """The data cannot be used; the text names the file, the record, the cause and the remedy."""


class NoDocs(DataError):
    """A task has no usable doc in this copy of the data."""
