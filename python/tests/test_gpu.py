"""Arrays in a GPU's memory, on a driver of CUDA that runs kernels on the host: there is no GPU to test on."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

GPU = Path(__file__).resolve().parents[2] / "crates/gpu"

# The driver is found when a process starts, so each test is one. It must not import the sources beside the
# tests, which `-P` sees to.
PROLOGUE = """
import ctypes
import numpy as np
import onefold
import pytest

class Array:
    def __init__(self, bytes, **changes):
        self.room = np.frombuffer(bytearray(64) + bytes + bytearray(64), dtype=np.uint8)
        self.bytes = self.room[64:64 + len(bytes)]
        self.__cuda_array_interface__ = {
            "shape": (len(bytes),), "typestr": "|u1", "version": 3, "strides": None, "stream": 1,
            "data": (self.bytes.ctypes.data, False), **changes,
        }

class Tensor:
    def __init__(self, array, kind=2, number=0):
        self.array, self.place = array, (kind, number)

    def __dlpack_device__(self):
        return self.place

    def __dlpack__(self, stream=None):
        return self.array.__dlpack__()

data = np.random.default_rng(1).integers(0, 256, 300_001, dtype=np.uint8).tobytes()
device = onefold.Device("cuda:0")
"""


@pytest.fixture(scope="module")
def drivers(tmp_path_factory):
    if shutil.which("g++") is None:
        pytest.skip("g++ is not installed")
    folder = tmp_path_factory.mktemp("drivers")
    library = folder / "libcuda.so.1"
    flags = ["-std=c++17", "-O1", "-fno-strict-aliasing", "-pthread", "-fPIC", "-shared"]
    folders = ["-I", GPU / "kernels", "-I", GPU / "tests"]
    source = GPU / "tests/fake_cuda.cpp"
    subprocess.run(["g++", *flags, *folders, source, "-o", library], check=True)
    (folder / "libcuda.so").symlink_to(library)
    return folder


@pytest.fixture
def run(drivers):
    def run(script, wrong="nothing"):
        env = {**os.environ, "LD_LIBRARY_PATH": str(drivers), "FAKE_CUDA": wrong}
        subprocess.run([sys.executable, "-P", "-c", PROLOGUE + script], check=True, env=env)

    return run


def test_an_array_is_cut_and_fingerprinted_like_the_cpu_does(run):
    run("""
for algorithm in ("mincdc", "fastcdc"):
    chunker = onefold.Chunker(algorithm, avg=2048)
    expected = chunker.cut(data)
    assert device.cut(Array(data), chunker) == expected
    assert device.cut(Array(b""), chunker).tolist() == []
    key = bytes(range(32))
    for name, key in (("blake3", None), ("blake3-keyed", key), ("sha3-256", None)):
        cuts, names = device.cut_and_fingerprint(Array(data), chunker, algorithm=name, key=key)
        assert cuts == expected
        assert names == onefold.fingerprint_chunks(data, expected, algorithm=name, key=key)
assert "cuda:0 (fake)" in repr(device)
""")


def test_a_tensor_is_taken_by_dlpack_and_freed(run):
    run("""
import sys
chunker = onefold.Chunker(avg=2048)
array = np.frombuffer(bytearray(data[:80_000]), dtype=np.uint16)
room = np.concatenate([np.zeros(32, np.uint16), array, np.zeros(32, np.uint16)])
part = room[32:-32].reshape(200, 200)
before = sys.getrefcount(part)
for _ in range(3):
    assert device.cut(Tensor(part), chunker) == chunker.cut(data[:80_000])
assert sys.getrefcount(part) == before
for wrong, said in (
    (Tensor(part, kind=1), "DLPack's type 1"),
    (Tensor(part, number=1), "on cuda:1, expected cuda:0"),
    (Tensor(part[:, :9]), "contiguous"),
):
    with pytest.raises(BufferError, match=said):
        device.cut(wrong, chunker)
assert sys.getrefcount(part) == before
""")


def test_what_is_no_array_of_bytes_is_refused(run):
    run("""
chunker = onefold.Chunker(avg=2048)
with pytest.raises(TypeError, match="__cuda_array_interface__"):
    device.cut(data, chunker)
for changes, said in (
    ({"strides": (2,)}, "contiguous"),
    ({"mask": 1}, "mask"),
    ({"typestr": "x"}, "elements of type 'x'"),
    ({"shape": (-1,)}, "negative"),
    ({"shape": (1 << 40, 1 << 40)}, "shape"),
):
    with pytest.raises(BufferError, match=said):
        device.cut(Array(data, **changes), chunker)
with pytest.raises(ValueError, match="no device cuts by ram"):
    device.cut(Array(data), onefold.Chunker("ram"))
with pytest.raises(ValueError, match="no device computes sha1"):
    device.cut_and_fingerprint(Array(data), chunker, algorithm="sha1")
for name in ("cpu", "auto", "gpu"):
    with pytest.raises(ValueError, match="device"):
        onefold.Device(name)
with pytest.raises(ValueError, match="cuda has no device 7"):
    onefold.Device("cuda:7")
""")


@pytest.mark.parametrize("wrong, where", [("other device", "cuda:1"), ("host memory", "no device")])
def test_an_array_in_other_memory_is_refused(run, wrong, where):
    run(
        f"""
with pytest.raises(BufferError, match="the bytes are on {where}, expected cuda:0"):
    device.cut(Array(data), onefold.Chunker(avg=2048))
""",
        wrong=wrong,
    )


def test_a_device_that_is_lost_is_named(run):
    run(
        """
with pytest.raises(RuntimeError, match=r"cuda:0 \\(fake\\) failed"):
    for _ in range(9):
        device.cut(Array(data), onefold.Chunker(avg=2048))
""",
        wrong="lost",
    )


def test_without_a_driver_it_says_so():
    try:
        import onefold

        onefold.Device()
    except RuntimeError as error:
        assert "cuda" in str(error)
