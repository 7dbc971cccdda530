"""Incremental operations on PySpark's classic sessions."""

import functools
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

from . import _keys, _records, _worker
from ._version import __version__


class Refused(Exception):
    """What cannot be done, with the reason and the way out."""


@dataclass(frozen=True)
class Plan:
    """What is replayed (hits) and what is computed (misses) of an operation's splits."""

    hits: int
    hit_bytes: int
    misses: int
    miss_bytes: int
    #: Nodes of the reduce tree that are computed, out of all.
    nodes: int
    all_nodes: int
    #: How long planning took on the driver.
    seconds: float
    #: The memo's folder, or None.
    memo: str | None
    #: Why there is no memo.
    reason: str


def jar():
    """The path of the jar that this package brings."""
    path = Path(os.environ.get("ONEFOLD_SPARK_JAR") or Path(__file__).with_name("onefold-spark.jar"))
    if not path.exists():
        raise Refused(f"{path} is missing; build it with: mvn -pl core,spark package")
    return str(path)


def incremental(spark, path, *, memo=None, version=None, verify=0, records="lines", mean="64MiB", name=None):
    """An input whose results are kept by the content of its splits.

    spark: a classic SparkSession, or a SparkContext.
    path: a file or folder of any Hadoop file system, or a list of them.
    memo: the folder that keeps results. Without one, everything is computed.
    version: names what the results depend on besides the functions and the input. Needed where the
        package cannot tell whether a function changed; it says so.
    verify: the percentage of known results that are computed and compared. One that differs fails the job.
    records, mean: how files without a manifest are split: `lines`, `delimiter:X` or `length:N`, and the
        mean length of a split.
    name: what to call the job in messages, `explain` and `stats`.
    """
    return Incremental(spark, path, memo, version, verify, records, mean, name)


