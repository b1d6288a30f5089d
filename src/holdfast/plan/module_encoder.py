"""Feeds modules: installed ones by their version, the user's by their source, loaded or not."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from holdfast.plan.code_scan import Binding, CodeScan, Use, scan_code
from holdfast.plan.import_time import ImportTime, SourceError
from holdfast.plan.module_origin import (
    SourceUnavailableError,
    find_spec,
    is_module,
    origin_of,
    python_package,
    source_of,
)
from holdfast.plan.reference_encoder import Feeder, ReferenceEncoder
from holdfast.plan.revealing_names import ANYTHING_NAMES, REVEALING_MODULES
from holdfast.plan.value_digest import Manner


class ModuleEncoder(ReferenceEncoder):
    """Digests modules and what is imported from them."""

    def __init__(self) -> None:
        super().__init__()
        self._first_sources: dict[str, bytes] | None = None
        self._files: dict[str, int] = {}
        self._user_modules: dict[str, ModuleType] = {}
        self._unloaded: dict[str, None] = {}
        self._import_time = ImportTime()
        self._names: set[str] = set()
        self._attribute_names: set[str] = set()
        self._strings: set[str] = set()
        # Modules that code gets hold of as values, and what is taken at once from the user's.
        self._held_modules: dict[str, ModuleType] = {}
        self._used_attributes: dict[int, list[Use]] = {}
        self._tables += [self._files, self._user_modules, self._unloaded]

    def _feeder(self, kind: type) -> Feeder | None:
        return self._module if issubclass(kind, ModuleType) else super()._feeder(kind)

    def _module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == "__main__":
            self.fail("module '__main__' as a whole")
        held = Manner.JUDGED not in self._manner
        if is_module(module):
            if name in REVEALING_MODULES:
                self.fail(f"module {name!r} shows more than results depend on")
            origin = self._identity(name)
            if origin is not None:
                if held:
                    self._judge(name, (), None)
                    self._held_modules[name] = module
                self._parts("module", name, origin)
                return
        self._number(module)
        self._open("user module")
        self.visit(name)
        if is_module(module):
            self._file(name)
        key = name if is_module(module) else f"{name} #{len(self._user_modules)}"
        self._user_modules[key] = module

    def _observe(self, value: object) -> None:
        if isinstance(value, ModuleType):
            self._held_modules.setdefault(value.__name__, value)

    def _judge_uses(self, module: ModuleType, uses: Iterable[Use]) -> None:
        """Gives up if code that uses a module like this sees the outside world."""
        for use in uses:
            found, rest = module, list(use.attributes)
            while rest and isinstance(inner := vars(found).get(rest[0]), ModuleType):
                found = inner
                del rest[0]
            if not is_module(found):
                self._held_modules[f"{found.__name__} #{id(found)}"] = found
            elif self._identity(found.__name__) is not None:
                self._judge(found.__name__, rest, use.call if use.is_called else None)
                if not rest:
                    self._held_modules[found.__name__] = found
            elif rest:
                self._used_attributes.setdefault(id(found), []).append(
                    use._replace(attributes=tuple(rest))
                )
            else:
                self._held_modules[found.__name__] = found

    def _file(self, name: str) -> None:
        """Feeds the source of a user's module, from which workers import it."""
        if name in self._files:
            self._open("file seen", self._files[name])
            return
        self._files[name] = len(self._files)
        source = self._source(name)
        # A decorator of a library's leaves its own code in the user's functions.
        if source is not None and self._identity(name) is None:
            self._read(name, source)
        parent = name.rpartition(".")[0]
        if parent and self._identity(parent) is None:
            self._file(parent)

    def _read(self, name: str, source: bytes, everything: bool = False) -> None:
        """Takes in what is done when a module is imported, to be fed in the end."""
        package = python_package(name)
        if package is None:
            return
        try:
            self._import_time.add(package, source, everything)
        except SourceError as error:
            self.fail(f"module {name!r}: {error}")

    def _feed_import_time(self) -> bool:
        """Feeds what newly found code of the user's modules imports; False if there is none."""
        progress = False
        for package, (name, level, names) in self._import_time.imports():
            progress = True
            name = self._absolute(name, level, {"__package__": package})
            self._path.append(f"import of {name!r}")
            parts = name.split(".")
            for end in range(1, len(parts) + 1):
                self._import_of_module(".".join(parts[:end]))
            for attribute in names:
                submodule = f"{name}.{attribute}"
                if attribute != "*" and (
                    submodule in sys.modules or find_spec(submodule) is not None
                ):
                    self._import_of_module(submodule)
            self._path.pop()
        return progress

    def _import_of_module(self, name: str) -> None:
        self._open("imported")
        self.visit(name)
        if name not in sys.modules and find_spec(name) is None:
            self._open("no such module")
            return
        origin = origin_of(name)
        if origin is not None:
            self.visit(origin)
        else:
            self._file(name)

    def _check_import_time(self) -> None:
        why = self._import_time.why_unknown(lambda name: origin_of(name) is not None)
        if why is not None:
            self.fail(f"what the user's modules do when they are imported: {why}")

    def _source(self, name: str) -> bytes | None:
        try:
            source = source_of(name)
        except SourceUnavailableError as error:
            self.fail(str(error))
        if source is None:
            self._open("no file")
        else:
            digest = hashlib.sha256(source).digest()
            first = self._first_sources
            if first is not None and first.setdefault(name, digest) != digest:
                first[name] = b""  # From now on it is never the first one again.
                self.fail(f"module {name!r} was edited, and workers may still hold it as it was")
            self._open("file")
            self.visit(digest)
        return source

    def _imports(self, scan: CodeScan, variables: dict[str, Any], trusted: bool) -> None:
        for name, level, names in scan.imports:
            self._import(self._absolute(name, level, variables), names)
        for binding in () if trusted else scan.bindings:
            self._bound(scan, binding, self._absolute(binding.module, binding.level, variables))

    def _absolute(self, name: str, level: int, variables: dict[str, Any]) -> str:
        if not level:
            return name
        package = variables.get("__package__")
        if not isinstance(package, str) or not package:
            self.fail(f"relative import of {name!r} outside of a package")
        return resolve_name("." * level + name, package)

    def _bound(self, scan: CodeScan, binding: Binding, name: str) -> None:
        """Judges what code does with that which it imports."""
        self._path.append(f"import of {name!r}")
        taken = () if binding.attribute is None else (binding.attribute,)
        uses = [Use((), False, None)]
        if binding.is_local and binding.variable is not None:
            uses = [*scan.uses_of(binding.variable)]
        whole = [use._replace(attributes=taken + use.attributes) for use in uses]
        module = sys.modules.get(name)
        if module is not None:
            self._judge_uses(module, whole)
        elif find_spec(name) is not None and self._identity(name) is not None:
            for use in whole:
                self._judge(name, use.attributes, use.call if use.is_called else None)
        self._path.pop()

    def _import(self, name: str, names: tuple[str, ...]) -> None:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            self._imported(".".join(parts[:end]))
        module = sys.modules.get(name)
        for attribute in names:
            if attribute == "*":
                self.fail(f"everything is imported from module {name!r}")
            if module is None or not hasattr(module, attribute):
                submodule = f"{name}.{attribute}"
                if submodule in sys.modules or find_spec(submodule) is not None:
                    self._imported(submodule)

    def _imported(self, name: str) -> None:
        self._path.append(f"import of {name!r}")
        self._open("import")
        self.visit(name)
        module = sys.modules.get(name)
        if module is not None:
            self._visit_as(Manner.JUDGED, module)
        elif name in self._unloaded:
            self._open("seen")
        else:
            self._unloaded[name] = None
            self._unloaded_module(name)
        self._path.pop()

    def _unloaded_module(self, name: str) -> None:
        spec = find_spec(name)
        if spec is None:
            self._open("no such module")
            return
        origin = self._identity(name)
        if name in REVEALING_MODULES:
            self.fail(f"module {name!r} shows more than results depend on")
        if origin is not None:
            self._parts("module", name, origin)
            return
        source = self._source(name)
        if source is None or not (spec.origin or "").endswith(".py"):
            return
        self._read(name, source, everything=True)
        try:
            code = compile(source, "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            self.fail("its source can't be compiled")
        scan = scan_code(code)
        # There is no object to look at, hence only what the file says counts.
        if scan.looked_up & ANYTHING_NAMES:
            self.fail(f"{min(scan.looked_up & ANYTHING_NAMES)!r} reaches anything by name")
        self._names |= scan.names
        self._attribute_names |= scan.attributes
        self._strings |= scan.strings
        package = name if spec.submodule_search_locations is not None else spec.parent
        for found, level, names in scan.imports:
            self._import(self._absolute(found, level, {"__package__": package}), names)
