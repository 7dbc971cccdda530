"""Spark's own example programs with the lines that the docs change: equal output, first and second time."""

import os
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest

import onefold_spark

ROOT = Path(onefold_spark.__file__).resolve().parents[3]
MEAN = "4KiB"
DOCS = ROOT / "docs" / "incremental-spark.md"


def changed(name, path):
    """Spark's example program with the diff of the docs applied."""
    import pyspark

    program = (Path(pyspark.__file__).parent / "examples/src/main/python" / name).read_text()
    (diff,) = re.findall(rf"```diff\n--- {re.escape(name)}\n(.*?)```", DOCS.read_text(), re.DOTALL)
    lines = [line + "\n" for line in diff.splitlines()]
    old = "".join(line[1:] for line in lines if line[0] != "+")
    new = "".join(line[1:] for line in lines if line[0] != "-")
    assert program.count(old) == 1, old
    plain = path / name
    plain.write_text(program)
    incremental = path / f"incremental_{name}"
    incremental.write_text(program.replace(old, new.replace("4MiB", MEAN)))
    return plain, incremental


def run(program, *arguments):
    """What a program prints, in order of lines: Spark leaves the order of a reduce's results open."""
    home = str(Path(onefold_spark.__file__).parent.parent)
    ended = subprocess.run(
        [sys.executable, program, *arguments], cwd=program.parent, text=True, capture_output=True, timeout=600,
        env={**os.environ, "PYTHONPATH": home, "PYSPARK_SUBMIT_ARGS":
             "--master local[2] --driver-memory 1g --conf spark.ui.enabled=false pyspark-shell"})
    assert ended.returncode == 0, ended.stderr
    return sorted(ended.stdout.splitlines())


def computed(memo):
    """How many splits each run noted in the memo computed, the earliest first."""
    runs = sorted(memo.glob("runs/*"), key=lambda path: int(path.name.split("-")[0]))
    return [int(re.search(r"^misses=(\d+)$", path.read_text(), re.MULTILINE)[1]) for path in runs]


def wordcount(path):
    rng = random.Random(1)
    lines = (" ".join(f"word{rng.randrange(300)}" for _ in range(rng.randrange(9))) for _ in range(10_000))
    (path / "input").write_text("\n".join(lines) + "\n")
    return []


def kmeans(path):
    rng = random.Random(2)
    # whole numbers, so that sums do not depend on their order
    centers = [(0, 0), (400, 100), (100, 500)]
    points = ((x + rng.randrange(150), y + rng.randrange(150)) for _ in range(3000) for x, y in centers)
    (path / "input").write_text("".join(f"{x} {y}\n" for x, y in points))
    return ["3", "0.1"]


@pytest.mark.parametrize("prepare", [wordcount, kmeans])
def test_an_example_of_spark_gives_what_it_does_plainly(tmp_path, prepare):
    arguments = prepare(tmp_path)
    source = tmp_path / "input"
    plain, incremental = changed(f"{prepare.__name__}.py", tmp_path)
    expected = run(plain, source, *arguments)
    assert expected
    assert run(incremental, source, *arguments) == expected
    first = computed(tmp_path / "memo")
    assert first and all(misses >= 3 for misses in first), first
    assert run(incremental, source, *arguments) == expected
    assert computed(tmp_path / "memo") == first + [0] * len(first)
