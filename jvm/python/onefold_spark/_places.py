"""Where a module is, and which versions of packages are installed."""

import functools
import importlib.metadata
import importlib.util
import re
import sys
import sysconfig
from pathlib import Path


def home(value):
    """The module that has this very function or class under its name, as pickle looks it up, or None."""
    module = found = sys.modules.get(value.__module__)
    for name in value.__qualname__.split("."):
        found = getattr(found, "__dict__", {}).get(name)
    # a method of a class
    return module if getattr(found, "__func__", found) is value else None


@functools.cache
def _folders():
    paths = sysconfig.get_paths()
    site = [paths["purelib"], paths["platlib"]]
    import site as of_site

    site += of_site.getsitepackages()
    site.append(of_site.getusersitepackages())
    resolved = [Path(path).resolve() for path in site]
    standard = [Path(paths[name]).resolve() for name in ("stdlib", "platstdlib")]
    return resolved, standard


@functools.cache
def place(module):
    """Where a module is: `python`, a `package`, or `own`, which is everywhere else."""
    if not module:
        return "own"
    top = module.partition(".")[0]
    if top in sys.builtin_module_names:
        return "python"
    if top == "__main__":
        return "own"
    loaded = sys.modules.get(top)
    path = getattr(loaded, "__file__", None) or next(iter(getattr(loaded, "__path__", ())), None)
    if loaded is None:
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            return "own"
        path = spec and spec.has_location and spec.origin
    if not path:  # some of the library is frozen into Python
        return "python" if top in sys.stdlib_module_names else "own"
    where = Path(path).resolve()
    site, standard = _folders()
    if any(where.is_relative_to(folder) for folder in site):
        return "package"
    if any(where.is_relative_to(folder) for folder in standard):
        return "python"
    # PySpark from its own distribution is found by SPARK_HOME
    return "package" if top in ("pyspark", "py4j") else "own"


@functools.cache
def distributions():
    return importlib.metadata.packages_distributions()


@functools.cache
def version(top):
    """Distribution to version of those that bring a package, and that these require; or None."""
    names = distributions().get(top)
    if not names:
        loaded = sys.modules.get(top)
        number = getattr(loaded, "__version__", None)
        return None if number is None else {top: str(number)}
    versions = {}
    waiting = list(names)
    while waiting:
        try:
            found = importlib.metadata.distribution(waiting.pop())
        except importlib.metadata.PackageNotFoundError:  # required on other platforms only
            continue
        if found.name not in versions:
            versions[found.name] = found.version
            waiting.extend(re.match(r"[\w.-]+", each)[0] for each in found.requires or () if "extra ==" not in each)
    return versions
