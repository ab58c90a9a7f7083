"""Kinds of audio files, and WAV files made by hand."""

from __future__ import annotations

import struct

GOOD = {
    "16-bit": {"subtype": "PCM_16"},
    "24-bit": {"subtype": "PCM_24"},
    "8-bit": {"subtype": "PCM_U8"},
    "float": {"subtype": "FLOAT"},
    "mu-law": {"subtype": "ULAW"},
    "RF64": {"format": "RF64"},
    "extensible": {"format": "WAVEX"},
    "big-endian": {"endian": "BIG"},
    "MP3": {"format": "MP3", "rate": 16000},
    "FLAC": {"format": "FLAC"},
    "Ogg": {"format": "OGG"},
    "GSM": {"subtype": "GSM610"},  # which can't be sought in
}


def chunk(name, content):
    return name + struct.pack("<I", len(content)) + content + b"\0" * (len(content) % 2)


def wav(*extra, data=b"\1\0" * 4000, claimed=None):
    head = chunk(b"fmt ", struct.pack("<HHIIHH", 1, 1, 8000, 16000, 2, 16))
    body = head + b"".join(extra) + b"data" + struct.pack("<I", len(data) if claimed is None else claimed) + data
    return b"RIFF" + struct.pack("<I", 4 + len(body)) + b"WAVE" + body
