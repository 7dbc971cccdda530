"""Keys: equal where the results must be, different where they may differ."""

import importlib
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import types
from pathlib import Path

import pytest

from onefold_spark import _keys, _places

HOME = Path(_keys.__file__).parent.parent


def key(function):
    description = _keys.describe({"function": function})
    assert description.unknown == []
    return description.parts


def unknown(function):
    return _keys.describe({"function": function}).unknown


@pytest.fixture
def load(tmp_path, monkeypatch):
    """Loads modules from sources as a new program would, from a folder of their own."""
    counter = iter(range(100))

    def load(folder=None, **sources):
        where = tmp_path / (folder or str(next(counter)))
        where.mkdir(exist_ok=True)
        for name, source in sources.items():
            (where / f"{name}.py").write_text(textwrap.dedent(source))
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        _places.place.cache_clear()
        monkeypatch.syspath_prepend(where)
        return importlib.import_module(list(sources)[-1])

    yield load
    for name in ("job", "helper", "deep", "this"):
        sys.modules.pop(name, None)
    _places.place.cache_clear()


@pytest.fixture
def late(tmp_path, monkeypatch):
    """The key of a function that imports from a folder or an archive of these files when it runs."""
    counter = iter(range(100))

    def present():
        return {name for name in sys.modules if name.partition(".")[0] in ("own", "helper")}

    def late(body, files, archive=False, loaded=()):
        where = tmp_path / f"late{next(counter)}"
        for name, source in files.items():
            (where / name).parent.mkdir(parents=True, exist_ok=True)
            (where / name).write_text(source)
        if archive:
            where = shutil.make_archive(where, "zip", where)
        importlib.invalidate_caches()
        _places.place.cache_clear()
        program = {"__name__": "__main__"}
        exec(f"def f(lines):\n    {body}", program)
        with monkeypatch.context() as patched:
            patched.syspath_prepend(where)
            for name in loaded:
                importlib.import_module(name)
            before = present()
            made = key(program["f"])
            assert present() == before
        for name in before:
            del sys.modules[name]
        return made

    return late


JOB = """
    import helper
    FACTOR = 3
    def f(lines):
        return [len(line) * FACTOR + helper.g(line) for line in lines]
"""


def test_the_same_sources_elsewhere_and_on_other_lines_have_the_same_key(load):
    one = key(load(helper="def g(x): return 1", job=JOB).f)
    other = key(load(helper="def g(x): return 1", job="\n\n# moved\n" + textwrap.dedent(JOB)).f)
    assert one == other


@pytest.mark.parametrize("changed", [
    JOB.replace("* FACTOR", "* 3.0 * FACTOR"),
    JOB.replace("FACTOR = 3", "FACTOR = 4"),
    JOB.replace("FACTOR = 3", "FACTOR = 3.0"),
    JOB.replace("helper.g(line)", "helper.g(lines)"),
    JOB.replace("len(line)", "max(line)"),
])
def test_a_changed_constant_global_or_call_changes_the_key(load, changed):
    one = key(load(helper="def g(x): return 1", job=JOB).f)
    assert one != key(load(helper="def g(x): return 1", job=changed).f)


def test_a_changed_helper_in_another_module_changes_the_key(load):
    one = key(load(helper="def g(x): return 1", job=JOB).f)
    assert one != key(load(helper="def g(x): return 2", job=JOB).f)


def test_a_helper_of_a_helper_counts_however_it_is_imported(load):
    for how in ("import deep\ndef g(x): return deep.h(x)", "from deep import h\ndef g(x): return h(x)",
                "def g(x):\n    import deep\n    return deep.h(x)"):
        one = key(load(deep="def h(x): return 1", helper=how, job=JOB).f)
        assert one != key(load(deep="def h(x): return 2", helper=how, job=JOB).f), how
        by_name = JOB.replace("import helper", "from helper import g").replace("helper.g", "g")
        one = key(load(deep="def h(x): return 1", helper=how, job=by_name).f)
        assert one != key(load(deep="def h(x): return 2", helper=how, job=by_name).f), how


WRAPPERS = {
    "a function": """
        import functools, json
        def safe(fn):
            @functools.wraps(fn)
            def call(x): return DEFAULT
            return call
        parse = safe(json.loads)
    """,
    "a function of a package around an own one": """
        import contextlib, functools, json
        @contextlib.contextmanager
        @functools.wraps(json.loads)
        def parse(x): yield DEFAULT
    """,
    "a function that calls what it wraps by attribute": """
        import functools
        def safe(fn):
            @functools.wraps(fn)
            def call(x): return call.__wrapped__(x)
            return call
        @safe
        def parse(x): return DEFAULT
    """,
    "a class": """
        import functools, json
        class Decoder(json.JSONDecoder):
            def decode(self, x): return DEFAULT
        parse = functools.wraps(json.JSONDecoder, updated=())(Decoder)
    """,
}


