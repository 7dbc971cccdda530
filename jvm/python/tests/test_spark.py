"""Jobs on a real Spark: equal to the plain job, and only what changed is computed."""

import hashlib
import os
import random
import stat
import subprocess
import sys
import textwrap
import time
import zipfile
from pathlib import Path

import pytest

import onefold_spark
from onefold_spark import Refused, incremental

MEAN = "2KiB"


def words(lines):
    for line in lines:
        for word in line.split():
            yield word, 1


def add(a, b):
    return a + b


def text(seed, lines=3000):
    rng = random.Random(seed)
    return [" ".join(f"word{rng.randrange(300)}" for _ in range(rng.randrange(8))) for _ in range(lines)]


def write(path, lines):
    path.write_text("\n".join(lines) + "\n")


def changes(lines):
    """The text after changes in place, insertions and deletions."""
    yield "nothing", lines
    yield "in place", lines[:500] + ["changed"] * 20 + lines[520:]
    yield "insertion", lines[:1000] + ["inserted line"] * 15 + lines[1000:]
    yield "deletion", lines[:1500] + lines[1530:]
    yield "at both ends", ["first"] + lines + ["last"]


@pytest.fixture
def memo(tmp_path):
    return tmp_path / "memo"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.txt"
    write(path, text(1))
    return path


def entries(memo):
    return [path for path in memo.glob("entries/*/*") if path.is_file()]


def ensure_whole(memo):
    for entry in entries(memo):
        data = entry.read_bytes()
        assert hashlib.sha256(data[:-32]).digest() == data[-32:], entry


@pytest.mark.parametrize("associative", [False, True])
def test_word_count_is_that_of_the_plain_job_after_every_change(spark, source, memo, associative):
    def counts():
        pairs = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(words)
        return pairs.reduce_by_key(add, associative=associative)

    first = counts()
    assert first.plan().hits == 0 and first.plan().misses > 20
    plain = spark.sparkContext.textFile(str(source)).mapPartitions(words).reduceByKey(add)
    assert dict(first.collect()) == dict(plain.collect())
    for name, changed in changes(text(1)):
        write(source, changed)
        reduced = counts()
        plain = spark.sparkContext.textFile(str(source)).mapPartitions(words).reduceByKey(add)
        assert dict(reduced.collect()) == dict(plain.collect()), name
        plan = reduced.plan()
        assert plan.misses <= (0 if name == "nothing" else 6), (name, plan)
        assert plan.hits > 15, (name, plan)
        if associative:
            assert plan.nodes <= plan.all_nodes * 0.8, (name, plan)
            assert (plan.nodes == 0) == (name == "nothing"), (name, plan)
    ensure_whole(memo)


def test_k_means_with_fixed_centroids_is_that_of_the_plain_job(spark, tmp_path, memo):
    import numpy as np

    centroids = np.array([[0, 0], [50, 50], [90, 10]])
    rng = random.Random(2)
    points = [f"{rng.randrange(100)} {rng.randrange(100)}" for _ in range(3000)]
    path = tmp_path / "points"

    def assign(lines):
        for line in lines:
            point = np.array(line.split(), dtype=np.int64)
            nearest = int(((centroids - point) ** 2).sum(axis=1).argmin())
            yield nearest, (point, 1)

    def join(a, b):
        return a[0] + b[0], a[1] + b[1]

    def sums(rdd):
        return {k: (v[0].tolist(), v[1]) for k, v in rdd.collect()}

    for turn, (name, changed) in enumerate([("first", points), *changes(points)]):
        changed = [line if line[0].isdigit() else "7 7" for line in changed]
        write(path, changed)
        reduced = incremental(spark, path, memo=memo, mean=MEAN).map_partitions(assign).reduce_by_key(join)
        plain = spark.sparkContext.textFile(str(path)).mapPartitions(assign).reduceByKey(join)
        assert sums(reduced) == sums(plain), name
        assert (reduced.plan().hits > 0) == (turn > 0), name
    centroids = centroids + 1
    moved = incremental(spark, path, memo=memo, mean=MEAN).map_partitions(assign)
    assert moved.plan().hits == 0


def test_results_come_in_the_order_of_the_input(spark, source, memo):
    for _, changed in changes(text(1)):
        write(source, changed)
        got = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(lambda lines: lines)
        assert got.collect() == changed


def test_the_tree_combines_in_the_order_of_the_input(spark, source, memo):
    for name, changed in changes(text(1)):
        write(source, changed)
        pairs = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(
            lambda lines: ((0, f"{line}\n") for line in lines))
        reduced = pairs.reduce_by_key(add, 1, associative=True)
        assert dict(reduced.collect()) == {0: source.read_text()}, name


