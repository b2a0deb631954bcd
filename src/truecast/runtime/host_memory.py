"""Memory that XLA:CPU gives back stays with the process, for the next program.

XLA:CPU takes the working memory of a program from malloc at each run and gives it back after it. glibc hands blocks of
that size to the kernel and back, which clears every page anew: 85,000 page faults and 160 ms of the 1,500 ms of a
training step of 21 M parameters (two cores). What an accelerator's allocator keeps, this keeps for the CPU.
"""

from __future__ import annotations

import ctypes
import functools
import sys

# mallopt's parameters (malloc.h): glibc's alone.
_TRIM_THRESHOLD, _MMAP_MAX, _ARENA_MAX = -1, -4, -8


@functools.cache
def keep_freed_memory() -> bool:
    """Whether it could be arranged: with glibc. For the whole process, from now on.

    No block comes from a mapping of its own, none is given back from the heap's end, and there is one heap: those that
    glibc makes for other threads are too small for such blocks.
    """
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    settings = ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, 2**31 - 1), (_ARENA_MAX, 1))
    return all(mallopt(parameter, value) == 1 for parameter, value in settings)
