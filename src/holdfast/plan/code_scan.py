"""What a code object refers to: globals, attributes, imports, and how it uses each of them."""

from __future__ import annotations

import dis
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any, NamedTuple

from holdfast.plan.value_digest import Undigestible

_GLOBAL_READS = frozenset(
    {"LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}
)
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_ATTRIBUTES = frozenset({"LOAD_ATTR", "LOAD_METHOD"})
_ATTRIBUTE_READS = _ATTRIBUTES | {"LOAD_SUPER_ATTR", "IMPORT_FROM"}
# Python 3.10 has an operation of its own for each kind of call, and nothing that marks a call's
# beginning: what is called is found by following the stack up to the call.
_UNMARKED = "CALL_FUNCTION" in dis.opmap
_CALLS = frozenset({"PRECALL", "CALL", "CALL_KW", "CALL_FUNCTION", "CALL_METHOD"})
_KEYWORD_CALLS = frozenset({"CALL_KW", "CALL_FUNCTION_KW"})
_FORMATS = frozenset(
    {"FORMAT_VALUE", "FORMAT_SIMPLE", "FORMAT_WITH_SPEC", "BINARY_MODULO", "INPLACE_MODULO"}
)
_FORMATTERS = frozenset(
    {"repr", "str", "ascii", "format", "format_map", "__repr__", "__str__", "__format__", "astype"}
)
_JUMPS = frozenset(dis.hasjrel) | frozenset(dis.hasjabs)
# From 3.12 on one operation loads attributes and methods, and a bit tells which. The other one is
# a number that stands in no code.
_METHOD_BIT = dis.opmap.get("LOAD_METHOD", 256) > 255
_COMPREHENSIONS = frozenset({"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"})
_SHUFFLES = frozenset({"SWAP", "COPY", "DUP_TOP", "DUP_TOP_TWO"}) | frozenset(
    name for name in dis.opmap if name.startswith("ROT_")
)
_BUILDS = frozenset({"BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_STRING", "BUILD_TUPLE"})
# What the body of every class assigns from Python 3.13 on.
_STORED_IN_CLASSES = frozenset({"__firstlineno__", "__static_attributes__"})
_FARTHEST_CALL = 200

_Instruction = tuple[str, int]


class Unknown:
    """Stands for an argument that is no constant."""


class Import(NamedTuple):
    """One import inside of a function: `from ..name import names`, with a dot for each level."""

    name: str
    level: int
    names: tuple[str, ...]


class Binding(NamedTuple):
    """What an import makes of a module.

    Attributes:
        variable: what holds it then; None where that can't be told.
        is_local: whether only this function, and those inside of it, see the variable.
        module: the module's name, as it stands in the code.
        level: how many dots stand before it.
        attribute: what is taken from the module; None for the module itself.
    """

    variable: str | None
    is_local: bool
    module: str
    level: int
    attribute: str | None


class Call(NamedTuple):
    """The arguments of one call: constants, and `Unknown` for everything else."""

    positional: tuple[object, ...]
    keywords: dict[str, object]

    def argument(self, index: int, keyword: str) -> object:
        """One of the arguments; `Unknown` where it is no constant, None where there is none.

        Args:
            index: its position.
            keyword: its name.
        """
        if index < len(self.positional):
            return self.positional[index]
        return self.keywords.get(keyword)


class Use(NamedTuple):
    """One use of a variable: with some attributes, as it is or called.

    Attributes:
        attributes: what is taken from it at once, one after the other.
        is_called: whether the last of these is called at once.
        call: with what, where that can be told.
    """

    attributes: tuple[str, ...]
    is_called: bool
    call: Call | None

    @property
    def is_mere_call(self) -> bool:
        """Whether the variable's value is called, and nobody gets hold of it."""
        return self.is_called and not self.attributes


class CodeScan(NamedTuple):
    """What a code object refers to by name, nested code included.

    Attributes:
        global_names: what it looks up in its globals.
        names: those, all attributes and what it imports.
        attributes: what it takes from something by name.
        imports: what it imports when it runs.
        bindings: what becomes of that.
        uses: how it uses each of its variables.
        methods: what it calls as methods of something, each with the call.
        strings: the strings that stand in it.
        writes_globals: it assigns or deletes some global.
        queries: it may hand over a query text that refers to variables as `@name`.
        formats: it makes texts of values.
        shown: the qualified names of functions inside of it that others may get hold of.
    """

    global_names: frozenset[str]
    names: frozenset[str]
    attributes: frozenset[str]
    imports: tuple[Import, ...]
    bindings: tuple[Binding, ...]
    uses: dict[str, tuple[Use, ...]]
    methods: tuple[tuple[str, Call | None], ...]
    strings: frozenset[str]
    writes_globals: bool
    queries: bool
    formats: bool
    shown: tuple[str, ...]

    @property
    def looked_up(self) -> frozenset[str]:
        """What it looks up by name, in its globals or in something: not what it only defines."""
        return self.global_names | self.attributes

    def uses_of(self, name: str) -> tuple[Use, ...]:
        """How a variable is used.

        Args:
            name: the variable.
        """
        return self.uses.get(name, ())


def scan_code(code: CodeType, inner: bool = True) -> CodeScan:
    """Finds what a code object refers to.

    Args:
        code: of a function or a module.
        inner: whether what stands inside of it counts as well.

    Raises:
        Undigestible: when the bytecode is of an unknown form.

    >>> found = scan_code(compile("import os; f = lambda x: x.real + k", "", "exec"))
    >>> sorted(found.global_names), sorted(found.names)
    (['k'], ['f', 'k', 'os', 'real'])
    >>> found.imports
    (Import(name='os', level=0, names=()),)
    >>> scan_code(compile("os.path.join(a, 'b')", "", "eval")).uses_of("os")
    (Use(attributes=('path', 'join'), is_called=True, call=Call(...)),)
    """
    scan = _Scan()
    waiting = [code]
    while waiting:
        current = waiting.pop()
        scan.add(current)
        if inner:
            waiting.extend(part for part in current.co_consts if isinstance(part, CodeType))
    return scan.result()


def constants_of(code: CodeType) -> tuple[object, ...]:
    """The constants of a code object, with None for what only names the functions inside of it.

    Args:
        code: of a function or a module.

    >>> constants_of(compile("f = lambda: 1", "", "exec")).count("<lambda>")
    0
    """
    if not _UNMARKED:
        return code.co_consts
    instructions = list(_instructions(code))
    # Up to Python 3.10 functions are made of their code and their qualified name.
    made = {
        at - 1 for at, (operation, _) in enumerate(instructions) if operation == "MAKE_FUNCTION"
    }
    loads = [at for at, (operation, _) in enumerate(instructions) if operation == "LOAD_CONST"]
    names = {instructions[at][1] for at in made.intersection(loads)}
    names -= {instructions[at][1] for at in loads if at not in made}
    return tuple(
        None if index in names else constant for index, constant in enumerate(code.co_consts)
    )


class _Scan:
    def __init__(self) -> None:
        self._global_names: set[str] = set()
        self._names: set[str] = set()
        self._attributes: set[str] = set()
        self._imports: list[Import] = []
        self._bindings: list[Binding] = []
        self._uses: dict[str, list[Use]] = {}
        self._methods: list[tuple[str, Call | None]] = []
        self._strings: set[str] = set()
        self._writes = self._queries = self._formats = False
        # Functions inside, each with the variable that holds it, if it is one.
        self._inner: list[tuple[str, str | None]] = []

    def result(self) -> CodeScan:
        called = {
            name for name, uses in self._uses.items() if all(use.is_mere_call for use in uses)
        }
        shown = [name for name, variable in self._inner if variable not in called]
        return CodeScan(
            frozenset(self._global_names),
            frozenset(self._names),
            frozenset(self._attributes),
            tuple(self._imports),
            tuple(self._bindings),
            {name: tuple(uses) for name, uses in self._uses.items()},
            tuple(self._methods),
            frozenset(self._strings),
            self._writes,
            self._queries,
            self._formats or not _FORMATTERS.isdisjoint(self._names),
            tuple(sorted(shown)),
        )

    def add(self, code: CodeType) -> None:
        instructions = list(_instructions(code))
        self._names.update(
            name
            for index, name in enumerate(code.co_names)
            if name not in _STORED_IN_CLASSES or not _is_only_stored(instructions, index)
        )
        self._strings.update(_strings_of(constants_of(code)))
        if not {"query", "eval"}.isdisjoint(code.co_names):
            self._queries = self._queries or any(
                isinstance(part, str) and "@" in part for part in code.co_consts
            )
        # How methods are loaded then doesn't tell that they are called.
        unpacks = any(operation == "CALL_FUNCTION_EX" for operation, _ in instructions)
        for at, (operation, argument) in enumerate(instructions):
            if operation in _GLOBAL_READS:
                self._global_names.add(code.co_names[_global_index(operation, argument)])
                self._writes = self._writes or operation in _GLOBAL_WRITES
            elif operation in _ATTRIBUTE_READS:
                index = _attribute_index(operation, argument)
                self._attributes.add(code.co_names[index])
            if operation == "IMPORT_NAME":
                found = _import_of(code, argument, instructions[max(0, at - 2) : at])
                self._imports.append(found)
                self._bindings += _bindings_of(code, found, instructions[at + 1 :])
            elif operation in _FORMATS or (operation == "BINARY_OP" and argument in _REMAINDERS):
                self._formats = True
            elif operation == "MAKE_FUNCTION":
                self._function(code, instructions, at)
            elif operation in _ATTRIBUTES and _calls_method(operation, argument):
                name = code.co_names[_attribute_index(operation, argument)]
                self._methods.append((name, _call_at(code, instructions, at + 1)))
            elif operation in _ATTRIBUTES and _UNMARKED:
                called, call = _called_at(code, instructions, at + 1)
                if called is not False:
                    self._methods.append((code.co_names[argument], call))
            elif operation in _ATTRIBUTES and unpacks:
                self._methods.append((code.co_names[_attribute_index(operation, argument)], None))
            elif operation.startswith("LOAD_"):
                self._variables(code, instructions, at)

    def _variables(self, code: CodeType, instructions: list[_Instruction], at: int) -> None:
        names = _loaded(code, *instructions[at])
        for name in names[:-1]:
            self._uses.setdefault(name, []).append(Use((), False, None))
        for name in names[-1:]:
            self._uses.setdefault(name, []).append(_use(code, instructions, at))

    def _function(self, code: CodeType, instructions: list[_Instruction], at: int) -> None:
        inner = _constant(code, instructions[at - 1])
        name = getattr(inner, "co_qualname", f"{code.co_name}.?")
        if isinstance(inner, str):
            # Up to Python 3.10 the qualified name is pushed after the code.
            name, inner = inner, _constant(code, instructions[at - 2])
        if isinstance(inner, CodeType) and inner.co_name in _COMPREHENSIONS:
            return
        end = at + 1
        while instructions[end][0] == "SET_FUNCTION_ATTRIBUTE":
            end += 1
        self._inner.append((name, _stored(code, *instructions[end])))


_REMAINDERS = frozenset(
    index for index, (_, sign) in enumerate(getattr(dis, "_nb_ops", ())) if sign in ("%", "%=")
)


def _strings_of(constants: Sequence[object]) -> Iterator[str]:
    waiting: list[object] = list(constants)
    while waiting:
        part = waiting.pop()
        if isinstance(part, str):
            yield part
        elif isinstance(part, (tuple, frozenset)):
            waiting.extend(part)


def _instructions(code: CodeType) -> Iterator[_Instruction]:
    extended = 0
    data = code.co_code
    for at in range(0, len(data), 2):
        operation = dis.opname[data[at]]
        argument = data[at + 1] | extended
        extended = argument << 8 if operation == "EXTENDED_ARG" else 0
        if operation not in ("CACHE", "EXTENDED_ARG"):
            yield operation, argument


def _constant(code: CodeType, instruction: _Instruction) -> object:
    operation, argument = instruction
    return code.co_consts[argument] if operation == "LOAD_CONST" else None


def _global_index(operation: str, argument: int) -> int:
    return argument >> 1 if operation == "LOAD_GLOBAL" and not _UNMARKED else argument


def _is_only_stored(instructions: list[_Instruction], index: int) -> bool:
    """Whether a name of a code object is assigned, and never looked up."""
    return all(
        operation == "STORE_NAME"
        for operation, argument in instructions
        if dis.opmap[operation] in dis.hasname and _name_index(operation, argument) == index
    )


def _name_index(operation: str, argument: int) -> int:
    is_attribute = operation in _ATTRIBUTE_READS and operation != "IMPORT_FROM"
    find = _attribute_index if is_attribute else _global_index
    return find(operation, argument)


def _local_name(code: CodeType, operation: str, index: int) -> str:
    if _UNMARKED:
        # Cells are counted for themselves.
        cells = code.co_cellvars + code.co_freevars
        return (code.co_varnames if "FAST" in operation else cells)[index]
    # Locals, those that inner functions share, and those of outer functions, each once.
    names = code.co_varnames + tuple(
        name for name in code.co_cellvars if name not in code.co_varnames
    )
    names += code.co_freevars
    return names[index]


def _loaded(code: CodeType, operation: str, argument: int) -> tuple[str, ...]:
    """The variables that an operation loads."""
    if operation == "LOAD_GLOBAL":
        return (code.co_names[_global_index(operation, argument)],)
    if operation in ("LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS"):
        return (code.co_names[argument],)
    if operation in ("LOAD_DEREF", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_DEREF"):
        return (_local_name(code, operation, argument),)
    if operation.startswith("LOAD_FAST"):
        if operation.count("LOAD_FAST") == 2:
            both = argument >> 4, argument & 15
            return tuple(_local_name(code, operation, index) for index in both)
        return (_local_name(code, operation, argument),)
    return ()


def _stored(code: CodeType, operation: str, argument: int) -> str | None:
    """The variable of a function that an operation assigns."""
    if operation in ("STORE_FAST", "STORE_DEREF"):
        return _local_name(code, operation, argument)
    return None


def _attribute_index(operation: str, argument: int) -> int:
    if operation == "LOAD_SUPER_ATTR":
        return argument >> 2
    return argument >> 1 if operation == "LOAD_ATTR" and _METHOD_BIT else argument


def _calls_method(operation: str, argument: int) -> bool:
    return operation == "LOAD_METHOD" or bool(_METHOD_BIT and argument & 1)


def _use(code: CodeType, instructions: list[_Instruction], at: int) -> Use:
    operation, argument = instructions[at]
    # Before 3.13, a call begins with what marks its end.
    begins_call = operation == "LOAD_GLOBAL" and bool(argument & 1) and not _UNMARKED
    if at > 0 and instructions[at - 1][0] == "PUSH_NULL" and not _PUSHES_AFTER:
        begins_call = True
    is_called = False
    attributes = []
    end = at + 1
    while end < len(instructions) and instructions[end][0] in _ATTRIBUTES:
        operation, argument = instructions[end]
        attributes.append(code.co_names[_attribute_index(operation, argument)])
        is_called = _calls_method(operation, argument)
        end += 1
        if is_called:
            break
    if instructions[end : end + 1] == [("PUSH_NULL", 0)] and _PUSHES_AFTER:
        is_called = True
        end += 1
    if _UNMARKED and not is_called:
        called, call = _called_at(code, instructions, end)
        return Use(tuple(attributes), bool(called), call)
    is_called = is_called or begins_call
    call = _call_at(code, instructions, end) if is_called else None
    return Use(tuple(attributes), is_called, call)


# From 3.13 on what is called is pushed first.
_PUSHES_AFTER = "CALL_KW" in dis.opmap


def _call_at(code: CodeType, instructions: list[_Instruction], start: int) -> Call | None:
    """The arguments that are pushed from an instruction on; None where that can't be told."""
    depth = 0
    arguments: list[object] = []
    keywords: Any = ()
    for operation, argument in instructions[start : start + _FARTHEST_CALL]:
        opcode = dis.opmap[operation]
        if operation == "KW_NAMES":
            keywords = code.co_consts[argument]
            continue
        if _is_call(operation, argument, depth):
            if operation in _KEYWORD_CALLS:
                keywords = arguments.pop()
            if not isinstance(keywords, tuple) or len(arguments) < len(keywords):
                return None
            split = len(arguments) - len(keywords)
            named = dict(zip(map(str, keywords), arguments[split:], strict=True))
            return Call(tuple(arguments[:split]), named)
        if opcode in _JUMPS or operation in _SHUFFLES:
            return None
        effect = dis.stack_effect(opcode, argument if opcode >= dis.HAVE_ARGUMENT else None)
        if operation == "LOAD_CONST":
            arguments.append(code.co_consts[argument])
        else:
            # What takes from the stack and pushes again changes no more than the topmost result.
            plain = operation.startswith("LOAD_") and operation not in _ATTRIBUTES
            kept = depth if plain else min(depth, depth + effect) - 1
            del arguments[max(0, kept) :]
            arguments += [Unknown] * (depth + effect - len(arguments))
        depth += effect
        if depth < 0:
            return None
    return None


def _is_call(operation: str, argument: int, depth: int) -> bool:
    """Whether an operation calls what lies below the arguments that have been pushed."""
    if operation in _KEYWORD_CALLS:
        return argument + 1 == depth
    return operation in _CALLS and argument == depth


def _called_at(
    code: CodeType, instructions: list[_Instruction], start: int
) -> tuple[bool | None, Call | None]:
    """Whether what was pushed before an instruction is called, and with what: None if unknown.

    For Pythons whose calls aren't marked where they begin.
    """
    depth = 0
    for operation, argument in instructions[start : start + _FARTHEST_CALL]:
        if _is_call(operation, argument, depth):
            return True, _call_at(code, instructions, start)
        if operation == "CALL_FUNCTION_EX" and 1 + (argument & 1) == depth:
            return True, None
        opcode = dis.opmap[operation]
        if opcode in _JUMPS or operation in _SHUFFLES:
            return None if depth else False, None
        effect = dis.stack_effect(opcode, argument if opcode >= dis.HAVE_ARGUMENT else None)
        pushes = operation.startswith("LOAD_") and operation not in _ATTRIBUTES
        builds_nothing = operation in _BUILDS and argument == 0
        if not pushes and not builds_nothing and min(depth, depth + effect) < 1:
            # It takes what was pushed before.
            return False, None
        depth += effect
    return None, None


def _import_of(code: CodeType, argument: int, previous: list[_Instruction]) -> Import:
    name = code.co_names[argument]
    if [operation for operation, _ in previous] != ["LOAD_CONST", "LOAD_CONST"]:
        raise Undigestible(f"import of {name!r}: in bytecode of an unknown form")
    level, names = (code.co_consts[index] for _, index in previous)
    return Import(name, level, tuple(names or ()))


def _bindings_of(code: CodeType, found: Import, following: list[_Instruction]) -> Iterator[Binding]:
    name, level, names = found
    if not names:
        if not following:
            return
        if following[0][0] == "IMPORT_FROM":
            # `import a.b.c as d` goes down from one to the next.
            for instruction in following:
                if instruction[0] not in ("IMPORT_FROM", "SWAP", "ROT_TWO", "POP_TOP"):
                    yield Binding(*_bound(code, *instruction), name, level, None)
                    return
        # `import a.b` binds a, and `import a as b` what it says.
        yield Binding(*_bound(code, *following[0]), name.partition(".")[0], level, None)
        return
    for at, (operation, argument) in enumerate(following):
        if operation == "IMPORT_FROM":
            variable, is_local = _bound(code, *following[at + 1])
            yield Binding(variable, is_local, name, level, code.co_names[argument])
        elif _bound(code, operation, argument)[0] is None:
            break
    if "*" in names:
        yield Binding(None, False, name, level, "*")


def _bound(code: CodeType, operation: str, argument: int) -> tuple[str | None, bool]:
    if operation in ("STORE_NAME", "STORE_GLOBAL"):
        return code.co_names[argument], False
    variable = _stored(code, operation, argument)
    return variable, variable is not None
