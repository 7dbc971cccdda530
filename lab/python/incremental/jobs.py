"""Measures jobs with a memo; `cargo lab campaign incremental` and `incremental-versions` run it.

It prints a line of JSON behind `incremental: ` for each text and each run.
"""

import argparse
import concurrent.futures
import json
import operator
import os
import pickle
import shutil
import time
from pathlib import Path

import results
import texts
from hadoop import MapReduce
from pyspark.sql import SparkSession

from onefold_spark import incremental

MIB = 1 << 20
CENTROIDS = [(10.0 * i, 7.0 * i % 100) for i in range(8)]


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


def part(a, b):
    return a[0] - b[0], a[1] - b[1], a[2] - b[2]


#: Kind of text, function over the lines, what combines values of a key, and what undoes that.
JOBS = {
    "word-count": ("words", count_words, operator.add, operator.sub),
    "k-means": ("points", nearest, join, part),
    "co-occurrence": ("pairs", count_pairs, operator.add, operator.sub),
}


def summary(rdd):
    """What is kept of the pairs of an RDD, which stay where they are."""

    def of(pairs):
        # as results.hash_of, which workers do not have; their hashes are seeded alike
        count = total = 0
        for pair in pairs:
            count += 1
            total += hash(repr(pair))
        yield count, total

    parts = rdd.mapPartitions(of).collect()
    return results.kept(sum(count for count, _ in parts), sum(total for _, total in parts))


class Spark:
    """A job as users write it for PySpark, without the one line and with it."""

    engine = "spark"

    def __init__(self, spark, job):
        self.kind, self._function, self._combine, self._undo = JOBS[job]
        self._spark = spark
        self._job = job

    def _plain(self, path):
        lines = self._spark.sparkContext.textFile(path.as_uri())
        return lines.mapPartitions(self._function).reduceByKey(self._combine)

    def plain(self, path):
        start = time.monotonic()
        result = summary(self._plain(path))
        return time.monotonic() - start, result

    def pairs(self, path):
        """All that the plain job gives."""
        return self._plain(path).collectAsMap()

    def changed(self, pairs, gone, new):
        return results.changed(pairs, gone, new, self._combine, self._undo)

    @staticmethod
    def result_of(pairs):
        return results.of_pairs(pairs)

    def incremental(self, path, memo):
        start = time.monotonic()
        job = incremental(self._spark, path.as_uri(), memo=memo.as_uri(), name=self._job)
        reduced = job.map_partitions(self._function).reduce_by_key(self._combine)
        result = summary(reduced)
        seconds = time.monotonic() - start
        plan = reduced.plan()
        return seconds, result, {
            "splits": plan.hits + plan.misses, "splits_computed": plan.misses,
            "bytes": plan.hit_bytes + plan.miss_bytes, "bytes_computed": plan.miss_bytes,
            "planning_seconds": plan.seconds,
        }


class Campaign:
    """What all measurements of a run share."""

    def __init__(self, spark, options):
        self.options = options
        self._spark = spark
        self._begin = time.monotonic()
        incremental(spark, str(options.dir))  # so that the session knows the jar

    def tell(self, of, **values):
        print("incremental: " + json.dumps({"of": of, **values}), flush=True)

    def is_late(self, what):
        limit = self.options.limit
        is_late = limit > 0 and time.monotonic() - self._begin > limit
        if is_late:
            self.tell("left_out", what=what, limit_seconds=limit)
        return is_late

    def put(self, stretches, target):
        """Writes a file with a manifest of splits by content, as `onefold incremental put` does."""
        jvm = self._spark.sparkContext._jvm
        incremental_jvm = jvm.onefold.incremental
        put = incremental_jvm.layout.Put(
            self._spark.sparkContext._jsc.hadoopConfiguration(), incremental_jvm.split.SplitSizes.parse(self.options.mean),
            incremental_jvm.split.Records.parse("lines"), True,
        )
        pipe = target.with_name(f"_{target.name}.pipe")
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)

        def write():
            with open(pipe, "wb") as out:
                for stretch in stretches:
                    out.write(stretch)

        with concurrent.futures.ThreadPoolExecutor(1) as other:
            writing = other.submit(write)
            stream = jvm.java.io.FileInputStream(str(pipe))
            try:
                put.blocks(stream, target.name, jvm.org.apache.hadoop.fs.Path(target.as_uri()))
            finally:
                stream.close()
                pipe.unlink()
            writing.result()

    def mean(self):
        return self._spark.sparkContext._jvm.onefold.incremental.split.SplitSizes.parse(self.options.mean).avg()