@pytest.mark.parametrize("data", [
    b"", b"\n", b"a", b"a\r\nb\r\n", b"a\rb\nc", b"\xef\xbb\xbfa\nb\n", b"a\n\xef\xbb\xbfb\n", b"\n\n\n",
    b"x" * 5000 + b"\n" + b"y" * 9000, "é\n".encode() * 3000,
    # no UTF-8
    b"a\xed\xa0\x80b\n\xed\xa0\n\xed\n\xff\xe2\x82c\n\xf0\x80\x80\x80\n\xed\xa0",
])
def test_lines_are_those_of_text_files(spark, tmp_path, memo, data):
    path = tmp_path / "text"
    path.write_bytes(data)
    for _ in range(2):
        got = incremental(spark, path, memo=memo, mean="1KiB").map_partitions(lambda lines: lines)
        assert got.collect() == spark.sparkContext.textFile(str(path)).collect()


def test_arrow_batches_are_kept_as_columns(spark, source, memo):
    def lengths(batches):
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            lengths = pc.cast(pc.utf8_length(batch.column(0)), pa.int64())
            yield pa.RecordBatch.from_arrays([batch.column(0), lengths], ["line", "length"])

    os.umask(0o022)
    memo.mkdir(mode=0o755)  # arrow runs no code, so that anybody's folder will do
    for turn in range(2):
        frame = incremental(spark, source, memo=memo, mean=MEAN).map_in_arrow(lengths, "line string, length long")
        got = [(row.line, row.length) for row in frame.collect()]
        assert got == [(line, len(line)) for line in text(1)]
        assert (frame.plan().misses == 0) == (turn == 1)
    total = frame.groupBy().sum("length").collect()[0][0]
    assert total == sum(map(len, text(1)))


def test_a_folder_that_others_can_write_is_refused_with_the_command(spark, source, memo):
    memo.mkdir()
    memo.chmod(0o775)
    with pytest.raises(Refused, match="mode 775, expected .* another folder"):
        incremental(spark, source, memo=memo, mean=MEAN).map_partitions(words).plan()
    memo.chmod(0o700)
    assert incremental(spark, source, memo=memo, mean=MEAN).map_partitions(words).plan().memo


def test_a_new_folder_is_the_users_own(spark, source, memo):
    incremental(spark, source, memo=memo, mean=MEAN).map_partitions(words).count()
    assert stat.S_IMODE(memo.stat().st_mode) == 0o700


def test_a_job_with_an_accumulator_runs_without_a_memo_and_counts_all(spark, source, memo):
    for _ in range(2):
        seen = spark.sparkContext.accumulator(0)

        def f(lines):
            for _ in lines:
                seen.add(1)
                yield 1

        with pytest.warns(UserWarning, match="seen is an accumulator"):
            results = incremental(spark, source, memo=memo, mean=MEAN, version="1").map_partitions(f)
        assert results.count() == seen.value > 0
        assert results.plan().memo is None and not memo.exists()


def test_what_cannot_be_told_runs_without_a_memo_and_says_so(spark, source, memo):
    view = memoryview(b"abc")  # goes to the workers, but cannot be taken apart

    def f(lines):
        return [len(view) for _ in lines]

    with pytest.warns(UserWarning, match="version="):
        results = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(f)
    assert results.plan().memo is None and "version=" in results.plan().reason
    assert not memo.exists()


def test_a_function_that_is_not_steady_fails_the_verification(spark, source, memo):
    def unsteady(lines):
        return [time.time_ns()]

    for _ in range(2):
        pairs = incremental(spark, source, memo=memo, mean=MEAN, verify=100).map_partitions(words)
        assert pairs.reduce_by_key(add).count() > 100
    incremental(spark, source, memo=memo, mean=MEAN).map_partitions(unsteady).count()
    results = incremental(spark, source, memo=memo, mean=MEAN, verify=5).map_partitions(unsteady)
    with pytest.raises(Exception, match="verification failed: the memo's entry [0-9a-f]{64}"):
        results.count()


def test_a_tree_is_not_verified_and_says_so(spark, source, memo):
    pairs = incremental(spark, source, memo=memo, mean=MEAN, verify=5).map_partitions(words)
    with pytest.raises(Refused, match="verify"):
        pairs.reduce_by_key(add, associative=True)


def test_what_is_taken_in_part_leaves_whole_entries_only(spark, source, memo):
    results = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(lambda lines: lines)
    assert results.take(3) == text(1)[:3]
    ensure_whole(memo)
    assert results.collect() == text(1)
    assert len(entries(memo)) == results.plan().misses
    ensure_whole(memo)


def test_a_task_that_is_tried_again_writes_once(spark, source, memo, tmp_path):
    flag = str(tmp_path / "failed")

    def f(lines):
        yield from lines
        if not os.path.exists(flag):
            open(flag, "w").close()
            raise ValueError("the first attempt fails")

    results = incremental(spark, source, memo=memo, mean=MEAN).map_partitions(f)
    assert results.collect() == text(1)
    assert len(entries(memo)) == results.plan().misses
    assert not list(memo.glob("tmp/*"))
    ensure_whole(memo)