@pytest.mark.parametrize("wrapper", WRAPPERS.values(), ids=WRAPPERS)
def test_what_took_the_name_of_something_else_counts_with_its_own_code(load, wrapper):
    for job in ("import helper\ndef f(lines): return helper.parse(lines)",
                "from helper import parse\ndef f(lines): return parse(lines)",
                "import deep\ndef f(lines): return deep.parse(lines)"):
        keys = [key(load(helper=wrapper.replace("DEFAULT", default), deep="from helper import parse", job=job).f)
                for default in ("0", "0", "1")]
        assert keys[0] == keys[1] != keys[2], job


DECORATORS = {
    "by update_wrapper": """
        import functools
        class Safe:
            def __init__(self, fn, state):
                self.state = state
                functools.update_wrapper(self, fn)
            def __call__(self, x): return self.__wrapped__(x), CALL
        @lambda fn: Safe(fn, STATE)
        def parse(x): return BODY
    """,
    "a proxy": """
        class Proxy:
            def __init__(self, fn, state): self.fn, self.state = fn, state
            __class__ = property(lambda self: type(self.fn))
            def __getattr__(self, name): return getattr(self.__dict__["fn"], name)
            def __call__(self, x): return self.fn(x), CALL
        @lambda fn: Proxy(fn, STATE)
        def parse(x): return BODY
    """,
    "a partial": """
        import functools
        class Partial(functools.partial):
            def __call__(self, x): return super().__call__(x), CALL
        def parse(x, y): return BODY
        parse = Partial(parse, STATE)
    """,
}


@pytest.mark.parametrize("decorator", DECORATORS.values(), ids=DECORATORS)
def test_decorators_that_are_classes_count_with_their_code_and_state(load, decorator):
    def made(**changed):
        source = decorator
        for name in ("CALL", "STATE", "BODY"):
            source = source.replace(name, changed.get(name, "0"))
        return key(load(job=textwrap.dedent(source) + "\ndef f(lines): return parse(lines)").f)

    assert made() == made()
    keys = [made(), made(CALL="1"), made(STATE="1"), made(BODY="1")]
    assert len({str(each) for each in keys}) == 4


def test_cached_functions_count_with_their_code_and_how_they_cache(load):
    job = "import functools\n@functools.lru_cache(TYPED)\ndef g(x): return BODY\ndef f(lines): return g(lines)"
    keys = [key(load(job=job.replace("TYPED", typed).replace("BODY", body)).f)
            for typed, body in (("8, True", "0"), ("8, True", "0"), ("8, False", "0"), ("8, True", "1"))]
    assert keys[0] == keys[1] and len({str(each) for each in keys}) == 3


def test_a_cached_function_with_anothers_name_asks_for_a_version():
    import functools
    import json

    cached = functools.wraps(json.loads)(functools.lru_cache(lambda x: 1))
    assert unknown(lambda lines: cached(lines)) == ["what cached caches"]


def test_containers_of_subclasses_count_with_all_their_state():
    import collections

    class Words(list):
        __slots__ = ("case",)

    def words(case):
        made = Words(["a"])
        made.case = case
        return made

    for make in (words, lambda value: collections.defaultdict(lambda: value), lambda value: collections.deque([], value)):
        one, same, other = (key(lambda lines, made=make(value): made) for value in (1, 1, 2))
        assert one == same != other


def test_classes_count_with_what_patterns_match():
    def make(names):
        class Point:
            __match_args__ = names
        return lambda lines: Point

    assert key(make(("x", "y"))) == key(make(("x", "y"))) != key(make(("y", "x")))


def test_patterns_and_data_classes_can_be_told():
    import dataclasses
    import re

    def make(pattern, default):
        compiled = re.compile(pattern)

        @dataclasses.dataclass
        class Point:
            x: int | None = default

        return lambda lines: (compiled, Point)

    assert len({str(key(make(*given))) for given in (("a", 1), ("a", 1), ("b", 1), ("a", 2))}) == 3


def test_functions_and_classes_that_a_package_has_under_their_names_count_by_version():
    import contextlib
    import json

    import numpy as np

    for item in (json.loads, json.JSONDecoder, json.JSONDecoder.decode, contextlib.contextmanager, np.sum, np.ndarray):
        walk = _keys._Walk()
        assert walk._by_name(item), item


