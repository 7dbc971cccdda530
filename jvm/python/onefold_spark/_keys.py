"""What the results of Python functions depend on, as text that is equal where they are.

A function is told by its code without file and line, its defaults, what it closes over, and the globals
that it refers to, recursively. Modules of the user's own are told by their source, packages by their
version and those of what they require, the standard library by Python's version. A function or class is told
by a package's name for it only if a look-up of that name gives the same object. Other objects are told as
pickle takes them apart. What cannot be told is named, and a version must stand for it. No version can stand for an
accumulator, or for a file that changes while workers may run its old code.

Not seen: files and tables that a function reads, the environment, the time, random numbers, and what own
modules import by a computed name. A version must name those as well.
"""

import contextlib
import copyreg
import dis
import enum
import functools
import gc
import hashlib
import importlib.util
import inspect
import itertools
import re
import struct
import sys
import types
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

from . import _places


@dataclass
class Description:
    """Parts of a key, what cannot be told, and why no key could be right, whatever version is given."""

    parts: dict = field(default_factory=dict)
    unknown: list = field(default_factory=list)
    refused: list = field(default_factory=list)

    def reason(self):
        """Why the functions' results cannot be kept, or an empty text."""
        if self.refused:
            return self.refused[0]
        if not self.unknown:
            return ""
        named = "; ".join(self.unknown[:3])
        more = f" and {len(self.unknown) - 3} more" if len(self.unknown) > 3 else ""
        return f"cannot tell whether {named}{more} changed; name it with version=, and change that with it"


def describe(functions, version=None):
    """The key's parts for functions by name. With a version nothing is unknown."""
    description = Description()
    packages = {}
    for name, function in functions.items():
        walk = _Walk()
        with _deep():
            walk.value(function, name)
        description.parts[name] = walk.digest()
        packages.update(walk.packages)
        description.refused.extend(walk.refused)
        if version is None:
            description.unknown.extend(walk.unknown)
    implementation = sys.implementation.name
    description.parts["python"] = f"{implementation} {sys.version_info.major}.{sys.version_info.minor}.{sys.version_info.micro}"
    for package, number in packages.items():
        description.parts[f"package {package}"] = number
    if version is not None:
        description.parts["version"] = str(version)
    return description


_SIMPLE = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
#: Built-in functions that reach code by names that only a run computes; importlib.import_module is another.
_COMPUTED = {"eval", "exec", "globals", "__import__"}
#: Digests of the files of own code when a job of this program first used them.
_FILES = {}
#: Files that can be imported; those of __pycache__ follow from others.
_LIBRARIES = (".so", ".pyd")
_SOURCES = (".py", *_LIBRARIES)
_NAMES = {"LOAD_GLOBAL", "LOAD_NAME"}
#: What a class has that tells nothing of its behaviour, or that Python makes anew.
_OF_CLASSES = {
    "__dict__", "__weakref__", "__module__", "__firstlineno__", "__static_attributes__",
    "__annotations__", "__annotate__", "__annotate_func__", "__annotations_cache__", "_abc_impl",
    "__abstractmethods__", "__qualname__", "__slotnames__",
}


_HINTS = (types.GenericAlias, types.UnionType)


@contextlib.contextmanager
def _deep():
    """Lets a walk follow long chains of calls and imports, with several frames for each link."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, 10_000))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


class _Unknown(Exception):
    pass


def _nested(code):
    """The code, and that of the functions and classes in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _nested(constant)


def _imported(code, package):
    """Names of the modules that code imports, of their parents, and of what may be their submodules."""
    names = set()
    for each in _nested(code):
        # the compiler loads the level and the wanted names just before
        loaded = []
        for instruction in dis.get_instructions(each):
            if instruction.opname in ("LOAD_CONST", "LOAD_SMALL_INT"):
                loaded.append(instruction.argval)
            elif instruction.opname == "IMPORT_NAME":
                level, wanted = loaded[-2:]
                name = instruction.argval
                if level:
                    parents = package.split(".")
                    base = ".".join(parents[:len(parents) - level + 1])
                    name = f"{base}.{name}" if name else base
                names.update(itertools.accumulate(name.split("."), "{}.{}".format))
                names.update(f"{name}.{item}" for item in wanted or ())
    return names - {""}


