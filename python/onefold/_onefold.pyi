"""The compiled part of the package. What is exported is documented where `onefold` exports it."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from os import PathLike
from typing import BinaryIO, final, overload

from onefold._buffers import Buffer

VERSION: str

@final
class CutPoints:
    """The ends of all chunks of an input, in bytes: a sequence, and a read-only buffer of u64 with
    one dimension. A slice of it is a memoryview of the same numbers."""

    def __len__(self) -> int: ...
    @overload
    def __getitem__(self, index: int, /) -> int: ...
    @overload
    def __getitem__(self, index: slice, /) -> memoryview: ...
    def __iter__(self) -> Iterator[int]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...
    def tolist(self) -> list[int]:
        """The numbers as a list."""

@final
class Fingerprints:
    """The fingerprints of many chunks: a sequence of bytes, and a read-only buffer of bytes with the
    shape (count, width). The width is 32, and 20 for SHA-1."""

    def __len__(self) -> int: ...
    def __getitem__(self, index: int, /) -> bytes: ...
    def __iter__(self) -> Iterator[bytes]: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class Device:
    """A GPU, called "cuda:N".

    Its methods take arrays in its memory: objects with `__cuda_array_interface__` or `__dlpack__`,
    whose elements are contiguous in C order. All work on the device is waited for, and nothing is copied
    to the host but cut-points and fingerprints, which are those of the CPU.

    Raises ValueError for another name, and RuntimeError for a device that cannot be used, or fails."""

    def __new__(cls, name: str = "cuda:0") -> Device: ...
    def cut(self, array: object, chunker: Chunker) -> CutPoints:
        """The cut-points of `array`, a whole input; the last is its length in bytes."""
    def cut_and_fingerprint(
        self,
        array: object,
        chunker: Chunker,
        *,
        algorithm: str = "blake3",
        key: Buffer | None = None,
    ) -> tuple[CutPoints, Fingerprints]:
        """The cut-points of `array`, and the fingerprint of each chunk. `algorithm` is blake3,
        blake3-keyed (which takes a `key` of 32 bytes), sha256 or sha3-256."""

@final
class Chunk:
    """A chunk of a stream."""

    @property
    def offset(self) -> int:
        """Where it begins in the stream, in bytes."""
    @property
    def end(self) -> int:
        """Its cut-point: the offset just after its last byte."""
    @property
    def data(self) -> bytes:
        """Its bytes."""
    def __len__(self) -> int: ...

@final
class ChunkStream:
    """An iterator over the chunks of a file object, for one thread at a time."""

    def __iter__(self) -> ChunkStream: ...
    def __next__(self) -> Chunk: ...

@final
class RapidCounters:
    """What `Chunker.cut_rapid` took for an input."""

    @property
    def hits(self) -> int:
        """Chunks that ended where a hint said."""
    @property
    def misses(self) -> int:
        """Chunks for which there were hints and none was accepted."""
    @property
    def refused(self) -> int:
        """Hints that were tried and not accepted."""
    @property
    def forwarded_bytes(self) -> int:
        """Bytes of the chunks that ended where a hint said, in which no cut-point was sought."""
    @property
    def scanned_bytes(self) -> int:
        """Bytes of all other chunks."""

@final
class Hints:
    """Which chunk followed which, for `Chunker.cut_rapid`: in memory, about 64 bytes for each
    different chunk, and never less.

    They belong to the parameters of the first chunker that uses them; others raise ValueError. Many
    threads may share them. `most` next chunks are kept for each chunk, at most 16.
    """

    def __new__(
        cls, *, fingerprint: str = "blake3", key: Buffer | None = None, most: int = 2
    ) -> Hints: ...
    def __len__(self) -> int: ...

@final
class Chunker:
    """Finds cut-points. Keeps no state between calls, so that threads may share it.

    `algorithm` is an algorithm or a preset of `algorithms()`. Sizes are in bytes: `avg` is the mean
    that is aimed at on random data (16 KiB, or the preset's own), `min` and `max` bound all chunks
    but the last, which may be shorter. What is left out is as suits the algorithm.

    `window`, `level` and `seed` are refused where they would change nothing; of restic, `seed` is
    the polynomial. `secret`, 32 random bytes, keys the algorithm; docs/keyed-chunking.md says what
    that protects. `divisors` are the pairs of bytes that bfbc cuts at, in a row. `kernel` is one of
    `kernels(algorithm)`, or "auto" for the fastest; all cut alike.

    Raises ValueError for anything that the algorithm cannot have.
    """

    def __new__(
        cls,
        algorithm: str = "mincdc",
        *,
        avg: int | None = None,
        min: int | None = None,
        max: int | None = None,
        window: int | None = None,
        level: int | None = None,
        seed: int | None = None,
        secret: Buffer | None = None,
        divisors: Buffer | None = None,
        kernel: str = "auto",
    ) -> Chunker: ...
    def cut(self, buffer: Buffer, *, threads: int = 1) -> CutPoints:
        """The cut-points of `buffer`, a whole input; the last is its length in bytes."""
    def cut_file(self, path: str | PathLike[str]) -> CutPoints:
        """The cut-points of the file at `path`, read in pieces. Raises OSError."""
    def cut_stream(self, file: BinaryIO) -> ChunkStream:
        """An iterator over the chunks of `file`, in bounded memory."""
    def cut_rapid(
        self, buffer: Buffer, hints: Hints, *, criterion: str = "fingerprint"
    ) -> tuple[CutPoints, RapidCounters]:
        """The cut-points of `buffer` by RapidCDC: known chunks are jumped over.

        With the criteria "fingerprint" and "marker-fingerprint" the cut-points are those of `cut`.
        With "forward", "window" and "marker" they depend on what was cut with `hints` before, and
        are found faster.
        """
    def next_cut(self, buffer: Buffer) -> int | None:
        """The length of the next chunk of `buffer`, which may go on, or None if that depends on the
        bytes after it; then `buffer` is shorter than `max`."""
    def last_cut(self, buffer: Buffer) -> int | None:
        """The length of the next chunk of `buffer`, which ends the input; None if it is empty."""
    @property
    def algorithm(self) -> str: ...
    @property
    def min(self) -> int: ...
    @property
    def avg(self) -> int: ...
    @property
    def max(self) -> int: ...
    @property
    def window(self) -> int: ...
    @property
    def level(self) -> int: ...
    @property
    def seed(self) -> int: ...
    @property
    def is_keyed(self) -> bool:
        """Whether there is a secret."""
    @property
    def kernel(self) -> str:
        """The kernel at work, never "auto"."""
    @property
    def lookahead(self) -> int:
        """Bytes after a chunk on which its end depends, at most."""

def algorithms() -> list[tuple[str, str, bool]]: ...
def kernels(algorithm: str) -> list[str]:
    """The kernels that run `algorithm` on this CPU, the fastest first. Raises ValueError for an
    unknown name."""

def fingerprint(
    buffer: Buffer, *, algorithm: str = "blake3", key: Buffer | None = None
) -> bytes:
    """The fingerprint of one chunk: 32 bytes, and 20 for SHA-1.

    `algorithm` is blake3, blake3-keyed (which takes a `key` of 32 bytes), sha256, sha3-256 or sha1.
    Raises ValueError for another one, or a key of another length.
    """

def fingerprint_many(
    buffers: Iterable[Buffer], *, algorithm: str = "blake3", key: Buffer | None = None
) -> Fingerprints:
    """The fingerprints of many chunks, in their order. Short chunks are hashed together, several
    times as fast as one at a time."""

def fingerprint_chunks(
    buffer: Buffer,
    cut_points: CutPoints | Iterable[int],
    *,
    algorithm: str = "blake3",
    key: Buffer | None = None,
) -> Fingerprints:
    """The fingerprints of the chunks of `buffer` that end at `cut_points`.

    Raises ValueError for a cut-point before the one that it follows, or after the end of `buffer`.
    """

class RepositoryError(Exception):
    """A repository cannot do what was asked. What is missing is a FileNotFoundError, a wrong or
    missing password a PermissionError instead."""

class RepositoryWarning(UserWarning):
    """Something is wrong with a repository, but did not stop the operation: a file that could not be
    read, a damaged object, or a repository that is not as this client saw it last."""

@final
class Snapshot:
    """What the sources of a backup looked like at one moment."""

    @property
    def id(self) -> str:
        """32 hexadecimal digits."""
    @property
    def time(self) -> datetime:
        """When the backup began, in UTC."""
    @property
    def host(self) -> str: ...
    @property
    def user(self) -> str: ...
    @property
    def tags(self) -> list[str]: ...
    @property
    def paths(self) -> list[str]:
        """The sources, absolute."""
    @property
    def parent(self) -> str | None:
        """The id of the snapshot by which unchanged files were recognised."""
    @property
    def files(self) -> int: ...
    @property
    def directories(self) -> int: ...
    @property
    def bytes(self) -> int:
        """Bytes of all files, holes left out."""
    @property
    def unchanged_files(self) -> int:
        """Files that were not read, since the parent has them."""
    @property
    def new_bytes(self) -> int:
        """Bytes of chunks that were new."""
    @property
    def stored_bytes(self) -> int:
        """Bytes that these take in the repository."""
    @property
    def unreadable(self) -> int:
        """What could not be read, and is missing."""
    @property
    def issues(self) -> list[str]:
        """What went wrong while it was made, if `backup` returned it; else nothing."""

@final
class Entry:
    """What a name in a snapshot stands for."""

    @property
    def name(self) -> str:
        """The last component of the path; empty for the root."""
    @property
    def path(self) -> str:
        """The path in the snapshot, without a slash before it."""
    @property
    def kind(self) -> str:
        """file, directory, symlink, fifo, socket, char-device or block-device."""
    @property
    def size(self) -> int:
        """Length of a file in bytes, 0 for anything else."""
    @property
    def mode(self) -> int:
        """Permission, set-id and sticky bits."""
    @property
    def uid(self) -> int: ...
    @property
    def gid(self) -> int: ...
    @property
    def links(self) -> int: ...
    @property
    def mtime(self) -> datetime:
        """Last change of content, in UTC, to the microsecond."""
    @property
    def mtime_ns(self) -> int:
        """The same in nanoseconds since 1970."""
    @property
    def target(self) -> str | None:
        """Where a symbolic link points."""
    @property
    def is_file(self) -> bool: ...
    @property
    def is_directory(self) -> bool: ...

@final
class FileContent:
    @property
    def size(self) -> int: ...
    def read_at(self, offset: int, len: int) -> bytes: ...

@final
class RepositoryCore:
    @staticmethod
    def open(
        location: str | PathLike[str],
        *,
        password: bytes | None,
        host: str,
        user: str,
        state_dir: str | PathLike[str] | None,
        cache_dir: str | PathLike[str] | None,
        use_cache: bool,
        accept: str | None,
        endpoint: str | None,
    ) -> RepositoryCore: ...
    @staticmethod
    def init(
        location: str | PathLike[str],
        *,
        chunker: Chunker | None,
        encrypt: bool,
        padding: bool,
        password: bytes | None,
        host: str,
        user: str,
        state_dir: str | PathLike[str] | None,
        cache_dir: str | PathLike[str] | None,
        use_cache: bool,
        endpoint: str | None,
    ) -> RepositoryCore: ...
    @property
    def id(self) -> str: ...
    @property
    def location(self) -> str: ...
    @property
    def is_encrypted(self) -> bool: ...
    def backup(
        self,
        paths: list[str | PathLike[str]],
        *,
        host: str,
        user: str,
        tags: list[str],
        excludes: list[str],
        devices: list[str | PathLike[str]],
        one_file_system: bool,
        full_paths: bool,
        ignore_files: bool,
        force: bool,
        threads: int | None,
    ) -> Snapshot: ...
    def snapshots(self) -> list[Snapshot]: ...
    def snapshot(self, spec: str) -> Snapshot: ...
    def stat(self, snapshot: Snapshot, path: str | PathLike[str]) -> Entry: ...
    def ls(self, snapshot: Snapshot, path: str | PathLike[str]) -> list[Entry]: ...
    def content(self, snapshot: Snapshot, path: str | PathLike[str]) -> FileContent: ...