PACKAGE = {
    "own/__init__.py": "FACTOR = 1", "own/parser.py": "from .deep.more import g\ndef parse(x): return g(x)",
    "own/deep/__init__.py": "", "own/deep/more.py": "from helper import g", "helper.py": "def g(x): return 1",
}


@pytest.mark.parametrize("archive", [False, True], ids=["folder", "archive"])
@pytest.mark.parametrize("loaded", [(), ("own",), ("own.deep",), ("own.parser",)], ids=str)
@pytest.mark.parametrize("body", [
    "from own.parser import parse; return parse(lines)",
    "from own import parser; return parser.parse(lines)",
    "import own.parser; return own.parser.parse(lines), own.FACTOR",
    "import own.parser as p; from own import FACTOR; return p.parse(lines)",
])
def test_a_late_import_of_a_submodule_counts_with_all_that_it_imports(late, body, loaded, archive):
    one = late(body, PACKAGE, archive, loaded)
    assert one == late(body, PACKAGE, archive, loaded)
    for name, source in PACKAGE.items():
        assert one != late(body, {**PACKAGE, name: source + "\nCHANGED = 1"}, archive, loaded), name


def test_a_late_import_finds_no_more_than_is_there(late):
    for body in ("from own import FACTOR, missing; return FACTOR", "from helper import g; return g",
                 "import missing.more; return missing", "import helper.more; return helper"):
        assert late(body, PACKAGE) and late(body, PACKAGE, loaded=("own", "helper"))


def test_a_file_that_cannot_be_compiled_counts_by_its_bytes(late):
    body = "import own; return own"
    keys = [late(body, {**PACKAGE, "own/template.py": text}) for text in ("{{a}} =", "{{a}} =", "{{b}} =")]
    assert keys[0] == keys[1] != keys[2]


def test_a_library_in_an_unloaded_package_counts(late):
    body = "from own import fast; return fast"
    assert late(body, {**PACKAGE, "own/fast.so": "1"}) != late(body, {**PACKAGE, "own/fast.so": "2"})


def test_a_module_without_source_asks_for_a_version_and_others_still_count(load, monkeypatch):
    class Finder:
        @staticmethod
        def find_spec(name, path=None, target=None):
            return importlib.machinery.ModuleSpec(name, None, origin="nowhere") if name == "a_module" else None

    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    job = "def f(lines):\n    import a_module, helper\n    return helper.g(lines)"
    described = []
    for helper in ("def g(x): return 1", "def g(x): return 2"):
        function = load(helper=helper, job=job).f
        assert unknown(function) == ["the module a_module"]
        described.append(_keys.describe({"function": function}, version="1").parts)
    assert described[0] != described[1]


def test_a_changed_closure_value_or_default_changes_the_key():
    def make(value):
        return lambda lines: [value for _ in lines]

    def with_default(value):
        def f(lines, given=value, *, named=value):
            return given, named
        return f

    values = [1, 2, 1.0, True, "1", b"1", (1,), [1], {1}, frozenset({1}), {1: 1}, None, {"a": [1, {2}]}]
    for maker in (make, with_default):
        keys = [key(maker(value))["function"] for value in values]
        assert len(set(keys)) == len(values)
        assert keys == [key(maker(value))["function"] for value in values]


def test_the_order_of_sets_does_not_matter_and_that_of_lists_does():
    def make(value):
        return lambda lines: value

    words = [f"word{i}" for i in range(100)]
    assert key(make(set(words))) == key(make(set(reversed(words))))
    assert key(make(words)) != key(make(words[::-1]))


def test_classes_count_with_their_methods_and_instances_with_their_state():
    def make(constant, state):
        class Counter:
            def __init__(self):
                self.state = state

            def add(self, x):
                return x + constant

        counter = Counter()
        return lambda lines: counter.add(lines), counter.add

    for i in range(2):
        keys = {str(key(make(*given)[i])) for given in [(1, 1), (2, 1), (1, 2)]}
        assert len(keys) == 3
        assert key(make(1, 1)[i]) == key(make(1, 1)[i])


def test_recursive_functions_and_structures_end():
    def f(n):
        return n and f(n - 1)

    loop = []
    loop.append(loop)
    assert key(f) and key(lambda lines: loop)


