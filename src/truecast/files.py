"""Files that appear whole or not at all, wherever a person points: an archive, a command's output.

A leaf: imports nothing of truecast, torch or jax. A reader never meets half a file, and a failed write leaves what
stood there. What is no regular file (a device such as /dev/stdout, a pipe) is written to and never replaced, and a
link's target is written, not the link.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """The path of an empty file, whose contents are `path`'s once the block succeeds; it vanishes if not.

    Raises OSError for what the file system refuses, a directory in the place of the file too.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    special = path.exists() and not path.is_file()
    # /dev/stdout may lead to a pipe, which the system opens by that name and which has no other.
    target = path if special else Path(os.path.realpath(path))
    descriptor, name = tempfile.mkstemp(dir=None if special else target.parent, prefix=f".{target.name}-")
    os.close(descriptor)
    try:
        yield Path(name)
        if special:
            with open(name, "rb") as written, open(target, "wb") as device:
                shutil.copyfileobj(written, device)
        else:
            os.chmod(name, 0o666 & ~_umask())
            os.replace(name, target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
