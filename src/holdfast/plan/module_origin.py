"""Where modules come from: the standard library, an installed distribution, or the user."""

from __future__ import annotations

import functools
import hashlib
import importlib.machinery
import importlib.metadata
import importlib.util
import os
import platform
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path, PurePath
from types import ModuleType
from typing import Any

from holdfast.older_python import packages_distributions

PYTHON = f"{sys.implementation.name} {sys.version_info.major}.{sys.version_info.minor}"
"""Implementation and minor version: bytecode means something only together with them."""

_STANDARD_LIBRARY = f"{sys.implementation.name} {platform.python_version()}"
_SITE_DIRECTORIES = frozenset({"site-packages", "dist-packages"})
# They are often on the path as a part of Spark, or as a checkout, instead of being installed.
_SELF_VERSIONED = frozenset({"pyspark", "py4j", "holdfast"})

_seen_stamps: list[tuple[tuple[str, int], ...]] = []


class SourceUnavailableError(Exception):
    """A module says where its source is, but it can't be read there."""


def origin_of(name: str) -> str | None:
    """What pins down the content of a module, if it needs not be looked at.

    Args:
        name: the module's full name. The module need not be imported.

    Returns:
        The Python version for a module of the standard library, names and versions of the
        distributions for an installed one; None for every other module, which is the user's.

    >>> origin_of("json.decoder") == origin_of("math")
    True
    >>> origin_of("__main__") is None
    True
    """
    module = sys.modules.get(name)
    if module is None:
        spec = find_spec(name)
        return None if spec is None else _origin(name, _spec_location(spec))
    location = getattr(module, "__file__", None)
    if isinstance(location, str):
        return _origin(name, location)
    if name == "__main__":
        return None
    spec = getattr(module, "__spec__", None)
    if spec is not None and spec.origin in ("built-in", "frozen"):
        return _origin(name, spec.origin)
    parent = name.rpartition(".")[0]
    # Extension modules make submodules that have neither a file nor a specification.
    return origin_of(parent) if parent in sys.modules else None


def installed_distributions() -> tuple[str, ...]:
    """Python and everything installed for it, each with its version, in order.

    >>> any(each.startswith("pyarrow ") for each in installed_distributions())
    True
    """
    found = importlib.metadata.distributions()
    return (
        _STANDARD_LIBRARY,
        *sorted({_version(each, each.read_text("RECORD")) for each in found}),
    )


def refresh() -> None:
    """Forgets the versions of distributions if any has been installed or removed since."""
    stamps = tuple(
        (entry, os.stat(entry).st_mtime_ns)
        for entry in sys.path
        if PurePath(entry).name in _SITE_DIRECTORIES and os.path.isdir(entry)
    )
    if _seen_stamps[:] != [stamps]:
        _seen_stamps[:] = [stamps]
        for cache in (_origin, _distributions, _version_if_holding, _record):
            cache.cache_clear()


def find_spec(name: str) -> importlib.machinery.ModuleSpec | None:
    """Finds a module without importing anything, its packages included.

    Args:
        name: the module's full name.

    >>> find_spec("json.decoder").name
    'json.decoder'
    >>> find_spec("no_such_module_anywhere") is None
    True
    """
    top, *rest = name.split(".")
    spec = _find_one(top, None)
    for part in rest:
        if spec is None or spec.submodule_search_locations is None:
            return None
        spec = _find_one(f"{spec.name}.{part}", list(spec.submodule_search_locations))
    return spec


def source_of(name: str) -> bytes | None:
    """The bytes of the file that a module is made from.

    Args:
        name: the module's full name. The module need not be imported.

    Returns:
        None for a module that has no file, such as a namespace package.

    Raises:
        SourceUnavailableError: when the module has a file and it can't be read.
    """
    module = sys.modules.get(name)
    if module is None:
        spec = find_spec(name)
        location = _spec_location(spec) if spec is not None else None
        loader = spec.loader if spec is not None else None
    else:
        location = getattr(module, "__file__", None)
        loader = getattr(module, "__loader__", None)
    if not isinstance(location, str):
        return None
    try:
        read: Any = getattr(loader, "get_data", None)
        if read is not None:
            # Modules inside archives have no file of their own.
            data = read(location)
            return data if isinstance(data, bytes) else None
        return Path(location).read_bytes()
    except Exception as error:
        raise SourceUnavailableError(f"the source of module {name!r} can't be read") from error