class Text:
    """A file, its splits by content and of fixed size, and what earlier runs found out about it."""

    def __init__(self, campaign, folder, name, stretches):
        """stretches: called to make the text where it is missing."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fixed").mkdir(exist_ok=True)
        self.name = name
        self.content = folder / name
        self.fixed = folder / "fixed" / name
        self._notes = folder / f".{name}.json"
        self._campaign = campaign
        notes = json.loads(self._notes.read_text()) if self._notes.exists() else {}
        if not notes or not self.content.exists():
            texts.remove(self.content)
            campaign.put(stretches(), self.content)
            if self.content.stat().st_size == 0:
                raise SystemExit(f"{self.content} has no text")
        # reads all of it, so that it is in the kernel's cache
        digest = texts.put_fixed(self.content, self.fixed, campaign.mean())
        if notes.get("digest", digest) != digest:
            raise SystemExit(f"{self.content} has other bytes than before: {digest}, expected {notes['digest']};"
                             f" delete {folder}")
        self._known = notes or {"digest": digest, "results": {}}
        self._note()
        os.sync()
        campaign.tell("text", name=f"{folder.name}/{name}", digest=digest, files=1, bytes=self.content.stat().st_size)

    def _note(self):
        part = self._notes.with_suffix(".part")
        part.write_text(json.dumps(self._known))
        part.rename(self._notes)

    def expect(self, key, result):
        """Holds a result to the first one, which is the plain job's."""
        expected = self._known["results"].setdefault(key, result)
        if result != expected:
            raise SystemExit(f"{self.content}: {key} gives {result}, and the plain job {expected}")
        self._note()

    def is_known(self, key):
        return key in self._known["results"]

    def remove(self):
        texts.remove(self.content)
        texts.remove(self.fixed)


class Series:
    """Runs of one job over texts, with a memo for each way to split."""

    def __init__(self, campaign, job, name, folder, common):
        self._campaign = campaign
        self._job = job
        self.key = f"{job.engine} {name}"
        self._common = {"engine": job.engine, "job": name, **common}
        self._folder = folder
        for splits in ("content", "fixed"):
            shutil.rmtree(self._memo(splits), ignore_errors=True)

    def _memo(self, splits):
        return self._folder / f"memo-{splits}"

    def plain(self, text, **values):
        if self._campaign.is_late(f"{self.key} {text.name}, plain"):
            return
        seconds, result = self._job.plain(text.content)
        text.expect(self.key, result)
        self._tell(text, "plain", seconds, result, values)

    def run(self, text, splits, *, keeps, **values):
        """keeps: whether the memo keeps the results for the runs that come."""
        if self._campaign.is_late(f"{self.key} {text.name}, {splits}"):
            return
        memo = self._memo(splits)
        if not keeps:
            memo = self._folder / "memo-used"
            shutil.rmtree(memo, ignore_errors=True)
            shutil.copytree(self._memo(splits), memo, copy_function=os.link)
            memo.chmod(0o700)
        seconds, result, plan = self._job.incremental(text.fixed if splits == "fixed" else text.content, memo)
        text.expect(self.key, result)
        self._tell(text, splits, seconds, result, {**plan, **values})

    def _tell(self, text, splits, seconds, result, values):
        self._campaign.tell(
            "run", **self._common, text=text.name, cut=splits, seconds=round(seconds, 3), pairs=result["pairs"], **values
        )


class Base:
    """The text that is changed, and what the plain job gives for it and its changes."""

    def __init__(self, campaign, job, reference, name, size):
        self._job, self._reference = job, reference
        self._folder = campaign.options.dir / f"{job.kind}-{size}"
        self.text = Text(campaign, self._folder, "0-none", lambda: texts.Lines(job.kind, 1).take(size * MIB))
        self._pairs = None
        self._name = name

    def pairs(self):
        kept = self._folder / f".0-none.{self._name}.pickle"
        if self._pairs is None and not kept.exists():
            part_of = kept.with_suffix(".part")
            part_of.write_bytes(pickle.dumps(self._reference.pairs(self.text.content)))
            part_of.rename(kept)
        if self._pairs is None:
            self._pairs = pickle.loads(kept.read_bytes())
        return self._pairs

    def changes(self, percent, spread):
        with texts.Mapped(self.text.content) as data:
            yield from texts.changes(data, percent, spread, texts.Lines(self._job.kind, 2))

    def version(self, campaign, percent, spread):
        def stretches():
            return (stretch for what, stretch in self.changes(percent, spread) if what != "gone")

        return Text(campaign, self._folder, f"{percent}-{spread}", stretches)

    def expected(self, percent, spread):
        """What the plain job gives for a version; it runs on the lines that differ alone."""
        paths = {what: self._folder / f"{what}-lines" for what in ("gone", "new")}
        with open(paths["gone"], "wb") as gone, open(paths["new"], "wb") as new:
            files = {"gone": gone, "new": new}
            for what, stretch in self.changes(percent, spread):
                if what in files:
                    files[what].write(stretch)
        gone, new = (self._reference.pairs(path) for path in paths.values())
        for path in paths.values():
            path.unlink()
        return self._job.result_of(self._reference.changed(self.pairs(), gone, new))


