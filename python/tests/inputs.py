"""The inputs of the golden vectors."""

import numpy as np


def splitmix64(seed: int, length: int, mask: int = 255) -> bytes:
    """The numbers of SplitMix64, little-endian, each byte and-ed with `mask`."""
    count = -(-length // 8)
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(
            0x9E3779B97F4A7C15
        )
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    data = z.astype("<u8").view(np.uint8)[:length]
    return (data & np.uint8(mask)).tobytes()


def cycle(pattern: bytes, length: int) -> bytes:
    """`pattern` over and over."""
    return (pattern * (length // len(pattern) + 1))[:length]


def of(spec: dict) -> bytes | None:
    """The input that a case describes, or None if it is a file of another project's or a generator's
    that has no words here."""
    if spec["kind"] == "splitmix64":
        return splitmix64(spec["seed"], spec["len"], spec.get("mask", 255))
    if spec["kind"] == "cycle":
        return cycle(bytes.fromhex(spec["hex"]), spec["len"])
    return None
