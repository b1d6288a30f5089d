"""Feeds modules: installed ones by their version, the user's by their source, loaded or not."""

from __future__ import annotations

import hashlib
import sys
from importlib.util import resolve_name
from types import ModuleType
from typing import Any

from holdfast.plan.code_scan import Import, scan_code
from holdfast.plan.module_origin import (
    SourceUnavailableError,
    find_spec,
    is_module,
    source_of,
)
from holdfast.plan.reference_encoder import Feeder, ReferenceEncoder
from holdfast.plan.revealing_names import ANYTHING_NAMES, REVEALING_MODULES


class ModuleEncoder(ReferenceEncoder):
    """Digests modules and what is imported from them."""

    def __init__(self) -> None:
        super().__init__()
        self._files: dict[str, int] = {}
        self._user_modules: dict[str, ModuleType] = {}
        self._unloaded: dict[str, None] = {}
        self._names: set[str] = set()
        self._tables += [self._files, self._user_modules, self._unloaded]

    def _feeder(self, kind: type) -> Feeder | None:
        return self._module if issubclass(kind, ModuleType) else super()._feeder(kind)

    def _module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == "__main__":
            self.fail("module '__main__' as a whole")
        if is_module(module):
            if name in REVEALING_MODULES:
                self.fail(f"module {name!r} shows more than results depend on")
            origin = self._identity(name)
            if origin is not None:
                self._parts("module", name, origin)
                return
        self._number(module)
        self._open("user module")
        self.visit(name)
        if is_module(module):
            self._file(name)
        key = name if is_module(module) else f"{name} #{len(self._user_modules)}"
        self._user_modules[key] = module

    def _file(self, name: str) -> None:
        """Feeds the source of a user's module, from which workers import it."""
        if name in self._files:
            self._open("file seen", self._files[name])
            return
        self._files[name] = len(self._files)
        self._source(name)

    def _source(self, name: str) -> bytes | None:
        try:
            source = source_of(name)
        except SourceUnavailableError as error:
            self.fail(str(error))
        if source is None:
            self._open("no file")
        else:
            self._open("file")
            self.visit(hashlib.sha256(source).digest())
        return source

    def _imports(self, imports: tuple[Import, ...], variables: dict[str, Any]) -> None:
        for name, level, names in imports:
            if level:
                package = variables.get("__package__")
                if not isinstance(package, str) or not package:
                    self.fail(f"relative import of {name!r} outside of a package")
                name = resolve_name("." * level + name, package)
            self._import(name, names)

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
            self.visit(module)
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
        try:
            code = compile(source, "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            self.fail("its source can't be compiled")
        scan = scan_code(code)
        # There is no object to look at, hence only what the file says counts.
        if scan.names & ANYTHING_NAMES:
            self.fail(f"{min(scan.names & ANYTHING_NAMES)!r} reaches anything by name")
        self._names |= scan.names
        package = name if spec.submodule_search_locations is not None else spec.parent
        self._imports(scan.imports, {"__package__": package})
