"""Repositories: what a backup leaves behind, and reading it in place."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable
from os import PathLike
from typing import Self

from onefold._onefold import Chunker, Entry, FileContent, RepositoryCore, Snapshot

__all__ = ["Repository", "SnapshotFile"]

Path = str | PathLike[str]


class Repository:
    """A repository of deduplicated backups: a directory, or a place that the command
    `onefold` takes: `s3://BUCKET/PREFIX`, `az://…`, `gs://…`, `sftp:USER@HOST:/PATH`.

    Made by `Repository.open` or `Repository.init`. Threads may share it. It keeps an index, copies of
    remote objects and what it saw of the repository in the same folders as the command `onefold`.

    A path is written as the command writes it, `SNAPSHOT:PATH`, where SNAPSHOT is "latest" or the
    first digits of an id: `latest:home/ann/notes.txt`.
    """

    def __init__(self, core: RepositoryCore) -> None:
        self._core = core
        # A snapshot never changes, so one that was found by its full id is kept.
        self._found: dict[str, Snapshot] = {}

    @classmethod
    def open(
        cls,
        location: Path,
        password: str | bytes | None = None,
        *,
        state_dir: Path | None = None,
        cache_dir: Path | None = None,
        use_cache: bool = True,
        accept_repository: str | None = None,
        endpoint: str | None = None,
    ) -> Self:
        """Opens the repository in `location`.

        `endpoint` is the URL of an S3 service other than Amazon's; credentials come from the
        environment, as Amazon's tools have them. `accept_repository` is the full id of a repository
        that is accepted although this client used others at the location.

        Raises FileNotFoundError if there is no repository, PermissionError if the password is
        missing, wrong or not needed, ValueError for a location of an unknown kind, and
        RepositoryError otherwise. Warns with RepositoryWarning of what is wrong, but bearable.
        """
        return cls(
            RepositoryCore.open(
                location,
                password=_bytes(password),
                accept=accept_repository,
                **_here(state_dir, cache_dir, use_cache, endpoint),
            )
        )

    @classmethod
    def init(
        cls,
        location: Path,
        password: str | bytes | None = None,
        *,
        encrypt: bool = True,
        padding: bool = False,
        chunker: Chunker | None = None,
        state_dir: Path | None = None,
        cache_dir: Path | None = None,
        use_cache: bool = True,
        endpoint: str | None = None,
    ) -> Self:
        """Makes a repository in `location`, and the directory if it does not exist.

        Without a `password` nobody can open an encrypted repository again, you included.
        `chunker` decides for good how data are cut; without one, MinCDC around 16 KiB.

        Raises FileExistsError if `location` holds a repository or part of one, PermissionError if
        `password` and `encrypt` contradict each other, and RepositoryError otherwise.
        """
        return cls(
            RepositoryCore.init(
                location,
                chunker=chunker,
                encrypt=encrypt,
                padding=padding,
                password=_bytes(password),
                **_here(state_dir, cache_dir, use_cache, endpoint),
            )
        )

    @property
    def id(self) -> str:
        """Which repository it is: 32 hexadecimal digits."""
        return self._core.id

    @property
    def location(self) -> str:
        """Where it is."""
        return self._core.location

    @property
    def is_encrypted(self) -> bool:
        """Whether it takes a password to open it."""
        return self._core.is_encrypted

    def backup(
        self,
        paths: Path | Iterable[Path] = (),
        *,
        tags: Iterable[str] = (),
        excludes: Iterable[str] = (),
        devices: Iterable[Path] = (),
        host: str | None = None,
        one_file_system: bool = False,
        full_paths: bool = False,
        ignore_files: bool = False,
        force: bool = False,
        threads: int | None = None,
    ) -> Snapshot:
        """Backs up `paths` and returns the snapshot, which is durable then.

        A single directory becomes the root of the snapshot; several paths become its entries. Files
        that look as in the last snapshot of the same host and paths are not read, unless `force`.
        `excludes` are patterns of gitignore.

        What cannot be read is left out, counted in `unreadable`, named in `issues`, and warned of
        with RepositoryWarning. An interrupt ends the backup without a snapshot; what was stored
        stays, and the next backup reuses it. Raises RepositoryError if there is no snapshot.
        """
        return self._core.backup(
            [paths] if isinstance(paths, str | PathLike) else list(paths),
            host=_host() if host is None else host,
            user=_user(),
            tags=list(tags),
            excludes=list(excludes),
            devices=list(devices),
            one_file_system=one_file_system,
            full_paths=full_paths,
            ignore_files=ignore_files,
            force=force,
            threads=threads,
        )

    def snapshots(self) -> list[Snapshot]:
        """All snapshots, the oldest first. Warns of those that cannot be read."""
        return self._core.snapshots()

    def snapshot(self, spec: str = "latest") -> Snapshot:
        """The snapshot that `spec` names: "latest", or the first digits of its id.

        Raises FileNotFoundError if there is none, or more than one.
        """
        found = self._found.get(spec)
        if found is None:
            found = self._core.snapshot(spec)
            if spec == found.id:
                self._found[spec] = found
        return found

    def stat(self, path: str) -> Entry:
        """What `path` stands for. Raises FileNotFoundError if there is nothing."""
        snapshot, below = self._split(path)
        return self._core.stat(snapshot, below)

    def ls(self, path: str = "latest") -> list[Entry]:
        """What the directory `path` holds, by name; not what its directories hold.

        Raises FileNotFoundError if there is nothing, NotADirectoryError if it is something else.
        """
        snapshot, below = self._split(path)
        return self._core.ls(snapshot, below)

    def read(self, path: str, *, buffering: int = 256 << 10) -> io.BufferedReader | SnapshotFile:
        """The file `path`, opened for reading bytes: it can seek, and no byte is fetched before it
        is read. `buffering` is in bytes; 0 for a file without a buffer.

        Raises FileNotFoundError if there is nothing, IsADirectoryError if it is no file.
        """
        snapshot, below = self._split(path)
        file = SnapshotFile(self._core.content(snapshot, below), path)
        return io.BufferedReader(file, buffering) if buffering else file

    def _split(self, path: str) -> tuple[Snapshot, str]:
        spec, _, below = path.partition(":")
        return self.snapshot(spec), below

    def __repr__(self) -> str:
        return f"<onefold.Repository {self.id} in '{self.location}'>"


class SnapshotFile(io.RawIOBase):
    """A file in a snapshot, read in place. Many may be open at once."""

    def __init__(self, content: FileContent, name: str) -> None:
        super().__init__()
        self._content = content
        self._at = 0
        self.name = name
        self.mode = "rb"

    @property
    def size(self) -> int:
        """Length in bytes."""
        return self._content.size

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer) -> int:
        """Fills `buffer` with the next bytes, less only at the end; returns how many they are."""
        self._check()
        view = memoryview(buffer).cast("B")
        data = self._content.read_at(self._at, len(view))
        view[: len(data)] = data
        self._at += len(data)
        return len(data)

    def readall(self) -> bytes:
        """All bytes from here to the end."""
        self._check()
        data = self._content.read_at(self._at, max(0, self.size - self._at))
        self._at += len(data)
        return data

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to `offset`, in bytes, from the start, from here or from the end."""
        self._check()
        bases = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}
        if whence not in bases:
            raise ValueError(f"whence {whence}, expected 0, 1 or 2")
        at = bases[whence] + offset
        if at < 0:
            raise ValueError(f"position {at}, expected at least 0")
        self._at = at
        return at

    def tell(self) -> int:
        """Where the next byte is read."""
        self._check()
        return self._at

    def _check(self) -> None:
        if self.closed:
            raise ValueError("the file is closed")


def _here(state_dir, cache_dir, use_cache, endpoint) -> dict:
    return {
        "host": _host(),
        "user": _user(),
        "state_dir": state_dir or os.environ.get("ONEFOLD_STATE_DIR"),
        "cache_dir": cache_dir or os.environ.get("ONEFOLD_CACHE_DIR"),
        "use_cache": use_cache,
        "endpoint": endpoint,
    }


def _host() -> str:
    return os.uname().nodename


def _user() -> str:
    return os.environ.get("USER") or os.environ.get("LOGNAME") or str(os.getuid())


def _bytes(password: str | bytes | None) -> bytes | None:
    return os.fsencode(password) if isinstance(password, str) else password
