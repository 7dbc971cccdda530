"""Texts and their changes, and splits of fixed size, for the campaigns of incremental jobs.

Needs nothing but Python. Everything is drawn from seeds: the same arguments give the same bytes.
"""

import functools
import hashlib
import itertools
import mmap
import os
import random
import struct

#: Bytes of one scattered change.
RUN = 64 << 10

_POOL = 100_000
_WORDS = 10
_COPIED = 8 << 20
_VOCABULARIES = {"words": ("w", 50_000), "pairs": ("v", 1_000)}


class Lines:
    """Lines from a pool, in random order and without end.

    kind: `words` and `pairs` are ten words a line by Zipf's law, `points` two numbers a line.
    """

    def __init__(self, kind, seed):
        self._random = random.Random(f"order of {kind} {seed}")
        self._pool = _pool(kind, seed)
        self._mean = sum(map(len, self._pool)) // len(self._pool)

    def take(self, size):
        """Stretches of whole lines, together `size` bytes or a little less."""
        while size > 0:
            block = b"".join(self._random.choices(self._pool, k=min(_POOL, size // self._mean + 1)))
            if len(block) > size:
                block = block[:block.rfind(b"\n", 0, size) + 1]
                size = 0
            size -= len(block)
            if block:
                yield block


@functools.cache
def _pool(kind, seed):
    draw = random.Random(f"{kind} {seed}")
    if kind == "points":
        return [f"{draw.uniform(0, 100):.3f} {draw.uniform(0, 100):.3f}\n".encode() for _ in range(_POOL)]
    letter, count = _VOCABULARIES[kind]
    words = [f"{letter}{i}" for i in range(count)]
    weights = list(itertools.accumulate(1 / rank for rank in range(1, count + 1)))
    lines = (draw.choices(words, cum_weights=weights, k=_WORDS) for _ in range(_POOL))
    return [(" ".join(line) + "\n").encode() for line in lines]


def changes(data, percent, spread, fresh):
    """How `data` becomes a text with this percentage of its bytes changed, at beginnings of lines.

    Yields stretches, each `kept`, `gone` or `new`: the text is what is kept and new. `clustered` replaces
    one stretch by as many bytes of other lines, or a few less. `scattered` takes runs of `RUN` bytes: of
    four, one is deleted, one gets new lines in front, and two are replaced. `fresh` are the new lines.
    """
    at = 0
    for edit, start, length in _edits(len(data), percent, spread):
        start = max(at, _line(data, start))
        yield from (("kept", stretch) for stretch in _stretches(data, at, start))
        at = start if edit == "insert" else max(start, _line(data, start + length))
        yield from (("gone", stretch) for stretch in _stretches(data, start, at))
        if edit != "delete":
            yield from (("new", stretch) for stretch in fresh.take(length))
    yield from (("kept", stretch) for stretch in _stretches(data, at, len(data)))


def _edits(size, percent, spread):
    amount = size * percent // 100
    if spread == "clustered":
        return [("replace", size // 3, amount)] if amount else []
    places = random.Random(f"places {percent}").sample(range(size // RUN), amount // RUN)
    kinds = itertools.cycle(("delete", "insert", "replace", "replace"))
    return [(edit, place * RUN, RUN) for edit, place in zip(kinds, sorted(places))]


def _line(data, at):
    """Where the first line begins at or behind `at`."""
    return (data.find(b"\n", at - 1) + 1 or len(data)) if at > 0 else 0


def _stretches(data, start, end):
    for at in range(start, end, _COPIED):
        yield data[at:min(at + _COPIED, end)]


class Mapped:
    """The bytes of a file that is not empty, without holding them in memory."""

    def __init__(self, path):
        self._path = path

    def __enter__(self):
        with open(self._path, "rb") as file:
            self._map = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        return self._map

    def __exit__(self, *_):
        self._map.close()


def fixed_splits(data, length):
    """The lengths of splits that begin at the first line at or behind each multiple of `length`.

    So Hadoop divides a file whose blocks have this length.
    """
    cuts = sorted({_line(data, at) for at in range(length, len(data), length)} | {len(data)})
    return [end - start for start, end in zip([0, *cuts], cuts)]


def put_fixed(source, target, length):
    """Makes `target` a name of the file `source` with a manifest of splits of fixed size.

    docs/incremental-format.md has the manifest. Returns the digest of the whole file.
    """
    for path in (target, _manifest(target), _checksums(target)):
        path.unlink(missing_ok=True)
    os.link(source, target)
    if _checksums(source).exists():
        os.link(_checksums(source), _checksums(target))
    whole = hashlib.sha256()
    entries = []
    with Mapped(source) as data:
        at = 0
        for split in fixed_splits(data, length):
            digest = hashlib.sha256()
            for stretch in _stretches(data, at, at + split):
                digest.update(stretch)
                whole.update(stretch)
            entries.append(struct.pack("<Q", split) + digest.digest())
            at += split
    head = b"ONEFSPLT" + struct.pack("<HBBBBH", 1, 0, 2, 2, 0, 0)
    head += struct.pack("<QQQQ", length, length, length, 0)
    head += struct.pack("<QQI", at, os.stat(source).st_mtime_ns // 1_000_000, len(entries))
    body = head + b"".join(entries)
    _manifest(target).write_bytes(body + hashlib.sha256(body).digest())
    return "sha256:" + whole.hexdigest()


def remove(path):
    """Removes a file, its manifest and its checksums."""
    for each in (path, _manifest(path), _checksums(path)):
        each.unlink(missing_ok=True)


def _manifest(path):
    return path.with_name(f".{path.name}.onefold")


def _checksums(path):
    return path.with_name(f".{path.name}.crc")


def text_of(path):
    """The stretches of a version: of a file, or of all files of a folder in the order of their paths."""
    below = [path]
    if path.is_dir():
        below = sorted(each for each in path.rglob("*") if each.is_file() and not each.is_symlink())
    for each in below:
        with open(each, "rb") as file:
            while stretch := file.read(_COPIED):
                yield stretch