class _Walk:
    """Writes a value down, each part with its kind and length, into one digest."""

    def __init__(self, items=None):
        """`items` has the items of sets that were met before, by id, with their digests."""
        self._items = {} if items is None else items
        self._hash = hashlib.sha256()
        self._seen = {}
        self._kept = []
        self._sources = set()
        self._files = set()
        self.unknown = []
        self.refused = []
        self.packages = {}

    def digest(self):
        return "sha256:" + self._hash.hexdigest()

    def _put(self, kind, data=b""):
        if isinstance(data, str):
            data = data.encode("utf-8", "surrogatepass")
        self._hash.update(kind.encode() + b"\0" + struct.pack(">Q", len(data)) + data)

    def value(self, value, where):
        """`where` names the value in messages."""
        if type(value) in _SIMPLE:
            self._put(type(value).__name__, value if isinstance(value, bytes) else repr(value))
            return
        if type(value) in (float, complex):
            self._put(type(value).__name__, struct.pack(">dd", complex(value).real, complex(value).imag))
            return
        if id(value) in self._seen:
            self._put("again", str(self._seen[id(value)]))
            return
        self._seen[id(value)] = len(self._kept)
        # an object that went would leave its number to another
        self._kept.append(value)
        self._try(self._compound, value, where)

    def _try(self, method, *arguments):
        """Calls a method, and notes what cannot be told."""
        try:
            method(*arguments)
        except (_Unknown, RecursionError) as error:
            self._put("unknown")
            self.unknown.append(str(error) if isinstance(error, _Unknown) else f"{arguments[-1]}, nested too deeply,")

    def _compound(self, value, where):
        method = self._EXACT.get(type(value))
        if method is not None:
            method(self, value, where)
            return
        for kinds, method in self._METHODS:
            # a proxy's __class__ is that of what it wraps
            if issubclass(type(value), kinds):
                method(self, value, where)
                return
        pyspark = {kind.__name__ for kind in type(value).__mro__ if str(kind.__module__).startswith("pyspark.")}
        if "Accumulator" in pyspark:
            self._put("accumulator")
            self.refused.append(f"{where} is an accumulator, to which replayed splits would add nothing; yield what it"
                                " counts as results, or take memo= out")
        elif "Broadcast" in pyspark:
            self._put("broadcast")
            self.value(value.value, where)
        else:
            self._reduced(value, where)

    def _sequence(self, value, where):
        self._put(type(value).__name__, str(len(value)))
        for item in value:
            self.value(item, where)

    def _mapping(self, value, where):
        self._put("dict", str(len(value)))
        for key, item in value.items():
            self.value(key, where)
            self.value(item, f"{where}[{key!r}]" if isinstance(key, (str, int)) else where)

    def _proxy(self, value, where):
        self._put("proxy")
        self.value(dict(value), where)

    def _set(self, value, where):
        self._put(type(value).__name__, ",".join(sorted([self._item(item, where) for item in value])))

    def _item(self, item, where):
        """The digest of a set's item, which does not depend on what was seen before."""
        if id(item) not in self._items:
            self._items[id(item)] = item, None
            walk = _Walk(self._items)
            walk.value(item, where)
            self._items[id(item)] = item, walk.digest()
            self.unknown.extend(walk.unknown)
            self.refused.extend(walk.refused)
            self.packages.update(walk.packages)
        digest = self._items[id(item)][1]
        if digest is None:
            raise _Unknown(f"{where}, whose items lead back to it,")
        return digest

    def _bytearray(self, value, where):
        self._put("bytearray", bytes(value))

    def _function(self, value, where):
        # the home of the code: functools.wraps copies __module__
        if _places.place(value.__globals__.get("__name__")) != "own" and self._by_name(value):
            return
        file = value.__globals__.get("__file__")
        if file and file not in self._files and value.__globals__.get("__name__") != "__main__":
            self._files.add(file)
            if Path(file).is_file():
                self._read(Path(file))
        self._put("function")
        self._code(value.__code__, where)
        self.value(value.__defaults__, f"a default of {where}")
        self.value(value.__kwdefaults__, f"a default of {where}")
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or ()):
            self._put("closed", name)
            try:
                self.value(cell.cell_contents, name)
            except ValueError:  # not bound yet
                self._put("empty")
        self.value(value.__dict__ or None, where)
        self.value(_annotations(value) or None, where)
        self._globals(value.__code__, value.__globals__, where)

    def _code(self, code, where):
        self._put("code")
        for item in (
            code.co_code, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars, code.co_argcount,
            code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags,
            getattr(code, "co_exceptiontable", None),
        ):
            self._constant(item, where)
        for constant in code.co_consts:
            self._constant(constant, where)

    def _constant(self, constant, where):
        """A constant of code; equal ones need not be one object, so that they are never "again"."""
        if isinstance(constant, types.CodeType):
            self._code(constant, where)
        elif isinstance(constant, tuple):
            self._put("tuple", str(len(constant)))
            for item in constant:
                self._constant(item, where)
        else:
            self._seen.pop(id(constant), None)
            self.value(constant, where)

    def _globals(self, code, given, where):
        names = set()
        for each in _nested(code):
            names.update({"import_module"}.intersection(each.co_names))
            for instruction in dis.get_instructions(each):
                if instruction.opname in _NAMES or instruction.opname.startswith("LOAD_FROM_DICT_OR_GLOBALS"):
                    names.add(instruction.argval)
        for name in sorted(names):
            if name in given:
                self._put("global", name)
                self.value(given[name], name)
            if name == "import_module" or name in _COMPUTED and name not in given:
                self.unknown.append(f"what {name} reaches in {where}")
        self._imports(code, given.get("__package__") or "")

    def _imports(self, code, package):
        """What code imports when it runs."""
        for name in sorted(_imported(code, package)):
            parent = name.rpartition(".")[0]
            if sys.modules.get(name) is not None:
                self._put("import", name)
                self.value(sys.modules[name], name)
            elif not parent or parent in sys.modules:  # else the parent's sources have told it
                self._put("import", name)
                self._try(self._unloaded, name)

    def _unloaded(self, name):
        """A module or package that no program has imported yet: all its sources."""
        place = _places.place(name)
        if place != "own":
            self._package(name.partition(".")[0], place)
            return
        try:
            spec = importlib.util.find_spec(name)
        except ImportError:  # the parent is no package
            spec = None
        if spec is None:  # an attribute of the parent, or an import that may fail
            self._put("missing", name)
            return
        folders = spec.submodule_search_locations
        if spec.origin is None and folders is None:
            raise _Unknown(f"the module {name}")
        if spec.origin is not None:
            self._file(Path(spec.origin), spec.parent, name)
        for folder in map(Path, folders or ()):
            if not folder.is_dir():
                self._file(folder, name, name)
            for file in sorted(folder.rglob("*")):
                if file.suffix in _SOURCES:
                    within = file.relative_to(folder)
                    self._put("file", within.as_posix())
                    self._file(file, ".".join([name, *within.parent.parts]), name)

    def _file(self, path, package, name):
        """A file of a module's code, or the whole archive that it is in."""
        archive = next((each for each in path.parents if each.is_file()), None)
        if path.is_file():
            if path not in self._sources:
                self._sources.add(path)
                self._source(self._read(path), path, package)
        elif archive is None or not zipfile.is_zipfile(archive):
            raise _Unknown(f"the module {name}")
        elif archive not in self._sources:
            self._sources.add(archive)
            self._read(archive)
            with zipfile.ZipFile(archive) as opened:
                for each in sorted(set(opened.namelist())):
                    self._put("file", each)
                    self._source(opened.read(each), Path(each), ".".join(Path(each).parent.parts))

    def _read(self, path):
        content = path.read_bytes()
        digest = hashlib.sha256(content).digest()
        if _FILES.setdefault(path, digest) != digest:
            self.refused.append(f"{path} changed after a job of this program used it, so that workers may still run the"
                                " old code; start a new session")
        return content

    def _source(self, source, path, package):
        self._put("source", source)
        if path.suffix == ".py":
            try:
                code = compile(source, str(path), "exec", dont_inherit=True)
            except (SyntaxError, ValueError):  # a file that no program can import
                return
            self._imports(code, package)

    def _module(self, module, where):
        name = module.__name__
        place = _places.place(name)
        if place != "own":
            self._package(name.partition(".")[0], place)
            self._put("module", name)
            return
        path = getattr(module, "__file__", None)
        if path is None and hasattr(module, "__path__"):  # a namespace package has no code of its own
            self._put("namespace", name)
        elif path is None or name == "__main__":
            raise _Unknown(f"the module {name}")
        else:
            self._file(Path(path), module.__package__ or "", name)
        for attribute, item in sorted(vars(module).items()):
            if isinstance(item, types.ModuleType):
                self._put("uses", attribute)
                self.value(item, attribute)
            elif isinstance(item, (types.FunctionType, type)):
                home = _places.home(item)
                if home is not module and getattr(item, "__globals__", None) is not vars(module):
                    self._put("uses", attribute)
                    self.value(home or item, attribute)

    def _package(self, top, place):
        if place == "python":
            self._put("python", top)
            return
        number = _places.version(top)
        if number is None:
            raise _Unknown(f"the package {top}, which has no version")
        self.packages.update(number)
        self._put("package", top)

    def _by_name(self, value):
        """Writes down a function or class that a package has under its name; false if none has."""
        place = _places.place(value.__module__)
        if place == "own" or _places.home(value) is None:
            return False
        self._named(value, place)
        return True

    def _named(self, value, place):
        module = value.__module__ or "builtins"
        self._package(module.partition(".")[0], place)
        self._put("named", f"{module}.{value.__qualname__}")

    def _builtin(self, value, where):
        owner = value.__self__
        if owner is None or isinstance(owner, types.ModuleType):
            self._named(value, _places.place(value.__module__ or "builtins"))
        else:
            self._put("bound", value.__qualname__)
            self.value(owner, where)

    def _cached(self, value, where):
        # functools.wraps may have put another function there
        if not any(each is value.__wrapped__ for each in gc.get_referents(value)):
            raise _Unknown(f"what {where} caches")
        self._put("cached")
        self.value(value.__dict__, where)

    def _descriptor(self, value, where):
        self._put("descriptor", value.__qualname__)
        self.value(value.__objclass__, where)

    def _method(self, value, where):
        self._put("method")
        self.value(value.__func__, where)
        self.value(value.__self__, where)

    def _wrapped_method(self, value, where):
        self._put(type(value).__name__)
        self.value(value.__func__, where)

    def _property(self, value, where):
        self._put("property")
        for part in (value.fget, value.fset, value.fdel):
            self.value(part, where)

    def _class(self, value, where):
        if self._by_name(value):
            return
        self._put("class", f"{value.__module__}.{value.__qualname__}")
        for base in value.__bases__:
            self.value(base, where)
        if type(value) is not type:
            self.value(type(value), where)
        if (getattr(sys.modules.get(value.__module__), "__file__", None) or "").endswith(_LIBRARIES):
            self.value(sys.modules[value.__module__], where)
        for name, item in sorted(vars(value).items()):
            if name not in _OF_CLASSES and not isinstance(item, types.MemberDescriptorType):
                self._put("attribute", name)
                self.value(item, f"{where}.{name}")
        self.value(_annotations(value) or None, where)

    def _member(self, value, where):
        self._put("member", str(value.name))
        self.value(type(value), where)
        self.value(value.value, where)

    def _array(self, value, where):
        import numpy

        if value.dtype.hasobject:
            self._put("array", str(value.shape))
            self.value(value.tolist(), where)
            return
        self._package("numpy", "package")
        self._put("array", f"{value.dtype.str} {value.dtype.descr} {value.shape} {value.flags.fnc}")
        self._put("bytes", numpy.ascontiguousarray(value).tobytes())

    def _hint(self, value, where):
        """A type variable, union, generic class or other hint: few of them can be pickled."""
        self._put("hint", re.sub(" at 0x[0-9a-fA-F]+", "", repr(value)))
        for part in ("__origin__", "__args__", "__metadata__", "__bound__", "__constraints__", "__supertype__",
                     "__value__"):
            self.value(getattr(value, part, None), where)

    def _reduced(self, value, where):
        """As pickle takes an object apart."""
        if type(value) in _HINTS or type(value).__module__ in ("typing", "annotationlib"):
            self._hint(value, where)
            return
        if type(value).__module__ == "numpy" and type(value).__name__ == "ndarray":
            self._array(value, where)
            return
        named = f"{where} (a {type(value).__module__}.{type(value).__qualname__})"
        reducer = copyreg.dispatch_table.get(type(value))
        try:
            reduced = reducer(value) if reducer else value.__reduce_ex__(4)
        except Exception as error:
            raise _Unknown(named) from error
        if isinstance(reduced, str):
            raise _Unknown(named)
        self._put("object")
        self._class(type(value), where)
        function, arguments, *rest = reduced
        for part in (function, arguments, *rest[:1], *rest[3:]):
            self.value(part, where)
        for items in rest[1:3]:
            self.value(None if items is None else list(items), where)

    _METHODS = (
        (types.FunctionType, _function),
        (types.MethodType, _method),
        ((types.BuiltinFunctionType, types.BuiltinMethodType), _builtin),
        ((types.MethodDescriptorType, types.WrapperDescriptorType, types.ClassMethodDescriptorType), _descriptor),
        (types.GetSetDescriptorType, _descriptor),
        (types.ModuleType, _module),
        (enum.Enum, _member),
        (type, _class),
    )
    #: Of these very types; an object of a subclass has state of its own.
    _EXACT = {
        list: _sequence, tuple: _sequence, dict: _mapping, types.MappingProxyType: _proxy, set: _set,
        frozenset: _set, bytearray: _bytearray, classmethod: _wrapped_method, staticmethod: _wrapped_method,
        property: _property, functools._lru_cache_wrapper: _cached,
    }


def _annotations(value):
    if sys.version_info < (3, 14):
        return inspect.get_annotations(value)
    import annotationlib

    return annotationlib.get_annotations(value, format=annotationlib.Format.FORWARDREF)
