"""What can be wrong with a benchmark's data, for every benchmark, and with a model's server."""

from __future__ import annotations


class DataError(ValueError):
    """The data cannot be used; the text names the file, the record, the cause and the remedy."""


class NoDocs(DataError):
    """A task has no usable doc in this copy of the data."""


class BadAudio(ValueError):
    """A file that cannot be sent as audio; the text is the cause, in a few words."""


class ModelUnavailable(RuntimeError):
    """No answer at all, or not all that a task needs; the text names cause and remedy."""


class ServerUnusable(ValueError):
    """A server cannot be asked at all, as it is set; the text names cause and remedy."""
