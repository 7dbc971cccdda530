"""Fingerprints equal those of Python's own functions, one by one and together."""

import hashlib

import inputs
import numpy as np
import onefold
import pytest

FUNCTIONS = {"sha256": hashlib.sha256, "sha3-256": hashlib.sha3_256, "sha1": hashlib.sha1}
DATA = inputs.splitmix64(8, 300_000)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_fingerprints_are_those_of_hashlib(name):
    cuts = onefold.cut(DATA, avg=2048)
    chunks = list(onefold.chunks(DATA, cuts))
    expected = [FUNCTIONS[name](chunk).digest() for chunk in chunks]
    assert onefold.fingerprint(DATA, algorithm=name) == FUNCTIONS[name](DATA).digest()
    many = onefold.fingerprint_many(chunks, algorithm=name)
    assert list(many) == expected
    assert onefold.fingerprint_chunks(DATA, cuts, algorithm=name) == many
    assert onefold.fingerprint_chunks(DATA, cuts.tolist(), algorithm=name) == many
    rows = np.asarray(many)
    assert rows.shape == (len(chunks), len(expected[0])) and rows.dtype == np.uint8
    assert rows[-1].tobytes() == many[-1] == expected[-1]


def test_blake3_of_nothing_and_of_many_is_that_of_one_at_a_time():
    # The hash of no bytes, as BLAKE3's own test vectors have it.
    empty = "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262"
    assert onefold.fingerprint(b"").hex() == empty
    cuts = onefold.cut(DATA, avg=1024)
    one_by_one = [onefold.fingerprint(chunk) for chunk in onefold.chunks(DATA, cuts)]
    assert list(onefold.fingerprint_chunks(DATA, cuts)) == one_by_one
    assert len(onefold.fingerprint_many([])) == 0


def test_a_key_makes_other_names():
    keyed = onefold.fingerprint(DATA, algorithm="blake3-keyed", key=bytes(32))
    assert keyed != onefold.fingerprint(DATA) and len(keyed) == 32
    for arguments in (
        {"algorithm": "blake3-keyed"},
        {"algorithm": "blake3-keyed", "key": b"short"},
        {"algorithm": "sha256", "key": bytes(32)},
        {"algorithm": "md5"},
    ):
        with pytest.raises(ValueError, match="takes|unknown fingerprint algorithm 'md5'"):
            onefold.fingerprint(DATA, **arguments)


def test_cut_points_outside_the_buffer_are_refused():
    for ends in ([10, 5], [len(DATA) + 1], [2**64 - 1]):
        with pytest.raises(ValueError, match="expected one from"):
            onefold.fingerprint_chunks(DATA, ends)
    with pytest.raises((TypeError, OverflowError)):
        onefold.fingerprint_chunks(DATA, [-1])
    with pytest.raises(TypeError):
        onefold.fingerprint_many([1, 2])
