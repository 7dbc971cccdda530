"""PySpark jobs that recompute only what changed in their input."""

from ._incremental import Incremental, IncrementalRDD, Plan, Refused, incremental, jar
from ._keys import describe

__all__ = ["Incremental", "IncrementalRDD", "Plan", "Refused", "describe", "incremental", "jar"]
