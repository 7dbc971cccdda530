"""Snapshots as a file system of fsspec: `onefold://SNAPSHOT/PATH`.

>>> import pandas
>>> pandas.read_parquet(                                        # doctest: +SKIP
...     "onefold://latest/data/year.parquet",
...     storage_options={"repository": "/mnt/backup", "password": "..."},
... )

SNAPSHOT is "latest" or the first digits of an id. The root lists the ids of all snapshots. Without
`repository` and `password`, ONEFOLD_REPOSITORY and ONEFOLD_PASSWORD are used, as by the command.
"""

from __future__ import annotations

import io
import os
from datetime import datetime

from fsspec.spec import AbstractFileSystem  # type: ignore[import-untyped]

from onefold._onefold import Entry, Snapshot
from onefold._repository import Repository

__all__ = ["OnefoldFileSystem"]


class OnefoldFileSystem(AbstractFileSystem):
    """The snapshots of a repository, to be read. A snapshot never changes."""

    protocol = "onefold"
    root_marker = ""

    def __init__(
        self,
        repository: str | os.PathLike[str] | None = None,
        password: str | None = None,
        **kwargs,
    ) -> None:
        """Opens `repository`; `kwargs` are those of `Repository.open` and of fsspec.

        Raises what `Repository.open` raises, and ValueError if no repository is named.
        """
        opened = {
            name: kwargs.pop(name)
            for name in ("state_dir", "cache_dir", "use_cache", "accept_repository", "endpoint")
            if name in kwargs
        }
        super().__init__(repository=repository, password=password, **opened, **kwargs)
        location = repository or os.environ.get("ONEFOLD_REPOSITORY")
        if location is None:
            raise ValueError("no repository: give `repository`, or set ONEFOLD_REPOSITORY")
        password = password or os.environ.get("ONEFOLD_PASSWORD") or None
        self.repository = Repository.open(location, password, **opened)

    def ls(self, path: str, detail: bool = True, **kwargs) -> list:
        """What a directory holds, or the file itself."""
        path = self._strip_protocol(path).strip("/")
        if not path:
            found = [_of_snapshot(one) for one in self.repository.snapshots()]
        else:
            snapshot, entry = self._find(path)
            found = [self._of_entry(path, entry)]
            if entry.is_directory:
                entries = self.repository.ls(_joined(path))
                found = [self._of_entry(f"{path}/{one.name}", one) for one in entries]
        return found if detail else [one["name"] for one in found]

    def info(self, path: str, **kwargs) -> dict:
        """What is at `path`. Raises FileNotFoundError."""
        path = self._strip_protocol(path).strip("/")
        if not path:
            return {"name": "", "size": 0, "type": "directory"}
        _, entry = self._find(path)
        return self._of_entry(path, entry)

    def modified(self, path: str) -> datetime:
        """When the content at `path` changed last."""
        _, entry = self._find(self._strip_protocol(path).strip("/"))
        return entry.mtime

    def created(self, path: str) -> datetime:
        """When the snapshot of `path` was made."""
        snapshot, _ = self._find(self._strip_protocol(path).strip("/"))
        return snapshot.time

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs) -> bytes:
        """The bytes of a file from `start` to `end`; negative ones count from its end."""
        with self._open(path) as file:
            size = file.seek(0, os.SEEK_END)
            first, last, _ = slice(start, end).indices(size)
            file.seek(first)
            return file.read(max(0, last - first))

    def _open(self, path: str, mode: str = "rb", block_size: int | None = None, **kwargs):
        if mode != "rb":
            raise OSError(f"mode '{mode}', expected 'rb': a snapshot is never written")
        path = self._strip_protocol(path).strip("/")
        file = self.repository.read(_joined(path), buffering=0)
        return io.BufferedReader(file, block_size if isinstance(block_size, int) else 256 << 10)

    def _find(self, path: str) -> tuple[Snapshot, Entry]:
        spec = path.partition("/")[0]
        return self.repository.snapshot(spec), self.repository.stat(_joined(path))

    @staticmethod
    def _of_entry(path: str, entry: Entry) -> dict:
        return {
            "name": path,
            "size": entry.size,
            "type": entry.kind if not entry.kind == "symlink" else "link",
            "mode": entry.mode,
            "uid": entry.uid,
            "gid": entry.gid,
            "mtime": entry.mtime.timestamp(),
            "islink": entry.target is not None,
            "destination": entry.target,
        }


def _of_snapshot(snapshot: Snapshot) -> dict:
    return {
        "name": snapshot.id,
        "size": 0,
        "type": "directory",
        "created": snapshot.time.timestamp(),
        "host": snapshot.host,
        "tags": snapshot.tags,
    }


def _joined(path: str) -> str:
    """The path as a repository writes it."""
    spec, _, below = path.partition("/")
    return f"{spec}:{below}"
