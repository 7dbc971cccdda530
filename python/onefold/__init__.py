"""Content-defined chunking at memory speed, fingerprints, and deduplicated repositories.

>>> import onefold
>>> data = bytes(100_000)
>>> cuts = onefold.cut(data, avg=8192)
>>> cuts[-1] == len(data)
True
>>> names = onefold.fingerprint_chunks(data, cuts)
>>> len(names) == len(cuts)
True

A *cut-point* is the offset just after the last byte of a chunk. Cut-points depend on the bytes and the
parameters only: not on the machine, the version, the kernel, the threads, or the sizes of reads.

Every function takes any contiguous buffer (bytes, bytearray, memoryview, mmap, numpy, pyarrow) without
a copy, and computes without the interpreter's lock. While it does, Python refuses to resize the
buffer; a thread that changes its bytes gets cut-points of neither the old bytes nor the new.
"""

from collections.abc import Iterable, Iterator
from os import PathLike
from typing import BinaryIO, NamedTuple

from onefold import _onefold
from onefold._buffers import Buffer
from onefold._onefold import (
    Chunk,
    Chunker,
    ChunkStream,
    CutPoints,
    Fingerprints,
    Hints,
    RapidCounters,
    fingerprint,
    fingerprint_chunks,
    fingerprint_many,
    kernels,
)

__version__ = _onefold.VERSION

__all__ = [
    "Algorithm",
    "Chunk",
    "ChunkStream",
    "Chunker",
    "CutPoints",
    "Fingerprints",
    "Hints",
    "RapidCounters",
    "algorithms",
    "chunks",
    "cut",
    "cut_file",
    "cut_stream",
    "fingerprint",
    "fingerprint_chunks",
    "fingerprint_many",
    "kernels",
]

# A build without the feature `gpu` has no devices.
if hasattr(_onefold, "Device"):
    from onefold._onefold import Device

    __all__ += ["Device"]

# A build without the feature `repository` has chunkers and fingerprints only.
if hasattr(_onefold, "RepositoryCore"):
    from onefold._onefold import Entry, RepositoryError, RepositoryWarning, Snapshot
    from onefold._repository import Repository, SnapshotFile

    __all__ += [
        "Entry",
        "Repository",
        "RepositoryError",
        "RepositoryWarning",
        "Snapshot",
        "SnapshotFile",
    ]


class Algorithm(NamedTuple):
    """A way to cut that `Chunker` takes by its name."""

    name: str
    summary: str
    #: Whether it cuts as another tool does, on every input.
    is_preset: bool


def algorithms() -> list[Algorithm]:
    """Every algorithm, then every preset of another tool."""
    return [Algorithm(*one) for one in _onefold.algorithms()]


def cut(buffer: Buffer, algorithm: str = "mincdc", *, threads: int = 1, **parameters) -> CutPoints:
    """The cut-points of `buffer`, a whole input: an array of u64, the last the length in bytes.

    `numpy.asarray` makes a view of the result, without a copy. `threads` cut large inputs together,
    at the same cut-points. `parameters` are those of `Chunker`, which is what to keep where many
    inputs are cut alike.

    Raises ValueError for parameters that the algorithm cannot have, TypeError for an object without
    a buffer, BufferError for a buffer that is not contiguous.
    """
    return Chunker(algorithm, **parameters).cut(buffer, threads=threads)


def cut_file(path: str | PathLike[str], algorithm: str = "mincdc", **parameters) -> CutPoints:
    """The cut-points of the file at `path`, which is read in pieces of bounded size.

    Raises OSError if it cannot be read, and ValueError as `cut` does.
    """
    return Chunker(algorithm, **parameters).cut_file(path)


def cut_stream(file: BinaryIO, algorithm: str = "mincdc", **parameters) -> ChunkStream:
    """An iterator over the chunks of `file`, any object whose `read(n)` returns at most n bytes.

    Yields `Chunk`, whose `data` are its bytes and whose `offset` is where they begin. Holds at most
    two of the longest chunks, or one and 256 KiB. An exception of `read` is raised as it is, and
    nothing is lost: the next step goes on with the file.
    """
    return Chunker(algorithm, **parameters).cut_stream(file)


def chunks(buffer: Buffer, cut_points: Iterable[int]) -> Iterator[memoryview]:
    """The chunks of `buffer` that end at `cut_points`, as views of its bytes.

    Raises ValueError for a cut-point before the one that it follows, or after the end of `buffer`.
    """
    view = memoryview(buffer).cast("B")
    start = 0
    for end in cut_points:
        if not start <= end <= len(view):
            raise ValueError(f"cut-point {end}, expected one from {start} to {len(view)}")
        yield view[start:end]
        start = end
