"""Opening what must be a plain file, whatever stands under its name."""

from __future__ import annotations

import errno
import io
import os
import stat
from pathlib import Path

_KINDS = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def open_regular(path: str | os.PathLike[str]) -> io.FileIO:
    """Open a file for reading, unbuffered; never wait for a pipe, a socket or a device.

    Raises:
        OSError: there is no such file, it may not be read, or it is no regular file; ``strerror`` says which.
    """
    _check(path, Path(path).stat().st_mode)
    # it may have been replaced since: opening a pipe must not wait for its other end
    file = io.FileIO(os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)))
    try:
        _check(path, os.fstat(file.fileno()).st_mode)
    except BaseException:
        file.close()
        raise
    return file


def _check(path: str | os.PathLike[str], mode: int) -> None:
    if not stat.S_ISREG(mode):
        kind = _KINDS.get(stat.S_IFMT(mode), "a device")
        code = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
        raise OSError(code, f"{kind}, not a file", os.fspath(path))
