"""The audio parts of a chat message: found, read and decoded, or refused with a reason."""

from __future__ import annotations

import base64
import binascii
import io
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse
from urllib.request import url2pathname

import numpy as np
import soundfile as sf

FORMATS = {"wav": {"WAV", "WAVEX", "RF64"}, "mp3": {"MP3"}, "flac": {"FLAC"}, "ogg": {"OGG"}}
"""Values of ``input_audio.format`` and what libsndfile calls the content."""


class BadRequestError(Exception):
    """A request that the server answers with HTTP 400; its text is the error's message."""


def text_of(content: Any) -> str:
    """The text of a message's content, a string or a list of parts."""
    if content is None or isinstance(content, str):
        return content or ""
    return "\n".join(str(part.get("text", "")) for part in parts(content) if part.get("type") == "text")


def parts(content: Any) -> list[dict[str, Any]]:
    """The parts of a message's content; a plain string has none."""
    if content is None or isinstance(content, str):
        return []
    if not isinstance(content, list) or not all(isinstance(part, dict) for part in content):
        raise BadRequestError("message content must be a string or a list of parts")
    return content


def audio_parts(content: Any) -> list[dict[str, Any]]:
    """The audio parts of a message's content, in their order."""
    found = []
    for part in parts(content):
        if part.get("type") in ("input_audio", "audio_url"):
            found.append(part)
        elif part.get("type") != "text":
            raise BadRequestError(f"a part of type {part.get('type')!r} is unknown: text, input_audio or audio_url")
    return found


def load(part: dict[str, Any], allowed: Path | None) -> tuple[np.ndarray, int]:
    """Decode one audio part.

    Args:
        part: an ``input_audio`` part (base64, or a data URI) or an ``audio_url`` part (a data URI or a file URL).
        allowed: the folder below which file URLs are read; None refuses them all.

    Returns:
        Samples (frames, channels) in -1 to 1, and the rate in Hz.

    Raises:
        BadRequestError: the part is malformed, points elsewhere, or does not hold audio that can be decoded.
    """
    inner = part.get(part["type"])
    key = "data" if part["type"] == "input_audio" else "url"
    if not isinstance(inner, dict) or not isinstance(inner.get(key), str):
        raise BadRequestError(f"a part of type {part['type']} needs an object {part['type']} with the text {key}")
    source = inner[key]
    if part["type"] == "audio_url":
        return decode(read_url(source, allowed))
    stated = inner.get("format")
    if stated not in FORMATS:
        raise BadRequestError(f"input_audio.format is {stated!r}; it must be one of {', '.join(FORMATS)}")
    return decode(read_data_uri(source) if source.startswith("data:") else from_base64(source), FORMATS[stated])


def read_url(url: str, allowed: Path | None) -> bytes:
    """The bytes behind a data URI, or behind a file URL below ``allowed``."""
    if url.startswith("data:"):
        return read_data_uri(url)
    address = urlparse(url)
    if address.scheme != "file":
        raise BadRequestError("audio_url must be a data URI or a file URL: this server fetches nothing")
    if allowed is None:
        raise BadRequestError("file URLs are off: start the server with --allow-files FOLDER")
    path = Path(url2pathname(unquote(address.path) if "%" in address.path else address.path)).resolve()
    if address.netloc not in ("", "localhost") or not path.is_relative_to(allowed.resolve()):
        raise BadRequestError("the file URL lies outside the folder given by --allow-files")
    try:
        return path.read_bytes()
    except OSError as error:
        raise BadRequestError(f"the file URL can't be read: {error.strerror}") from error


def read_data_uri(uri: str) -> bytes:
    """The bytes of ``data:audio/wav;base64,...``."""
    head, comma, data = uri.partition(",")
    if not comma or not head.endswith(";base64"):
        raise BadRequestError("a data URI of audio must read data:TYPE;base64,DATA")
    return from_base64(data)


def from_base64(text: str) -> bytes:
    """Strictly decoded base64."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise BadRequestError(f"the audio is not base64: {error}") from error


def decode(raw: bytes, expected: set[str] | None = None) -> tuple[np.ndarray, int]:
    """Samples and rate of a file's bytes; ``expected`` names the container formats that were announced."""
    try:
        with sf.SoundFile(io.BytesIO(raw)) as file:
            container, rate = file.format, file.samplerate
            samples = file.read(dtype="float64", always_2d=True)
    except (sf.SoundFileError, RuntimeError, TypeError, ValueError) as error:
        raise BadRequestError(f"the audio ({len(raw)} bytes) can't be decoded: {error}") from error
    if expected and container not in expected:
        raise BadRequestError(f"the audio is {container}, which is not the format that was stated")
    if not len(samples):
        raise BadRequestError("the audio holds no samples")
    return samples, rate