def test_objects_with_sets_of_each_other_end():
    class Node:
        def __init__(self, *others):
            self.others = set(others)

    def layers(last):
        top = (last, last)
        for _ in range(100):
            top = (Node(*top), Node(*top))
        return lambda lines: top

    assert key(layers(1)) == key(layers(1)) != key(layers(2))
    ring = [Node() for _ in range(100)]
    for node in ring:
        node.others.update(ring)
    assert "whose items lead back to it" in unknown(lambda lines: ring)[0]


def test_long_chains_of_calls_count_to_their_ends(load):
    def chain(end):
        calls = [f"def f{i}(x): return f{i + 1}(x)" for i in range(500)]
        return key(load(job="\n".join([*calls, f"def f500(x): return {end}"])).f0)

    assert chain(1) == chain(1) != chain(2)


def test_structures_that_are_nested_too_deeply_ask_for_a_version():
    nested = []
    for _ in range(100_000):
        nested = [nested]
    assert unknown(lambda lines: nested) == ["nested, nested too deeply,"]
    while nested:
        nested = nested.pop()


def test_packages_count_by_version_and_the_library_by_python():
    import decimal

    import numpy as np

    parts = key(lambda lines: np.sum(decimal.Decimal(1)))
    assert parts["package numpy"] == np.__version__
    array = np.arange(4)
    assert key(lambda lines: array) != key(lambda lines, array=array + 1: array)


@pytest.mark.parametrize("make", [
    lambda: socket.socket(),
    lambda: open(os.devnull),
    lambda: iter([1]).__class__.__call__ and (i for i in ()),
], ids=["socket", "file", "generator"])
def test_an_object_that_cannot_be_told_asks_for_a_version(make):
    thing = make()
    function = lambda lines: thing  # noqa: E731
    [named] = unknown(function)
    assert named.startswith("thing ")
    described = _keys.describe({"function": function})
    assert "version=" in described.reason()
    versions = [_keys.describe({"function": function}, version=v) for v in ("1", "1", "2")]
    assert all(v.unknown == [] for v in versions)
    assert versions[0].parts == versions[1].parts != versions[2].parts


def test_a_global_that_cannot_be_told_asks_for_a_version(load):
    job = load(job="import threading\nLOCK = threading.Lock()\ndef f(lines):\n    with LOCK: return list(lines)\n")
    assert unknown(job.f) == ["LOCK (a _thread.lock)"]


def test_an_own_module_with_the_name_of_one_of_the_library_counts_by_its_code(load):
    for job in ("import this\ndef f(lines): return this.g(lines)", "from this import g\ndef f(lines): return g(lines)",
                "def f(lines):\n    import this\n    return this.g(lines)"):
        keys = [key(load(this=f"def g(x): return {text}", job=job).f) for text in (0, 0, 1)]
        assert keys[0] == keys[1] != keys[2]


def test_every_module_of_the_library_is_pythons():
    assert {name for name in sys.stdlib_module_names if _places.place(name) != "python"} == set()


def test_a_class_of_an_own_library_counts_by_the_librarys_bytes(tmp_path, monkeypatch):
    keys = []
    for number in range(2):
        fast = types.ModuleType("fast")
        fast.__file__ = str(tmp_path / f"{number}.so")
        Path(fast.__file__).write_text(str(number))
        monkeypatch.setitem(sys.modules, "fast", fast)
        made = type("Made", (), {"__module__": "fast"})
        keys.append(key(lambda lines, made=made: made))
    assert keys[0] != keys[1]


def test_the_order_of_an_arrays_bytes_counts():
    import numpy as np

    def make(order):
        array = np.array([[1, 2], [3, 4]], order=order)
        return lambda lines: array.ravel("K")

    assert key(make("C")) == key(make("C")) != key(make("F"))


ANNOTATED = """
    import typing
    T = typing.TypeVar("T", bound=int)
    class Celsius(float):
        ZERO = 273
    class Row(typing.Generic[T]):
        "A row."
        time: int
        degrees: Celsius | None
        next: typing.Optional["Row"]
        def f(self, x: typing.Callable[[T], list[T]]) -> typing.Annotated[int, lambda: 0]: return x
    def g(x: typing.List[str]) -> T: return x
    def f(lines):
        return typing.get_type_hints(Row), typing.get_type_hints(g), Row.__doc__
"""


@pytest.mark.parametrize("changed", [
    ANNOTATED.replace("time: int", "time: float"), ANNOTATED.replace("273", "0"), ANNOTATED.replace("[str]", "[bytes]"),
    ANNOTATED.replace("bound=int", "bound=str"), ANNOTATED.replace("A row.", "A line."),
    ANNOTATED.replace("lambda: 0", "lambda: 1"),
])
def test_annotations_and_docstrings_count_since_code_can_read_them(load, changed):
    one = key(load(job=ANNOTATED).f)
    assert one == key(load(job=ANNOTATED).f) != key(load(job=changed).f)


