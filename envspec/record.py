"""`dataclass`, of which a frozen class costs a fifth of the time to make.

The standard library writes six functions for each frozen dataclass and compiles them one by one. A command imports two
hundred such classes, which is a fifth of the time that `envspec lock` takes with warm caches. Here only `__init__` is
compiled; what a class compares, hashes and shows are its fields, by functions that all classes share. Type checkers and
`dataclasses.replace`, `fields` and `asdict` see a dataclass.
"""

from __future__ import annotations

import dataclasses
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
else:

    def dataclass(made: type | None = None, /, **options: Any) -> Any:
        """Make a class a dataclass. What is more than a plain frozen one is left to the standard library."""
        if made is None:
            return lambda one: dataclass(one, **options)
        if options == {"frozen": True} and _is_plain(made):
            return _frozen(made)
        return dataclasses.dataclass(made, **options)


_WRITTEN = frozenset(("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__"))


def _is_plain(made: type) -> bool:
    """Say whether a class inherits nothing, writes none of the functions itself, and takes all its fields by place."""
    own = vars(made)
    several = (one for one in own.values() if isinstance(one, dataclasses.Field))
    return (
        made.__bases__ == (object,)
        and _WRITTEN.isdisjoint(own)
        and all(one.init and one.kw_only is not True for one in several)
    )


def _frozen(made: type) -> type:
    # collects the fields, their defaults and what is none of them
    dataclasses.dataclass(init=False, repr=False, eq=False)(made)
    parameters: Any = vars(made)["__dataclass_params__"]
    for name in ("init", "repr", "eq", "frozen"):
        setattr(parameters, name, True)
    fields = dataclasses.fields(made)
    methods = {
        "__init__": _init(made, fields),
        **_comparing(tuple(one.name for one in fields if one.compare)),
        "__repr__": _showing(tuple(one.name for one in fields if one.repr)),
        "__setattr__": _refuse_setting,
        "__delattr__": _refuse_deleting,
    }
    for name, method in methods.items():
        setattr(made, name, method)
    return made


_MISSING = object()


def _init(made: type, fields: tuple[dataclasses.Field[Any], ...]) -> Any:
    """Compile `__init__`: the fields' defaults are its globals."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": _MISSING}
    parameters, body = [], []
    for one in fields:
        name, value = one.name, one.name
        if one.default is not dataclasses.MISSING:
            known[f"_default_{name}"] = one.default
            parameters.append(f"{name}=_default_{name}")
        elif one.default_factory is not dataclasses.MISSING:
            known[f"_make_{name}"] = one.default_factory
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            parameters.append(name)
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    head = f"def __init__({', '.join(['self', *parameters])}):"
    exec("\n".join([head, *(body or [" pass"])]), known)
    method = known["__init__"]
    method.__qualname__ = f"{made.__qualname__}.__init__"
    method.__annotations__ = {one.name: one.type for one in fields} | {"return": None}
    return method


def _comparing(names: tuple[str, ...]) -> dict[str, Any]:
    """Make `__eq__` and `__hash__` of these fields."""
    if len(names) > 1:
        values: Any = attrgetter(*names)
    elif names:
        one = attrgetter(*names)

        def values(self: object) -> tuple[Any, ...]:
            return (one(self),)
    else:

        def values(self: object) -> tuple[Any, ...]:
            return ()

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    return {"__eq__": equal, "__hash__": hashed}


def _showing(names: tuple[str, ...]) -> Any:
    def shown(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown


def _refuse_setting(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
