"""Chunkers, streams and hints."""

import io

import inputs
import onefold
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

NAMES = [one.name for one in onefold.algorithms() if not one.is_preset]
DATA = inputs.splitmix64(7, 500_000)


class Reader:
    """A file object that gives `sizes` bytes in turn, and fails where a size is negative."""

    def __init__(self, data: bytes, sizes: list[int]) -> None:
        self.data, self.sizes, self.turn = io.BytesIO(data), sizes, 0

    def read(self, count: int) -> bytes:
        size = self.sizes[self.turn % len(self.sizes)]
        self.turn += 1
        if size < 0:
            raise OSError(5, "a bad sector")
        return self.data.read(min(size, count))


@settings(max_examples=200, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    avg=st.integers(1, 300),
    data=st.binary(max_size=3000)
    | st.builds(inputs.cycle, st.binary(min_size=1, max_size=30), st.integers(0, 3000)),
    sizes=st.lists(st.integers(1, 700), min_size=1, max_size=6),
)
def test_a_stream_cuts_where_the_buffer_cuts(name, avg, data, sizes):
    chunker = onefold.Chunker(name, avg=avg)
    cuts = chunker.cut(data)
    chunks = list(chunker.cut_stream(Reader(data, sizes)))
    assert [chunk.end for chunk in chunks] == cuts.tolist()
    assert b"".join(chunk.data for chunk in chunks) == data
    assert all(data[chunk.offset : chunk.end] == chunk.data for chunk in chunks)
    assert chunker.cut(data, threads=2) == cuts


@settings(max_examples=100, deadline=None)
@given(name=st.sampled_from(NAMES), data=st.binary(min_size=1, max_size=2000), more=st.binary())
def test_more_data_never_changes_a_cut(name, data, more):
    chunker = onefold.Chunker(name, avg=64)
    cut = chunker.next_cut(data)
    assert cut is None or chunker.next_cut(data + more) == cut
    assert 1 <= chunker.last_cut(data) <= min(len(data), chunker.max)


def test_an_exception_of_a_file_is_raised_and_nothing_is_lost():
    chunker = onefold.Chunker(avg=4096)
    stream = chunker.cut_stream(Reader(DATA, [1000, 30_000, -1]))
    ends, failures = [], 0
    while True:
        try:
            ends.append(next(stream).end)
        except OSError as error:
            assert error.errno == 5 and "a bad sector" in str(error)
            failures += 1
        except StopIteration:
            break
    assert ends == chunker.cut(DATA).tolist()
    assert failures > 5


@pytest.mark.parametrize(
    ("result", "kind", "message"),
    [
        ("text", TypeError, "opened as 'rb'"),
        (None, BlockingIOError, "no bytes yet"),
        (b"x" * 10_000_000, ValueError, "expected at most"),
        (7, TypeError, "bytes-like"),
    ],
)
def test_a_file_that_breaks_its_word_is_refused(result, kind, message):
    class Wrong:
        def read(self, count):
            return result

    with pytest.raises(kind, match=message):
        next(onefold.cut_stream(Wrong()))


def test_an_interrupt_passes_through_a_stream():
    class Interrupted:
        def read(self, count):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        next(onefold.cut_stream(Interrupted()))


def test_a_stream_within_its_own_read_is_refused():
    class Nested:
        def read(self, count):
            return next(self.stream).data

    nested = Nested()
    nested.stream = onefold.cut_stream(nested)
    with pytest.raises(ValueError, match="one at a time"):
        next(nested.stream)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(TypeError, match="no method read"):
        onefold.cut_stream(b"bytes")
    missing = tmp_path / "missing"
    with pytest.raises(FileNotFoundError) as caught:
        onefold.cut_file(missing)
    assert caught.value.filename == str(missing)
    with pytest.raises(IsADirectoryError):
        onefold.cut_file(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"algorithm": "nothing"}, "unknown algorithm 'nothing', expected one of fixed"),
        ({"kernel": "mmx"}, "unknown kernel 'mmx', expected one of auto"),
        ({"min": 0}, "minimum chunk size is 0"),
        ({"min": 9, "avg": 8, "max": 99}, "average chunk size 8 is below the minimum 9"),
        ({"avg": 1 << 40}, "above the limit"),
        ({"algorithm": "casync", "seed": 1}, "casync takes no seed, expected one of"),
        ({"algorithm": "fastcdc", "level": 4}, "level 4, expected 0 to 3"),
        ({"algorithm": "fixed", "secret": bytes(32)}, "nothing to key"),
        ({"secret": b"short"}, "secret of 5 bytes, expected 32"),
        ({"algorithm": "bfbc", "divisors": b"odd"}, "odd number"),
        ({"algorithm": "restic", "avg": 10_000}, "a power of two"),
    ],
)
def test_parameters_that_an_algorithm_cannot_have_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        onefold.Chunker(**arguments)


def test_numbers_out_of_range_are_refused():
    for wrong in ({"avg": -1}, {"seed": 1 << 64}, {"level": 256}):
        with pytest.raises(OverflowError):
            onefold.Chunker("fastcdc", **wrong)
    with pytest.raises(ValueError, match="0 threads"):
        onefold.cut(DATA, threads=0)


def test_a_secret_decides_where_chunks_end():
    def keyed(byte):
        return onefold.Chunker("gear-aes", avg=4096, secret=bytes([byte]) * 32)

    assert keyed(1).is_keyed and "\x01" not in repr(keyed(1))
    assert keyed(1).cut(DATA) == keyed(1).cut(DATA)
    assert keyed(1).cut(DATA) != keyed(2).cut(DATA)


def test_a_chunker_says_what_it_is():
    chunker = onefold.Chunker("restic", seed=0x3DA3358B4DC173)
    assert (chunker.algorithm, chunker.min, chunker.avg, chunker.max) == (
        "restic",
        512 << 10,
        1 << 20,
        8 << 20,
    )
    assert chunker.seed == 0x3DA3358B4DC173 and chunker.window == 64
    assert onefold.Chunker().avg == 16 << 10
    assert "mincdc" in repr(onefold.Chunker())
    assert onefold.Chunker("rabin").lookahead == 0 < onefold.Chunker().lookahead
    names = [one.name for one in onefold.algorithms()]
    assert len(names) == len(set(names)) > 20
    assert all(one.summary for one in onefold.algorithms())


def test_rapid_cuts_alike_and_jumps_over_what_is_known():
    chunker = onefold.Chunker("gear", avg=4096)
    for criterion in ("fingerprint", "marker-fingerprint"):
        hints = onefold.Hints()
        cuts, first = chunker.cut_rapid(DATA, hints, criterion=criterion)
        assert cuts == chunker.cut(DATA)
        assert (first.hits, first.scanned_bytes) == (0, len(DATA))
        again, second = chunker.cut_rapid(DATA, hints, criterion=criterion)
        assert again == cuts
        assert second.forwarded_bytes > 0.9 * len(DATA)
        assert len(hints) >= len(cuts) - 1


def test_hints_and_criteria_are_of_one_kind():
    hints = onefold.Hints(fingerprint="sha256", most=4)
    onefold.Chunker("gear", avg=4096).cut_rapid(DATA, hints)
    with pytest.raises(ValueError, match="other parameters"):
        onefold.Chunker("gear", avg=8192).cut_rapid(DATA, hints)
    with pytest.raises(ValueError, match="unknown criterion 'luck'"):
        onefold.Chunker("gear").cut_rapid(DATA, onefold.Hints(), criterion="luck")
    with pytest.raises(ValueError, match="not exact for mincdc"):
        onefold.Chunker("mincdc").cut_rapid(DATA, onefold.Hints())
