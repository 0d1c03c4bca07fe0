"""A file that isn't one on the disk, and that `zipfile` reads anywhere in it."""

from __future__ import annotations

import errno
import io


class ReadAnywhere(io.RawIOBase):
    """A file of `total` bytes with a place in it; what reads there is the subclass's. Seeking to before its start
    raises OSError."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._at = 0

    def seekable(self) -> bool:
        return True

    def readable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        at = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self.total}[whence] + offset
        if at < 0:  # as the system says it of a file; zipfile expects that
            raise OSError(errno.EINVAL, "a place before the file's start")
        self._at = at
        return at
