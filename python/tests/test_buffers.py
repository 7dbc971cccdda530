"""What functions take and give: any contiguous buffer without a copy, and arrays of u64."""

import array
import gc
import mmap
import sys
import threading

import inputs
import numpy as np
import onefold
import pyarrow
import pytest

DATA = inputs.splitmix64(5, 400_000)
CHUNKER = onefold.Chunker(avg=4096)
CUTS = CHUNKER.cut(DATA)


def test_every_kind_of_buffer_is_cut_alike(tmp_path):
    path = tmp_path / "data"
    path.write_bytes(DATA)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert CHUNKER.cut(mapped) == CUTS
    for buffer in [
        bytearray(DATA),
        memoryview(DATA),
        memoryview(DATA).cast("I"),
        array.array("d", DATA),
        np.frombuffer(DATA, np.uint8),
        np.frombuffer(DATA, np.float32).reshape(-1, 4),
        pyarrow.py_buffer(DATA),
    ]:
        assert CHUNKER.cut(buffer) == CUTS
    assert CHUNKER.cut_file(path) == CUTS
    assert onefold.cut_file(str(path), avg=4096) == CUTS


def test_what_is_no_contiguous_buffer_is_refused():
    with pytest.raises(TypeError, match="bytes-like object is required, not 'str'"):
        CHUNKER.cut("text")
    every_other = np.frombuffer(DATA, np.uint8)[::2]
    with pytest.raises(BufferError, match="not contiguous.*ascontiguousarray"):
        CHUNKER.cut(every_other)
    with pytest.raises(BufferError, match="not contiguous"):
        CHUNKER.cut(np.zeros((40, 40), order="F"))
    with pytest.raises(BufferError, match="references to objects"):
        CHUNKER.cut(np.array([object()]))
    assert CHUNKER.cut(np.ascontiguousarray(every_other))[-1] == len(DATA) // 2


def test_an_empty_buffer_has_no_cut_points():
    for empty in [b"", bytearray(), np.zeros(0), memoryview(b"")]:
        cuts = CHUNKER.cut(empty)
        assert len(cuts) == 0 and cuts.tolist() == [] and np.asarray(cuts).shape == (0,)
    assert CHUNKER.next_cut(b"") is None and CHUNKER.last_cut(b"") is None


def test_cut_points_are_an_array_without_a_copy():
    ends = np.asarray(CUTS)
    assert ends.dtype == np.dtype("uint64") and ends.ndim == 1
    assert not ends.flags.writeable
    assert np.asarray(CUTS).__array_interface__["data"] == ends.__array_interface__["data"]
    assert ends.tolist() == CUTS.tolist() == list(CUTS)
    view = memoryview(CUTS)
    assert (view.format, view.itemsize, view.shape, view.readonly) == ("Q", 8, (len(CUTS),), True)
    assert list(CUTS[2:5]) == CUTS.tolist()[2:5]
    assert CUTS[-1] == len(DATA) == CUTS[len(CUTS) - 1]
    for index in (len(CUTS), -len(CUTS) - 1, 2**70):
        with pytest.raises((IndexError, OverflowError)):
            CUTS[index]
    with pytest.raises(TypeError):
        CUTS["first"]


def test_an_array_outlives_what_lent_it():
    cuts = CHUNKER.cut(DATA)
    expected = cuts.tolist()
    ends = np.asarray(cuts)
    owners = sys.getrefcount(cuts)
    view = memoryview(cuts)
    assert sys.getrefcount(cuts) > owners
    view.release()
    assert sys.getrefcount(cuts) == owners
    del cuts
    gc.collect()
    assert ends.tolist() == expected


def test_a_buffer_is_released_after_every_call():
    data = bytearray(DATA)
    for call in [
        lambda: CHUNKER.cut(data),
        lambda: CHUNKER.next_cut(data),
        lambda: onefold.fingerprint(data),
        lambda: onefold.fingerprint_many([data, data]),
        lambda: onefold.Chunker("gear").cut_rapid(data, onefold.Hints()),
    ]:
        call()
        data.append(1)
        del data[-1:]
    with pytest.raises(ValueError):
        onefold.fingerprint_chunks(data, [7, 3])
    data.append(1)
    owners = sys.getrefcount(data)
    CHUNKER.cut(data)
    assert sys.getrefcount(data) == owners


def test_a_bytearray_cannot_be_resized_while_it_is_cut():
    """The interpreter's lock is not held while bytes are cut, or this thread could not try."""
    data = bytearray(inputs.splitmix64(6, 1 << 20) * 64)
    slow = onefold.Chunker("rabin", kernel="scalar")
    refused = False
    for _ in range(50):
        worker = threading.Thread(target=slow.cut, args=(data,))
        worker.start()
        while worker.is_alive() and not refused:
            try:
                data.append(0)
                del data[-1:]
            except BufferError as error:
                assert "cannot be re-sized" in str(error)
                refused = True
        worker.join()
        if refused:
            break
    assert refused
    data.append(0)


def test_threads_share_a_chunker():
    results = [None] * 4

    def cut(number):
        results[number] = CHUNKER.cut(DATA)

    threads = [threading.Thread(target=cut, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == [CUTS] * 4


def test_chunks_are_views_of_the_buffer():
    chunks = list(onefold.chunks(DATA, CUTS))
    assert b"".join(chunks) == DATA
    assert all(chunk.obj is DATA for chunk in chunks)
    for wrong in ([5, 3], [len(DATA) + 1]):
        with pytest.raises(ValueError, match="expected one from"):
            list(onefold.chunks(DATA, wrong))
