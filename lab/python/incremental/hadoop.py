"""Word count of Hadoop's example jar as a process on local files, without a memo and with one."""

import hashlib
import os
import re
import shutil
import subprocess
import time


class MapReduce:
    """Needs HADOOP_CLASSPATH, ONEFOLD_HADOOP_JAR and ONEFOLD_EXAMPLES_JAR."""

    engine = "mapreduce"
    kind = "words"

    def __init__(self, folder, cores):
        self._folder = folder
        self._cores = cores

    def plain(self, path):
        return self._run("org.apache.hadoop.util.RunJar", [], path)

    def incremental(self, path, memo):
        memo.mkdir(mode=0o700, exist_ok=True)
        before = set(runs(memo))
        words = ["run", "--memo", memo.as_uri(), "--"]
        seconds, result = self._run("onefold.incremental.mapreduce.Main", words, path)
        new = set(runs(memo)) - before
        if len(new) != 1:
            raise SystemExit(f"word count of {path} left {len(new)} runs in {memo}, expected 1; see {self._log()}")
        return seconds, result, plan_of(new.pop().read_text(), self._log().read_text(errors="replace"))

    @staticmethod
    def result_of(pairs):
        """That of an output with these words and counts."""
        lines = [f"{word}\t{count}\n".encode() for word, count in sorted(pairs.items(), key=lambda pair: pair[0].encode())]
        return {"pairs": len(lines), "hash": hashlib.sha256(b"".join(lines)).hexdigest()}

    def _run(self, main_class, words, path):
        output = self._folder / "mapreduce-output"
        shutil.rmtree(output, ignore_errors=True)
        jars = [os.environ[name] for name in ("ONEFOLD_HADOOP_JAR", "HADOOP_CLASSPATH")]
        command = ["java", "-Xmx2g", "--add-opens=java.base/java.lang=ALL-UNNAMED", "-cp", os.pathsep.join(jars),
                   main_class, *words, os.environ["ONEFOLD_EXAMPLES_JAR"], "wordcount",
                   f"-Dmapreduce.local.map.tasks.maximum={self._cores}", path.as_uri(), output.as_uri()]
        start = time.monotonic()
        with open(self._log(), "w") as log:
            ended = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False)
        seconds = time.monotonic() - start
        if ended.returncode != 0:
            raise SystemExit(f"word count of {path} ended with {ended.returncode}; see {self._log()}")
        return seconds, result_in(output)

    def _log(self):
        return self._folder / "mapreduce.log"


def runs(memo):
    """The files in which a memo notes what each run found."""
    return (memo / "runs").iterdir() if (memo / "runs").exists() else []


def plan_of(properties, log):
    """What a run found, as such a file says it, and how long the plan took, as the job's log says."""
    values = dict(line.split("=", 1) for line in properties.splitlines() if "=" in line)
    hits, hit_bytes, misses, miss_bytes = (int(values[name]) for name in ("hits", "hit-bytes", "misses", "miss-bytes"))
    planned = re.search(r"; planned in ([0-9.]+) s;", log)
    if planned is None:
        raise SystemExit(f"the job's log does not say how long the plan took: {log}")
    return {"splits": hits + misses, "splits_computed": misses, "bytes": hit_bytes + miss_bytes,
            "bytes_computed": miss_bytes, "planning_seconds": float(planned[1])}


def result_in(output):
    """How many lines the output has, and their digest."""
    digest = hashlib.sha256()
    lines = 0
    for part in sorted(output.glob("part-*")):
        data = part.read_bytes()
        digest.update(data)
        lines += data.count(b"\n")
    return {"pairs": lines, "hash": digest.hexdigest()}
