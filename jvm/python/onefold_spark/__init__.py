"""PySpark jobs that recompute only what changed in their input."""

from ._incremental import Incremental, IncrementalRDD, Plan, Refused, incremental, jar
from ._keys import describe
from ._version import __version__

__all__ = ["Incremental", "IncrementalRDD", "Plan", "Refused", "__version__", "describe", "incremental", "jar"]