def changes(campaign, job, reference, name, size):
    options = campaign.options
    folder = options.dir / f"{job.kind}-{size}"
    series = Series(campaign, job, name, folder, {"experiment": "changes"})
    if campaign.is_late(f"{name}, all"):
        return
    base = Base(campaign, job, reference, name, size)
    if not base.text.is_known(series.key):
        base.text.expect(series.key, job.result_of(base.pairs()))
    unchanged = {"change_percent": 0, "spread": "none"}
    if not options.only_inputs:
        series.plain(base.text, **unchanged)
        for splits in options.splits:
            series.run(base.text, splits, keeps=True, turn="first", **unchanged)
            series.run(base.text, splits, keeps=False, turn="again", **unchanged)
    for spread in options.spreads:
        for percent in options.changes:
            if percent == 0 or campaign.is_late(f"{series.key} {percent}-{spread}"):
                continue
            version = base.version(campaign, percent, spread)
            if not version.is_known(series.key):
                version.expect(series.key, base.expected(percent, spread))
            if not options.only_inputs:
                for splits in options.splits:
                    series.run(version, splits, keeps=False, turn="again", change_percent=percent, spread=spread)
            if options.remove_inputs:
                version.remove()
    if not options.only_inputs:
        series.plain(base.text, **unchanged)


def versions(campaign, job, name):
    options = campaign.options
    folder = options.dir / f"versions-{options.versions.name}"
    series = Series(campaign, job, name, folder, {"experiment": "versions", "data": options.versions.name})
    paths = sorted(each for each in options.versions.iterdir() if not each.name.startswith("."))
    if not paths:
        raise SystemExit(f"{options.versions} is empty, expected a file or a folder for each version")
    for number, path in enumerate(paths):
        version = Text(campaign, folder, path.name, lambda: texts.text_of(path))
        if not options.only_inputs:
            series.plain(version, version=number)
            for splits in options.splits:
                series.run(version, splits, keeps=True, turn="again" if number else "first", version=number)
        if options.remove_inputs:
            version.remove()


def main():
    words = lambda text: text.split(",")  # noqa: E731
    parser = argparse.ArgumentParser()
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--jobs", type=words, required=True)
    parser.add_argument("--mean", required=True)
    parser.add_argument("--splits", type=words, default=["content", "fixed"])
    parser.add_argument("--changes", type=lambda text: [int(each) for each in text.split(",")], default=[])
    parser.add_argument("--spreads", type=words, default=[])
    parser.add_argument("--versions", type=Path)
    parser.add_argument("--limit", type=int, default=0)
    parser.add_argument("--only-inputs", action="store_true")
    parser.add_argument("--remove-inputs", action="store_true")
    options = parser.parse_args()
    if os.environ.get("PYTHONHASHSEED") != "0":
        parser.error("results are compared by hashes that differ: set PYTHONHASHSEED=0")
    options.dir = options.dir.resolve()
    options.dir.mkdir(parents=True, exist_ok=True)
    cores = os.cpu_count()
    spark = (
        SparkSession.builder.master(f"local[{cores}]").config("spark.driver.memory", "2g")
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    campaign = Campaign(spark, options)
    java = spark.sparkContext._jvm.java.lang.System.getProperty("java.version")
    campaign.tell("tools", spark=spark.version, java=java)
    # so that no job pays for the first workers
    spark.sparkContext.parallelize(range(100), 4).map(lambda x: (x % 3, x)).reduceByKey(operator.add).collect()
    for each in options.jobs:
        name, _, size = each.partition("=")
        reference = Spark(spark, "word-count" if name == "mapreduce" else name)
        job = MapReduce(options.dir, cores) if name == "mapreduce" else reference
        name = "word-count" if name == "mapreduce" else name
        if options.versions:
            versions(campaign, job, name)
        else:
            changes(campaign, job, reference, name, int(size))
    spark.stop()


if __name__ == "__main__":
    main()