@pytest.mark.parametrize("job", [
    "import helper\ndef f(lines): return helper.g(lines)", "from helper import g\ndef f(lines): return g(lines)",
    "def f(lines):\n    import helper\n    return helper.g(lines)",
])
def test_a_file_that_changed_after_a_job_used_it_is_named_whatever_version_is_given(load, job):
    function = load(helper="def g(x): return 1", job=job).f
    assert key(function) == key(function)
    helper = importlib.import_module("helper")
    Path(helper.__file__).write_text("def g(x): return 22")
    for _ in range(2):
        reason = _keys.describe({"function": function}, version="1").reason()
        assert "helper.py changed after a job of this program used it" in reason
        importlib.reload(helper)


def test_accumulators_are_named_whatever_version_is_given():
    from pyspark.accumulators import INT_ACCUMULATOR_PARAM, Accumulator

    class Named(Accumulator):
        pass

    for kind in (Accumulator, Named):
        bad = kind(0, 0, INT_ACCUMULATOR_PARAM)
        for given in (bad, [bad], {bad}):
            described = _keys.describe({"f": lambda lines, given=given: given}, version="1")
            assert described.unknown == [] and len(described.refused) == 1
            assert "is an accumulator" in described.reason() and "memo=" in described.reason()
        named = _keys.describe({"f": lambda lines: bad.add(1)}, version="1")
        assert named.reason().startswith("bad is")


@pytest.mark.parametrize("call", [
    "eval('g')(lines)", "exec('g(lines)')", "globals()['g'](lines)", "__import__('helper').g(lines)",
    "importlib.import_module('helper').g(lines)", "import_module('helper').g(lines)",
])
def test_code_by_a_computed_name_asks_for_a_version(load, call):
    source = f"import importlib\nfrom importlib import import_module\ndef g(x): return 1\ndef f(lines): return {call}"
    [reached] = unknown(load(job=source).f)
    assert reached.startswith("what ") and reached.endswith(" reaches in function")
    assert unknown(load(job="def f(lines): return lines.eval(1)").f) == []


def test_packages_count_with_the_versions_of_what_they_require(tmp_path, monkeypatch):
    def install(name, version, *required):
        where = tmp_path / f"{name}-{version}.dist-info"
        where.mkdir()
        (where / "METADATA").write_text("\n".join([
            "Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *(f"Requires-Dist: {r}" for r in required),
        ]))
        (where / "top_level.txt").write_text(name)

    install("one", "1", "two>=1; python_version > '3'", "absent", "three; extra == 'all'")
    install("two", "2", "one", "four[x] (>=3)")
    install("three", "3")
    install("four", "4")
    monkeypatch.syspath_prepend(tmp_path)
    for cached in (_places.distributions, _places.version):
        cached.cache_clear()
    try:
        assert _places.version("one") == {"one": "1", "two": "2", "four": "4"}
    finally:
        for cached in (_places.distributions, _places.version):
            cached.cache_clear()


def test_code_of_a_version_still_counts():
    one = _keys.describe({"function": lambda lines: 1}, version="1")
    assert one.parts != _keys.describe({"function": lambda lines: 2}, version="1").parts


PROGRAM = """
import sys, json
sys.path.insert(0, {home!r})
from onefold_spark import _keys, _places
words = {{"a", "b", "c", "d"}}
def f(lines):
    return [x for x in lines if x in words]
print(json.dumps(_keys.describe({{"function": f}}).parts, sort_keys=True))
"""


def run(python, **environment):
    program = PROGRAM.format(home=str(HOME))
    return subprocess.run([python, "-c", program], check=True, capture_output=True, text=True,
                          env={**os.environ, **environment}).stdout


def test_another_process_with_another_hash_seed_has_the_same_key():
    assert run(sys.executable, PYTHONHASHSEED="1") == run(sys.executable, PYTHONHASHSEED="2")


def test_another_python_has_another_key():
    here = sys.version_info
    for minor in (10, 12, 13, 14):
        found = [p for p in (f"/usr/bin/python3.{minor}", *map(str, Path.home().glob(f".pyenv/versions/3.{minor}.*/bin/python3")))
                 if os.path.exists(p)]
        if minor != here.minor and found:
            assert run(found[0]) != run(sys.executable)
            return
    pytest.skip("no other Python from 3.10 on is installed")
