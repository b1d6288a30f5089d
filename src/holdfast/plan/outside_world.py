"""What lets code see its machine, its process, the moment or chance: no digest covers that.

Of the standard library what is known to be harmless is listed, of everything else what is not.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from types import ModuleType

from holdfast.plan.code_scan import Call, Unknown
from holdfast.plan.outside_names import (
    BUILTINS,
    CONCRETE_PATHS,
    DRAWING,
    FILE_EFFECTS,
    FILE_METHODS,
    GIVEN,
    HARMLESS,
    LOCAL_TIME,
    MOMENT,
    MOMENT_MODULES,
    MOMENT_TEXT_MODULES,
    MOMENT_TEXTS,
    NUMPY_HARMLESS_RANDOM,
    PARTLY_HARMLESS,
    PARTLY_REACHING_OUT,
    REACHING_OUT,
    READER,
    SEED_KEYWORDS,
    SEEDED,
    SEEDED_MODULES,
    WRITING_MODES,
)

HIDDEN_GENERATORS = (("random", "_inst"), ("numpy.random.mtrand", "_rand"))
"""The generators that functions such as `random.random` draw from."""


def outside(module: str, attributes: Sequence[str], call: Call | None = None) -> str | None:
    """Why what is found in an installed module sees more than its arguments.

    Args:
        module: its full name.
        attributes: what is taken from it, one after the other.
        call: the arguments that it is called with at once, if that is known.

    Returns:
        None where nothing speaks against it.

    >>> outside("os", ["environ", "get"])
    "'os.environ' may give something else elsewhere, or later"
    >>> outside("os", ["path", "join"]) is None
    True
    >>> outside("random", ["Random"], Call((42,), {})) is None
    True
    """
    rest = list(attributes)
    while rest and _has_module(module, rest[0]):
        module = f"{module}.{rest.pop(0)}"
    first = rest[0] if rest else None
    if _is_outside(module, first, call):
        what = module if first is None else f"{module}.{first}"
        return f"{what!r} may give something else elsewhere, or later"
    return None


def has_state(module: str, name: str) -> bool:
    """Whether objects of a class are pickled with all that their results depend on.

    Args:
        module: the class's.
        name: the class's.
    """
    return name in SEEDED and module.partition(".")[0] in SEEDED_MODULES


def is_mixed(module: str) -> bool:
    """Whether some names of an installed module are harmless, and some are not.

    Args:
        module: its full name.
    """
    if module not in PARTLY_HARMLESS and _is_harmless(module):
        return False
    return not _is_outside(module, None, None)


def by_names(reached: Iterable[str], names: Set[str], strings: Set[str]) -> str | None:
    """Why code with these names, which gets hold of these modules, sees more than its arguments.

    Args:
        reached: installed modules, and what is taken from them, with the module before a dot.
        names: all attributes that the code mentions.
        strings: the strings that stand in it.

    >>> by_names({"datetime"}, {"now"}, set())
    "'now' of 'datetime' may give something else elsewhere, or later"
    """
    for module in sorted(reached):
        top = module.partition(".")[0]
        found: frozenset[str] = frozenset()
        if top in MOMENT_MODULES:
            found |= names & MOMENT
        if top in MOMENT_TEXT_MODULES:
            found |= strings & MOMENT_TEXTS
        if module in CONCRETE_PATHS:
            found |= names & (FILE_METHODS - FILE_EFFECTS)
        if found:
            return f"{min(found)!r} of {module!r} may give something else elsewhere, or later"
    return None


def by_name_in(module: ModuleType, names: Set[str]) -> str | None:
    """Why code with these names sees more than its arguments, if it takes them from a module.

    Args:
        module: an installed one, of which the code gets hold.
        names: all attributes that the code mentions.
    """
    later = {name for name in names if _has_module(module.__name__, name)}
    for name in sorted(later | (names & vars(module).keys())):
        inner = vars(module).get(name)
        if isinstance(inner, ModuleType):
            if inner is sys.modules.get(f"{module.__name__}.{name}"):
                found = by_name_in(inner, names - {name})
                if found is not None:
                    return found
        elif (found := outside(module.__name__, [name])) is not None:
            return found
    return None


def _has_module(module: str, name: str) -> bool:
    """Whether an attribute of a module is a module itself, perhaps one that asking for it loads."""
    holder = sys.modules.get(module)
    if holder is not None and name not in vars(holder) and "__getattr__" in vars(holder):
        # As the code does that names it.
        with suppress(Exception), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            getattr(holder, name)
    return f"{module}.{name}" in sys.modules


def by_methods(methods: Iterable[tuple[str, Call | None]]) -> str | None:
    """Why calls of these methods give more than what their objects hold, whatever these are.

    Args:
        methods: names, with the arguments where these are known.

    >>> by_methods([("sample", Call((3,), {}))])
    "'sample' draws random numbers without a seed"
    >>> by_methods([("sample", Call((3,), {"random_state": 1}))]) is None
    True
    """
    for name, call in methods:
        if name in MOMENT and (call is None or len(call.positional) < 2):
            return f"{name!r} may give something else elsewhere, or later"
        if name in DRAWING and not _is_seeded_by_keyword(call):
            return f"{name!r} draws random numbers without a seed"
    return None


def is_of_local_time(names: Set[str]) -> bool:
    """Whether code with these names may depend on the time zone of its process.

    Args:
        names: all attributes and globals that it mentions.
    """
    return not names.isdisjoint(LOCAL_TIME)


def opens_for_writing(call: Call | None) -> bool:
    """Whether a call of `open` can't show what is in the file.

    Args:
        call: its arguments.

    >>> opens_for_writing(Call(("log", "a"), {})), opens_for_writing(Call(("log",), {}))
    (True, False)
    """
    return call is not None and call.argument(1, "mode") in WRITING_MODES


def _is_outside(module: str, name: str | None, call: Call | None) -> bool:
    top = module.partition(".")[0]
    if name in SEEDED and top in SEEDED_MODULES:
        return not _is_seeded(name, call)
    if module in ("builtins", "io", "_io") and name in BUILTINS:
        return not (name == "open" and opens_for_writing(call))
    if module == "builtins":
        return False
    allowed = PARTLY_HARMLESS.get(module)
    if allowed is not None:
        return name is not None and not (name in allowed or name.startswith("__"))
    if top in sys.stdlib_module_names:
        return not _is_harmless(module)
    if top in REACHING_OUT:
        return True
    if module == "numpy.random" or module.startswith("numpy.random."):
        return name is not None and name not in NUMPY_HARMLESS_RANDOM and name[0] != "_"
    denied = PARTLY_REACHING_OUT.get(top, frozenset())
    if any(part in denied for part in module.split(".")[1:]):
        return True
    return name is not None and (name in denied or READER.match(name) is not None)


def _is_harmless(module: str) -> bool:
    parts = module.split(".")
    return any(".".join(parts[:end]) in HARMLESS for end in range(1, len(parts) + 1))


def _is_seeded(name: str, call: Call | None) -> bool:
    if call is None:
        return False
    given = call.argument(*SEEDED[name])
    return given is not None and (given is not Unknown or name in GIVEN)


def _is_seeded_by_keyword(call: Call | None) -> bool:
    if call is None:
        return False
    return any(call.keywords.get(keyword) not in (None, Unknown) for keyword in SEED_KEYWORDS)