class Incremental:
    """An input; see `incremental`. Nothing is read before an action is called."""

    def __init__(self, spark, path, memo, version, verify, records, mean, name):
        self._context = _classic_context(spark)
        self._session = spark if hasattr(spark, "sparkContext") else None
        paths = [path] if isinstance(path, (str, os.PathLike)) else list(path)
        self._paths = [os.fspath(each) for each in paths]
        self._memo = None if memo is None else os.fspath(memo)
        self._version = version
        if not 0 <= float(verify) <= 100:
            raise ValueError(f"verify={verify!r}: expected a percentage, 0 to 100")
        self._verify = float(verify) / 100
        self._records = records
        self._mean = str(mean)
        self._name = name
        _load_jar(self._context)

    def map_partitions(self, function):
        """The results of `function`, which gets an iterator over the records of one split at a time.

        They come in the order of the input, as an RDD.
        """
        from pyspark.serializers import CPickleSerializer

        results = _worker.Pickled(function, CPickleSerializer().dumps)
        bridge = self._bridge("map_partitions", results, {"function": function}, trusting=True)
        return IncrementalRDD(self, function, bridge)

    def map_in_arrow(self, function, schema):
        """A DataFrame of the record batches that `function` yields.

        It gets an iterator over `pyarrow.RecordBatch`es of one column `value`, of one split at a time.
        schema: of the results, as DataFrame.mapInArrow takes it. Results are kept as Arrow streams.
        """
        if self._session is None:
            raise Refused("map_in_arrow makes a DataFrame; call incremental with a SparkSession")
        from pyspark.sql.pandas.types import to_arrow_schema
        from pyspark.sql.types import StructType

        spark_schema = schema if isinstance(schema, StructType) else _parsed(self._session, schema)
        arrow_schema = to_arrow_schema(spark_schema)
        results = _worker.Columns(function, arrow_schema)
        parts = {"schema": spark_schema.json()}
        bridge = self._bridge("map_in_arrow", results, {"function": function}, trusting=False, parts=parts)
        frame = _binary_frame(self._session, bridge.rows()).mapInArrow(_worker.read_columns, spark_schema)
        frame.plan = lambda: _plan(bridge)
        return frame

    def _reduced(self, function, combine, parts):
        from pyspark.serializers import CPickleSerializer

        operation = "reduce_by_key" if parts == 0 else "reduce_by_key in a tree"
        part_of = _portable_hash()
        results = _worker.Combined(function, CPickleSerializer().dumps, combine, parts, part_of)
        functions = {"function": function, "combine": combine}
        return self._bridge(operation, results, functions, trusting=True, tree_parts=parts)

    def _bridge(self, operation, results, functions, *, trusting, parts=None, tree_parts=0):
        memo, reason, key = self._key(operation, functions, parts or {}, tree_parts)
        if tree_parts and memo is not None:
            reason = _call(self._jvm.onefold.spark.PythonBridge.unusable, self._context._jsc, memo, trusting)
            memo = None if reason else memo
        if tree_parts and memo is None:
            return None
        context = self._context
        strings = self._jvm.java.util.ArrayList()
        for path in self._paths:
            strings.add(path)
        key_parts = self._jvm.java.util.HashMap()
        for part, value in key.items():
            key_parts.put(part, value)
        return _call(
            self._jvm.onefold.spark.PythonBridge.of,
            context._jsc, _python_function(context, _worker.Worker(results)), self._name or operation, strings,
            memo, key_parts, trusting, reason, self._records, self._mean, self._verify, tree_parts,
        )

    @property
    def _jvm(self):
        return self._context._jvm

    def _key(self, operation, functions, parts, tree_parts):
        """The memo to use, or None and the reason, and the parts of the key."""
        if self._memo is None:
            return None, "no folder was given", {}
        described = _keys.describe(functions, version=self._version)
        reason = described.reason()
        if reason:
            warnings.warn(f"onefold: {self._name or operation} runs without a memo: {reason}", stacklevel=4)
            return None, reason, {}
        key = dict(described.parts)
        key["operation"] = operation
        key["hash seed"] = self._context.environment.get("PYTHONHASHSEED", "")
        if key["hash seed"] in ("", "random"):
            reason = "PYTHONHASHSEED is random, so that the order of sets changes from run to run; unset it"
            warnings.warn(f"onefold: {self._name or operation} runs without a memo: {reason}", stacklevel=4)
            return None, reason, {}
        key["spark"] = self._context.version
        key["parts"] = str(tree_parts)
        key.update(parts)
        return self._memo, "", key


@functools.cache
def _rdd_class():
    from pyspark import RDD

    class IncrementalRDD(RDD):
        """The results of `map_partitions`: an RDD that can be reduced incrementally."""

        def __init__(self, source, function, bridge):
            super().__init__(bridge.results(), source._context, _pickles())
            self._source = source
            self._function = function
            self._bridge = bridge

        def plan(self):
            """What is replayed and what is computed, planned now unless an action did."""
            return _plan(self._bridge)

        def reduce_by_key(self, combine, num_partitions=None, *, associative=False):
            """Pairs with the values of equal keys combined, as RDD.reduceByKey has them.

            The memo keeps what is combined within each split. `combine` must be associative and
            commutative, as Spark demands it.

            associative: keeps results of groups of splits as well, so that a change combines one path
            of a tree. Values are then combined in the order of the input, and `combine` need not be
            commutative. Each partition of the result must fit a worker's memory.
            """
            source = self._source
            if associative:
                parts = num_partitions or source._context.defaultParallelism
                bridge = source._reduced(self._function, combine, parts)
                if bridge is not None:
                    reduced = RDD(bridge.results(), source._context, _pickles())
                    reduced.plan = lambda: _plan(bridge)
                    return reduced
            bridge = source._reduced(self._function, combine, 0)
            pairs = RDD(bridge.results(), source._context, _pickles())
            reduced = pairs.reduceByKey(combine, num_partitions)
            reduced.plan = lambda: _plan(bridge)
            return reduced

    return IncrementalRDD


class _Lazy(type):
    """Lets the package be imported where PySpark is not, for keys alone."""

    def __call__(cls, *arguments):
        return _rdd_class()(*arguments)


