"""Measures Spark jobs with a memo; `cargo lab campaign incremental` runs it and keeps its lines.

Each line is `incremental: ` and words `name=value`: the job, the change, seconds of the plain job and of
the one with a memo, the share of splits and bytes that were computed, and the share of time that
planning took.
"""

import argparse
import hashlib
import operator
import os
import shutil
import time
from pathlib import Path

import numpy as np
from pyspark.sql import SparkSession

from onefold_spark import incremental

MIB = 1 << 20
RUN = 64 << 10
CENTROIDS = [(10.0 * i, 7.0 * i % 100) for i in range(8)]


def lines_of(kind, count, seed):
    """Distinct lines: text of words by Zipf's law, or points."""
    rng = np.random.default_rng(seed)
    if kind == "points":
        return [f"{x:.3f} {y:.3f}".encode() for x, y in rng.uniform(0, 100, (count, 2))]
    vocabulary = np.array([f"{'w' if kind == 'words' else 'v'}{i}" for i in range(50_000 if kind == "words" else 1_000)])
    weights = 1 / np.arange(1, len(vocabulary) + 1)
    chosen = rng.choice(vocabulary, (count, 10), p=weights / weights.sum())
    return [" ".join(line).encode() for line in chosen]


def make(kind, path, size, seed=1):
    """A file of `size` bytes or a little less, whose lines come from a pool in random order."""
    pool = np.array(lines_of(kind, 200_000, seed), dtype=object)
    rng = np.random.default_rng(seed + 100)
    with open(path, "wb") as out:
        while (left := size - out.tell()) > 0:
            block = b"\n".join(pool[rng.integers(0, len(pool), 200_000)]) + b"\n"
            if len(block) > left:
                # at most `size`, and whole lines
                out.write(block[:block.rfind(b"\n", 0, left) + 1])
                break
            out.write(block)