def test_connect_sessions_are_refused_with_the_reason():
    session = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(Refused, match="Spark Connect"):
        incremental(session, "x")


def test_nothing_is_read_before_an_action(spark, tmp_path, memo):
    pairs = incremental(spark, tmp_path / "later", memo=memo, mean=MEAN).map_partitions(words)
    write(tmp_path / "later", ["a b a"])
    assert pairs.collect() == [("a", 1), ("b", 1), ("a", 1)]


PROGRAM = """
    import sys, time, os
    from pyspark.sql import SparkSession
    from onefold_spark import incremental
    spark = (SparkSession.builder.master("local[2]").config("spark.driver.memory", "1g")
        .config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false").getOrCreate())
    spark.sparkContext.setLogLevel("ERROR")
    source, memo = sys.argv[1:3]
    def f(lines):
        yield sum(len(line) for line in lines)
        time.sleep(float(os.environ.get("SLOW", 0)))
    results = incremental(spark, source, memo=memo, mean="2KiB", version="1").map_partitions(f)
    print("sum", results.sum(), "hits", results.plan().hits, flush=True)
    print("reason", results.plan().reason)
"""


def program(tmp_path, source, memo, **environment):
    script = tmp_path / "program.py"
    script.write_text(textwrap.dedent(PROGRAM))
    home = str(Path(onefold_spark.__file__).parent.parent)
    return subprocess.Popen([sys.executable, str(script), str(source), str(memo)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
                            env={**os.environ, "PYTHONPATH": home, **environment})


def expected(source):
    return sum(len(line) for line in source.read_text().splitlines())


def test_a_killed_job_leaves_whole_entries_that_the_next_run_uses(tmp_path, source, memo):
    job = program(tmp_path, source, memo, SLOW="0.3")
    deadline = time.monotonic() + 240
    while len(entries(memo)) < 3 and job.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(job.pid, 9)
    job.communicate()
    left = entries(memo)
    assert left
    ensure_whole(memo)
    out, err = program(tmp_path, source, memo).communicate(timeout=240)
    assert f"sum {expected(source)} hits {len(left)}" in out, err


def test_a_damaged_entry_is_named_and_computed_anew(tmp_path, source, memo):
    out, err = program(tmp_path, source, memo).communicate(timeout=240)
    assert f"sum {expected(source)} hits 0" in out, err
    damaged = entries(memo)[0]
    whole = damaged.read_bytes()
    damaged.write_bytes(whole[:-40] + b"!" + whole[-39:])
    out, err = program(tmp_path, source, memo).communicate(timeout=240)
    assert f"sum {expected(source)} hits {len(entries(memo))}" in out, err
    assert f"{damaged.name} is damaged" in err
    assert damaged.read_bytes() == whole


def test_a_folder_that_cannot_be_written_is_done_without_and_told(tmp_path, source):
    out, err = program(tmp_path, source, "/proc/onefold-memo").communicate(timeout=240)
    assert f"sum {expected(source)} hits 0" in out, err
    assert "runs without a memo: the memo /proc/onefold-memo cannot be used" in err
    assert "reason the memo /proc/onefold-memo cannot be used" in out


def test_results_in_the_format_of_another_release_are_computed_and_left_to_it(tmp_path, source, memo):
    program(tmp_path, source, memo).communicate(timeout=240)
    theirs = [entry.rename(f"{entry}.2") for entry in entries(memo)]
    out, err = program(tmp_path, source, memo).communicate(timeout=240)
    assert f"sum {expected(source)} hits 0" in out, err
    assert f"has results of {len(theirs)} splits in the format of another release of onefold only" in err
    assert all(entry.exists() for entry in theirs) and len(entries(memo)) == 2 * len(theirs)


def jar_of_another_release(path):
    """The package's jar, but for the version in it."""
    other = path / "other.jar"
    with zipfile.ZipFile(onefold_spark.jar()) as jar, zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as made:
        for entry in jar.infolist():
            is_version = entry.filename == "onefold/incremental/release"
            made.writestr(entry, "99.0.0" if is_version else jar.read(entry))
    return other


def test_a_jar_of_another_release_is_refused_with_both_versions_and_places(tmp_path, source, memo):
    other = jar_of_another_release(tmp_path)
    _, err = program(tmp_path, source, memo, ONEFOLD_SPARK_JAR=str(other)).communicate(timeout=240)
    package = Path(onefold_spark.__file__).parent
    assert (f"Refused: the package onefold_spark {onefold_spark.__version__} in {package} has found the jar {other}"
            " of version 99.0.0") in err
    assert not memo.exists()