class IncrementalRDD(metaclass=_Lazy):
    """The results of `map_partitions`: an RDD with `plan` and `reduce_by_key`."""


def _classic_context(spark):
    if type(spark).__module__.startswith("pyspark.sql.connect"):
        raise Refused(
            "a Spark Connect session has no RDDs and runs no code on its server; use a classic session:"
            " SparkSession.builder.master(...) without remote(...)"
        )
    context = getattr(spark, "sparkContext", spark)
    if not hasattr(context, "_jsc"):
        raise TypeError(f"spark is a {type(spark).__name__}, expected a SparkSession or SparkContext")
    return context


def _load_jar(context):
    """Makes the jar's classes known to the driver and the executors, unless spark.jars did."""
    from py4j.java_gateway import JavaClass

    jvm = context._jvm
    if not isinstance(jvm.onefold.spark.PythonBridge, JavaClass):
        _add_jar(context, jar())
    _ensure_same_release(jvm)


def _add_jar(context, path):
    jvm = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
    url = jvm.java.io.File(path).toURI().toURL()
    try:
        loader.addURL(url)
    except Exception as error:
        raise Refused(
            f"the session's class loader takes no jars ({error}); start it with .config('spark.jars', onefold_spark.jar())"
        ) from error
    context._jsc.addJar(path)


def _ensure_same_release(jvm):
    """Refuses a jar of another release, whose classes and frames may differ."""
    from py4j.protocol import Py4JError

    try:
        found = jvm.onefold.spark.PythonBridge.version()
    except Py4JError:
        found = "older than 0.0.1"
    if found != __version__:
        loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
        bridge = jvm.java.lang.Class.forName("onefold.spark.PythonBridge", False, loader)
        place = bridge.getProtectionDomain().getCodeSource().getLocation().getPath()
        raise Refused(
            f"the package onefold_spark {__version__} in {Path(__file__).parent} has found the jar {place} of version"
            f" {found}; take that jar out of spark.jars and Spark's class path, since the package brings its own, or"
            f" install the package of its version, and start a new session"
        )


def _python_function(context, worker):
    from pyspark import cloudpickle
    from pyspark.serializers import NoOpSerializer

    try:
        from pyspark.core.rdd import _wrap_function
    except ImportError:  # before 4.0
        from pyspark.rdd import _wrap_function

    for module in (_worker, _records):
        cloudpickle.register_pickle_by_value(module)
    try:
        return _wrap_function(context, worker, NoOpSerializer(), NoOpSerializer())
    finally:
        for module in (_worker, _records):
            cloudpickle.unregister_pickle_by_value(module)


def _pickles():
    from pyspark.serializers import AutoBatchedSerializer, CPickleSerializer

    return AutoBatchedSerializer(CPickleSerializer())


def _portable_hash():
    try:
        from pyspark.core.rdd import portable_hash
    except ImportError:
        from pyspark.rdd import portable_hash
    return portable_hash


def _parsed(session, schema):
    return session.createDataFrame([], schema).schema


def _binary_frame(session, rows):
    from pyspark.sql import DataFrame
    from pyspark.sql.types import BinaryType, StructField, StructType

    schema = StructType([StructField("stream", BinaryType(), False)])
    jsession = session._jsparkSession
    return DataFrame(jsession.createDataFrame(rows, jsession.parseDataType(schema.json())), session)


def _plan(bridge):
    plan = _call(bridge.plan)
    return Plan(
        hits=plan.hits(), hit_bytes=plan.hitBytes(), misses=plan.misses(), miss_bytes=plan.missBytes(),
        nodes=plan.nodes(), all_nodes=plan.allNodes(), seconds=plan.nanos() / 1e9,
        memo=plan.memo() or None, reason=plan.reason(),
    )


def _call(function, *arguments):
    """Calls Java; what it refuses is `Refused` here."""
    from py4j.protocol import Py4JJavaError

    try:
        return function(*arguments)
    except Py4JJavaError as error:
        cause = error.java_exception
        if cause.getClass().getName() == "onefold.incremental.Refused":
            raise Refused(cause.getMessage()) from None
        raise