def change(kind, base, path, percent, spread):
    """Copies `base` with so many percent of its bytes changed."""
    data = base.read_bytes()
    other = b"\n".join(lines_of(kind, 20_000, 2)) + b"\n"
    changed = len(data) * percent // 100
    rng = np.random.default_rng(percent)
    if spread == "clustered":
        runs = [(len(data) // 3, changed)] if changed else []
    else:
        places = rng.choice(len(data) // RUN - 1, changed // RUN, replace=False)
        runs = sorted((int(place) * RUN, RUN) for place in places)
    with open(path, "wb") as out:
        at = 0
        for number, (start, length) in enumerate(runs):
            start = max(at, data.find(b"\n", start) + 1)
            end = data.find(b"\n", start + length // 2) + 1 or len(data)
            out.write(data[at:start])
            # one run of four is deleted, one has new lines in front, and two are replaced
            what = number % 4 if spread == "scattered" else 3
            begin = other.find(b"\n", int(rng.integers(0, len(other) // 2))) + 1
            fresh = (other[begin:] * (length // len(other) + 2))[:length]
            fresh = fresh[fresh.find(b"\n") + 1:fresh.rfind(b"\n") + 1]
            if what == 0:
                at = data.find(b"\n", start + length) + 1 or len(data)
                continue
            out.write(fresh)
            at = start if what == 1 else (data.find(b"\n", start + length) + 1 or len(data))
        out.write(data[at:])


def fixed_share(base, path, block):
    def blocks(file):
        with open(file, "rb") as data:
            while chunk := data.read(block):
                yield hashlib.sha256(chunk).digest(), len(chunk)

    known = {digest for digest, _ in blocks(base)}
    new = sum(length for digest, length in blocks(path) if digest not in known)
    return new / os.path.getsize(path)


def count_words(lines):
    for line in lines:
        for word in line.split():
            yield word, 1


def count_pairs(lines):
    for line in lines:
        words = line.split()
        yield from ((pair, 1) for pair in zip(words, words[1:]))


def nearest(lines):
    for line in lines:
        x, y = map(float, line.split())
        best = min(range(8), key=lambda i: (CENTROIDS[i][0] - x) ** 2 + (CENTROIDS[i][1] - y) ** 2)
        # thousandths are exact whatever the order of sums
        yield best, (round(x * 1000), round(y * 1000), 1)


def join(a, b):
    return a[0] + b[0], a[1] + b[1], a[2] + b[2]


JOBS = {
    "word-count": ("words", count_words, operator.add, lambda v: v),
    "k-means": ("points", nearest, join, sum),
    "co-occurrence": ("pairs", count_pairs, operator.add, lambda v: v),
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--size", type=int)
    parser.add_argument("--size-of-others", type=int)
    parser.add_argument("--mean")
    parser.add_argument("--changes", type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--limit", type=int)
    parser.add_argument("--only-inputs", action="store_true")
    options = parser.parse_args()
    options.dir = options.dir.resolve()
    options.dir.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count()
    spark = (
        SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    versions = [(percent, spread) for percent in options.changes if percent for spread in ("clustered", "scattered")]
    shares = inputs(spark, options, versions)
    if not options.only_inputs:
        measure(spark, options, versions, shares, cores)
    spark.stop()


def inputs(spark, options, versions):
    """Makes what is missing; returns the share of bytes that fixed-size splits would compute."""
    incremental(spark, str(options.dir))  # so that the session knows the jar
    jvm = spark.sparkContext._jvm.onefold.incremental
    conf = spark.sparkContext._jsc.hadoopConfiguration()
    block = jvm.split.SplitSizes.parse(options.mean).avg()
    shares = {}
    for job, (kind, *_) in JOBS.items():
        size = (options.size if job == "word-count" else options.size_of_others) * MIB
        folder = options.dir / f"{kind}-{size // MIB}"
        folder.mkdir(exist_ok=True)
        for percent, spread in [(0, "none"), *versions]:
            path = folder / f"{percent}-{spread}"
            noted = folder / f".{path.name}.fixed"
            if not noted.exists():
                raw = folder / f"_{path.name}"
                if percent == 0:
                    make(kind, raw, size)
                else:
                    change(kind, folder / "0-none", raw, percent, spread)
                put = jvm.layout.Put(conf, jvm.split.SplitSizes.parse(options.mean),
                                     jvm.split.Records.parse("lines"), True)
                stream = spark.sparkContext._jvm.java.io.FileInputStream(str(raw))
                put.blocks(stream, raw.name, spark.sparkContext._jvm.org.apache.hadoop.fs.Path(path.as_uri()))
                stream.close()
                raw.unlink()
                noted.write_text(str(fixed_share(folder / "0-none", path, block) if percent else 0.0))
            shares[path] = float(noted.read_text())
    return shares


def measure(spark, options, versions, shares, cores):
    begin = time.monotonic()
    print(f"incremental: spark={spark.version} cores={cores} mean={options.mean}", flush=True)
    # so that no job pays for the first workers
    spark.sparkContext.parallelize(range(100), 4).map(lambda x: (x % 3, x)).reduceByKey(operator.add).collect()
    for job, (kind, function, combine, number) in JOBS.items():
        size = options.size if job == "word-count" else options.size_of_others
        folder = options.dir / f"{kind}-{size}"
        memo = options.dir / f"memo-{job}"
        shutil.rmtree(memo, ignore_errors=True)
        plain_seconds = None
        for percent, spread in [(0, "none"), (0, "none"), *versions]:
            if options.limit and time.monotonic() - begin > options.limit:
                print(f"incremental: job={job} change={percent}% {spread} left out: the limit of {options.limit} s", flush=True)
                continue
            path = folder / f"{percent}-{spread}"

            def run(rdd):
                # only the reduced sums come to the driver
                return rdd.map(lambda pair: (1, number(pair[1]))).fold((0, 0), lambda a, b: (a[0] + b[0], a[1] + b[1]))

            plain = None
            if plain_seconds is None:
                start = time.monotonic()
                plain = run(spark.sparkContext.textFile(path.as_uri()).mapPartitions(function).reduceByKey(combine))
                plain_seconds = time.monotonic() - start
            # each variant begins with the memo of the unchanged input
            used = memo
            if percent:
                used = options.dir / "memo-used"
                shutil.rmtree(used, ignore_errors=True)
                shutil.copytree(memo, used, copy_function=os.link)
                used.chmod(0o700)
            start = time.monotonic()
            reduced = incremental(spark, path.as_uri(), memo=used.as_uri(), name=job).map_partitions(function) \
                .reduce_by_key(combine)
            result = run(reduced)
            seconds = time.monotonic() - start
            plan = reduced.plan()
            assert plain is None or result == plain, (job, result, plain)
            splits = plan.hits + plan.misses
            size_in_bytes = plan.hit_bytes + plan.miss_bytes
            print(
                f"incremental: job={job} MiB={size_in_bytes // MIB} change={percent}%"
                f" spread={spread} {'first' if plan.hits == 0 else 'again'} plain_s={plain_seconds:.1f} s={seconds:.1f}"
                f" speed_up={plain_seconds / seconds:.2f} splits={splits} computed={plan.misses / splits:.4f}"
                f" bytes_computed={plan.miss_bytes / size_in_bytes:.4f} fixed_size_bytes={shares[path]:.4f}"
                f" planning={plan.seconds / seconds:.4f} keys={result[0]} sum={result[1]}",
                flush=True,
            )


main()
