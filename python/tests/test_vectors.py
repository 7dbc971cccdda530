"""Python cuts where the golden vectors say: as a buffer, as a stream, by threads, by every kernel."""

import hashlib
import io
import json
from itertools import accumulate

import inputs
import numpy as np
import onefold
import pytest
from conftest import ROOT


def cases(file: str) -> list[dict]:
    return json.loads((ROOT / "vectors" / file).read_text())["cases"]


CASES = cases("cdc.json")
PRESETS = [case for case in cases("presets.json") if inputs.of(case["input"]) is not None]
NAMES = sorted({case["algorithm"] for case in CASES})


def chunker(name: str, case: dict, **more) -> onefold.Chunker:
    """The chunker of a case, without the parameters that the algorithm has no use for."""
    chosen = {key: case[key] for key in ("min", "avg", "max")}
    for key in ("secret", "divisors"):
        if key in case:
            chosen[key] = bytes.fromhex(case[key])
    for key in ("window", "level", "seed"):
        try:
            onefold.Chunker(name, **{key: case[key]}, **chosen)
        except ValueError as error:
            assert f"takes no {key}" in str(error)
        else:
            chosen[key] = case[key]
    return onefold.Chunker(name, **chosen, **more)


@pytest.mark.parametrize("name", NAMES)
def test_golden_vectors_are_cut_alike(name):
    of_name = [case for case in CASES if case["algorithm"] == name]
    assert len(of_name) >= 25
    for case in of_name:
        data = inputs.of(case["input"])
        cuts = chunker(name, case).cut(data)
        ends = np.asarray(cuts)
        assert ends.dtype == np.uint64
        assert len(ends) == case["count"]
        assert ends[:8].tolist() == case["first"]
        assert hashlib.sha256(ends.astype("<u8").tobytes()).hexdigest() == case["sha256"]
        assert chunker(name, case).cut(data, threads=3) == cuts
        stream = chunker(name, case).cut_stream(io.BytesIO(data))
        assert [chunk.end for chunk in stream] == cuts.tolist()


@pytest.mark.parametrize("name", NAMES)
def test_every_kernel_cuts_alike(name):
    data = inputs.splitmix64(3, 300_000)
    expected = onefold.cut(data, name, avg=1000, kernel="scalar")
    kernels = onefold.kernels(name)
    assert "scalar" in kernels
    for kernel in kernels:
        chunker = onefold.Chunker(name, avg=1000, kernel=kernel)
        assert chunker.kernel == kernel
        assert chunker.cut(data) == expected, kernel


@pytest.mark.parametrize("case", PRESETS, ids=lambda case: case["source"])
def test_presets_cut_where_other_tools_do(case):
    data = inputs.of(case["input"])
    cuts = chunker(case["preset"], case).cut(data)
    assert cuts.tolist() == list(accumulate(case["lengths"]))