def python_package(name: str) -> str | None:
    """The package that a module's relative imports begin at; None if it isn't made of a source.

    Args:
        name: the module's full name. The module need not be imported.

    >>> python_package("json.decoder"), python_package("json"), python_package("math")
    ('json', 'json', None)
    """
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None) if module is not None else find_spec(name)
    location = getattr(module, "__file__", None) if module is not None else spec and spec.origin
    if not isinstance(location, str) or not location.endswith(".py"):
        return None
    if isinstance(spec, importlib.machinery.ModuleSpec):
        return spec.parent or ""
    package = getattr(module, "__package__", None)
    return package if isinstance(package, str) else ""


def is_module(module: ModuleType) -> bool:
    """Whether a module is the one that imports of its name find."""
    return sys.modules.get(module.__name__) is module


def _find_one(name: str, path: Sequence[str] | None) -> importlib.machinery.ModuleSpec | None:
    for finder in sys.meta_path:
        find = getattr(finder, "find_spec", None)
        spec = find(name, path, None) if find is not None else None
        if isinstance(spec, importlib.machinery.ModuleSpec):
            return spec
    return None


def _spec_location(spec: importlib.machinery.ModuleSpec) -> str | None:
    return spec.origin if spec.has_location or spec.origin in ("built-in", "frozen") else None


@functools.lru_cache(maxsize=4096)
def _origin(name: str, location: str | None) -> str | None:
    if location is None:
        return None
    top = name.partition(".")[0]
    if top in sys.stdlib_module_names and _in_standard_library(location):
        return _STANDARD_LIBRARY
    versions = [
        version
        for distribution in sorted(set(_distributions().get(top, ())))
        if (version := _version_if_holding(distribution, location)) is not None
    ]
    if versions:
        return ", ".join(versions)
    if top in _SELF_VERSIONED:
        version = getattr(sys.modules.get(top), "__version__", None)
        return f"{top} {version}" if isinstance(version, str) else None
    return None


def _in_standard_library(location: str) -> bool:
    if location in ("built-in", "frozen"):
        return True
    real = os.path.realpath(location)
    for directory in _standard_directories():
        if real.startswith(directory + os.sep):
            parts = PurePath(real[len(directory) :]).parts
            return _SITE_DIRECTORIES.isdisjoint(parts)
    return False


@functools.cache
def _standard_directories() -> tuple[str, ...]:
    paths = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
    return tuple(sorted(os.path.realpath(path) for path in paths))


@functools.cache
def _distributions() -> dict[str, list[str]]:
    return packages_distributions()


@functools.lru_cache(maxsize=4096)
def _version_if_holding(distribution_name: str, location: str) -> str | None:
    # An editable installation keeps its version while its files change: they aren't in its record.
    distribution = importlib.metadata.distribution(distribution_name)
    root = os.path.realpath(str(distribution.locate_file("")))
    real = os.path.realpath(location)
    if not real.startswith(root + os.sep):
        return None
    record = _record(distribution_name)
    if record is None:
        if PurePath(root).name not in _SITE_DIRECTORIES:
            return None
    elif f"\n{PurePath(real[len(root) + 1 :]).as_posix()}," not in record:
        return None
    return _version(distribution, record)


def _version(distribution: importlib.metadata.Distribution, record: str | None) -> str:
    version = f"{distribution.metadata['Name']} {distribution.version}"
    if record is not None and distribution.read_text("direct_url.json") is not None:
        # Installed from a directory or a repository, where a version may have many contents.
        version += " " + hashlib.sha256(record.encode()).hexdigest()
    return version


@functools.lru_cache(maxsize=64)
def _record(distribution_name: str) -> str | None:
    text = importlib.metadata.distribution(distribution_name).read_text("RECORD")
    return None if text is None else "\n" + text
