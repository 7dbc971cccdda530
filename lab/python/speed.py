"""Measures the chunkers of Python against Onefold's, and Onefold's against Rust's, and writes a record.

    cargo build --release -p onefold-python --example rust-speed
    python lab/python/speed.py --rust target/release/examples/rust-speed --out docs/records/NAME.json

The interpreter must have `onefold` and the rivals installed: pyfastcdc, fastcdc, pith-cdc, tilecdc. In
every round each of them cuts the same bytes once, in turn; before that its cuts are checked to add up.
Rust cuts in a process of its own, in turn with the others, and maps the same pages as Onefold in Python. Speeds are by the time of the thread on a CPU.
"""

import argparse
import datetime
import importlib.metadata
import json
import mmap
import os
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onefold

AVG = 8192
MIN, MAX = 2048, 65536


class Rust:
    """Rust's chunkers, in a process that waits for its turn."""

    def __init__(self, program: str, algorithm: str, data: str) -> None:
        self.child = subprocess.Popen(
            [program, algorithm, str(AVG), data],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def cut(self) -> tuple[float, float, int]:
        """Seconds of wall time, those on a CPU, and how many chunks."""
        self.child.stdin.write("go\n")
        self.child.stdin.flush()
        wall, seconds, chunks = self.child.stdout.readline().split()
        return float(wall), float(seconds), int(chunks)


def timed(cut):
    """A chunker as a function of nothing that returns what `Rust.cut` does."""

    def run() -> tuple[float, float, int]:
        begun, wall = time.thread_time(), time.perf_counter()
        result = cut()
        seconds, wall = time.thread_time() - begun, time.perf_counter() - wall
        return wall, seconds, len(result)

    return run


def contenders(rust: str, path: str, mapped: mmap.mmap, data: bytes) -> dict:
    """Every contender by its name; each returns lengths or ends of all chunks."""
    import fastcdc
    import pith_cdc
    import pyfastcdc
    import tilecdc

    all_of_them = {}
    for algorithm in ("mincdc", "fastcdc-2020"):
        all_of_them[f"rust {algorithm}"] = Rust(rust, algorithm, path).cut
        chunker = onefold.Chunker(algorithm, avg=AVG)
        all_of_them[f"onefold {algorithm}"] = timed(lambda chunker=chunker: chunker.cut(mapped))
    rival = pyfastcdc.FastCDC(avg_size=AVG, min_size=MIN, max_size=MAX)
    all_of_them["pyfastcdc"] = timed(lambda: [one.length for one in rival.cut_buf(data)])
    tile = tilecdc.Chunker(min_size=MIN, avg_size=AVG, max_size=MAX)
    all_of_them["tilecdc"] = timed(lambda: tile.chunk(data))
    all_of_them["fastcdc"] = timed(
        lambda: [one.length for one in fastcdc.fastcdc(data, MIN, AVG, MAX)]
    )
    all_of_them["pith-cdc"] = timed(lambda: list(pith_cdc.chunk(data, MIN, AVG, MAX)))
    return all_of_them


def versions() -> dict[str, str]:
    names = ("pyfastcdc", "tilecdc", "fastcdc", "pith-cdc", "numpy")
    return {name: importlib.metadata.version(name) for name in names} | {
        "onefold": onefold.__version__,
        "python": sys.version.split()[0]
    }


def told(command: list[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def cpu() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rust", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bytes", type=int, default=1 << 30)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--skip", action="append", default=[], help="a contender to leave out")
    options = parser.parse_args()

    path = f"/dev/shm/onefold-speed-{os.getpid()}"
    generator = np.random.Generator(np.random.PCG64(1))
    try:
        with open(path, "wb") as file:
            for _ in range(0, options.bytes, 1 << 24):
                file.write(generator.bytes(1 << 24))
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        data = mapped[:]
        samples, chunks = [], {}
        every = contenders(options.rust, path, mapped, data)
        for name in options.skip:
            del every[name]
        for turn in range(options.rounds + 1):
            for name, run in every.items():
                wall, seconds, count = run()
                assert chunks.setdefault(name, count) == count, f"{name} cut otherwise"
                # The first round only warms up.
                if turn:
                    samples.append({"tool": name, "round": turn, "seconds": seconds, "wall": wall})
                print(f"{turn} {name}: {len(data) / seconds / 1e9:.2f} GB/s", flush=True)
    finally:
        os.unlink(path)

    for algorithm in ("mincdc", "fastcdc-2020"):
        assert chunks[f"rust {algorithm}"] == chunks[f"onefold {algorithm}"]
    medians = {
        name: statistics.median(s["seconds"] for s in samples if s["tool"] == name)
        for name in every
    }
    speeds = {name: len(data) / seconds / 1e9 for name, seconds in medians.items()}
    rivals = [name for name in every if not name.startswith(("onefold", "rust"))]
    fastest = max(rivals, key=speeds.get)
    record = {
        "name": options.out.stem,
        "command_line": " ".join(["python", "lab/python/speed.py", *sys.argv[1:]]),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": {
            "id": told(["git", "rev-parse", "HEAD"]),
            "dirty": bool(told(["git", "status", "--porcelain"])),
        },
        "cpu_model": cpu(),
        "cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "kernel_version": platform.release(),
        "rustc_version": told(["rustc", "--version"]),
        "cache_state": "in memory, random bytes",
        "bytes": len(data),
        "tools": versions(),
        "chunks": chunks,
        "gigabytes_per_second": {name: round(speed, 3) for name, speed in speeds.items()},
        "onefold_of_rust": {
            algorithm: round(speeds[f"onefold {algorithm}"] / speeds[f"rust {algorithm}"], 3)
            for algorithm in ("mincdc", "fastcdc-2020")
        },
        "fastest_rival": fastest,
        "onefold_of_fastest_rival": round(speeds["onefold mincdc"] / speeds[fastest], 2),
        "samples": samples,
        "notes": [
            "Medians of the rounds, of the seconds that the calling thread was on a CPU: other programs "
            "ran on the machine. Every call returns all cut-points of the whole input.",
            "Chunkers with a mean of 8 KiB; the rivals with 2 KiB and 64 KiB as bounds.",
        ],
    }
    options.out.write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record["gigabytes_per_second"], indent=2))
    print(f"{record['onefold_of_rust']} of Rust, {record['onefold_of_fastest_rival']} of {fastest}")


if __name__ == "__main__":
    main()
