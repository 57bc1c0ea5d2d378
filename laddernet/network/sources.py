"""A digest of the code of a user's combinator, so that an edited combinator is another model.

It covers the text of the files that define the class and its base classes, and of the modules in the same folder or
package that these files import. It does not cover libraries, nor laddernet, whose code has `REVISION`
(laddernet.training.config). Files count as a whole, because a class may call any function of its module.
"""

import ast
import hashlib
import json
import sys
import uuid
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from weakref import WeakKeyDictionary

from laddernet.errors import InputError
from laddernet.files import reading

_LOADED: dict[Path, str] = {}  # the SHA-256 of each file as Python executed it
_WITHOUT_FILE: WeakKeyDictionary[type, str] = WeakKeyDictionary()


def record(kind: type) -> None:
    """Record the files of a class when it is defined: they may be edited before its digest is computed."""
    if _top(kind) != "laddernet" and (file := _file(kind)):
        texts = _texts(file, _root(kind, file))
        for path, content in texts.items():
            _LOADED.setdefault(path, _sha256(content))
        _LOADED[file] = _sha256(texts[file])  # replaced if the file was executed before


def execute(path: Path) -> ModuleType:
    """Return the module of a file, executed again if its text has changed.

    The text is compiled here, because Python's cache of compiled files confuses two texts of the same second and size.
    """
    path = path.resolve()
    name = str(path)
    content = path.read_bytes()
    before = sys.modules.get(name)
    if before is not None and _LOADED.get(path) == _sha256(content):
        return before
    module = ModuleType(name)
    module.__file__ = name
    code = compile(content, name, "exec", dont_inherit=True)
    sys.modules[name] = module  # dataclasses look their module up while the class is made
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(name)
        if before is not None:
            sys.modules[name] = before
        raise
    _LOADED[path] = _sha256(content)
    return module


def digest(kind: type) -> str | None:
    """Return the digest of the code of a class; None for a class of laddernet.

    A class without a file (defined in a notebook or by ``exec``) has a new digest each time it is defined: there is no
    text to compare, and no other process could load it.
    """
    if _top(kind) == "laddernet":
        return None
    parts: dict[str, str] = {}
    for base in kind.__mro__:
        file = _file(base)
        if base is not kind and _is_library(base, file, kind):
            continue
        if file is None:
            parts[base.__qualname__] = _WITHOUT_FILE.setdefault(base, uuid.uuid4().hex)
            continue
        root = _root(base, file)
        for path, content in _texts(file, root).items():
            parts[path.relative_to(root).as_posix()] = found = _sha256(content)
            if _LOADED.setdefault(path, found) != found:
                advice = "start Python anew to use it as it is now"
                raise InputError(f"{path} has changed since Python loaded it; {advice}.")
    return _sha256(json.dumps(parts, sort_keys=True).encode())


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _top(kind: type) -> str:
    return kind.__module__.partition(".")[0]


def _is_library(base: type, file: Path | None, kind: type) -> bool:
    """Return whether a base class of ``kind`` is part of laddernet, of Python or of an installed package."""
    if _top(base) == "laddernet" or _top(base) in sys.stdlib_module_names:
        return True
    return file is not None and _is_installed(file) and _top(base) != _top(kind)


def _is_installed(path: Path) -> bool:
    return not {"site-packages", "dist-packages"}.isdisjoint(path.parts)


def _file(kind: type) -> Path | None:
    """Return the Python file that defines a class; None if there is none."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    code = getattr(vars(kind).get("__call__"), "__code__", None)
    made_of_text = code is not None and code.co_filename.startswith("<")
    path = Path(str(file)).resolve()
    return path if path.suffix == ".py" and path.is_file() and not made_of_text else None


def _root(kind: type, file: Path) -> Path:
    """Return the folder in which Python finds the modules that are neighbours of that of a class."""
    module = kind.__module__
    if module == "__main__" or module.endswith(".py"):
        return file.parent
    return file.parents[module.count(".") + (file.name == "__init__.py")]


def _texts(file: Path, root: Path) -> dict[Path, bytes]:
    """Return the content of a file and of the files below ``root`` that it imports, directly or not."""
    texts: dict[Path, bytes] = {}
    # The neighbours of an installed package are libraries.
    below = root / file.relative_to(root).parts[0] if _is_installed(root) else root
    left = [file]
    while left:
        path = left.pop()
        if path not in texts:
            with reading(path):
                texts[path] = path.read_bytes()
            for level, name in _imports(texts[path]):
                base = path.parents[min(level, len(path.parents)) - 1] if level else root
                left += [module for module in _modules(base, name) if module.is_relative_to(below)]
    return texts


def _modules(base: Path, name: tuple[str, ...]) -> Iterator[Path]:
    """Yield the files that Python executes to import a module from a folder."""
    for depth in range(1, len(name) + 1):
        place = base.joinpath(*name[:depth])
        yield from (path for path in (place / "__init__.py", place.with_name(f"{place.name}.py")) if path.is_file())


@lru_cache(maxsize=256)
def _imports(text: bytes) -> tuple[tuple[int, tuple[str, ...]], ...]:
    """Return the modules that a text may import: the level of a relative import, and the parts of the name."""
    found: dict[tuple[int, tuple[str, ...]], None] = {}
    try:
        nodes = list(ast.walk(ast.parse(text)))
    except (SyntaxError, ValueError, RecursionError):
        return ()
    for node in nodes:
        if isinstance(node, ast.Import):
            found |= {(0, tuple(alias.name.split("."))): None for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = tuple(node.module.split(".")) if node.module else ()
            found |= {(node.level, (*module, alias.name)): None for alias in node.names}  # the last may be a module
    libraries = {*sys.stdlib_module_names, "laddernet"}
    return tuple((level, name) for level, name in found if level or name[0] not in libraries)
