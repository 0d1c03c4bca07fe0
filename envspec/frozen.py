"""`@dataclass(frozen=True)` at a fifth of its cost, for the commands that answer at once.

The standard library compiles the text of six functions for every frozen class, which takes half a millisecond (CPython
3.11), and the modules of one command have 60 to 110 such classes: a third of what `why` and `doctor` take to start.
Here `__init__` alone is compiled. The other five are the same for every class, but for its fields' names. All else, and
what the fields mean, is left to the standard library: `replace`, `fields` and `asdict` work.
"""

from __future__ import annotations

import dataclasses
from dataclasses import MISSING, FrozenInstanceError
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import Field
    from dataclasses import dataclass as dataclass
else:

    def dataclass(cls=None, /, **options):
        """Make a dataclass as the standard library does, and a frozen one without other options faster."""
        if options != {"frozen": True}:
            return dataclasses.dataclass(cls, **options)
        return _frozen if cls is None else _frozen(cls)


def _frozen(cls: type) -> type:
    if cls.__doc__ is None:
        # the library would write the signature there, which takes as long as all the rest
        cls.__doc__ = cls.__name__
    made: type = dataclasses.dataclass(init=False, repr=False, eq=False)(cls)
    fields = dataclasses.fields(made)
    own = made.__dict__
    members: dict[str, Any] = {
        "__init__": _init(made, fields),
        "__setattr__": _refuse_to_set,
        "__delattr__": _refuse_to_delete,
    }
    members |= {name: value for name, value in _compared(fields).items() if name == "__hash__" or name not in own}
    if "__repr__" not in own:
        members["__repr__"] = _repr(tuple(field.name for field in fields if field.repr))
    if own.get("__hash__") is not None:
        del members["__hash__"]
    for name, value in members.items():
        setattr(made, name, value)
    return made


def _init(cls: type, fields: tuple[Field[Any], ...]) -> Any:
    """Compile the one function that differs from class to class in more than names."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_MISSING": MISSING}
    parameters, body = ["self"], []
    for field in fields:
        name = field.name
        value = name
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            known[f"_{name}"] = _FACTORY
            value = f"_make_{name}() if {name} is _{name} else {name}" if field.init else f"_make_{name}()"
        elif field.default is not MISSING:
            known[f"_{name}"] = field.default
        if field.init:
            parameters.append(f"{name}=_{name}" if f"_{name}" in known else name)
        elif value == name:
            continue  # it is the class's, or `__post_init__` sets it
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append(" self.__post_init__()")
    exec("\n".join([f"def __init__({', '.join(parameters)}):", *(body or [" pass"])]), known)
    init = known["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__module__ = cls.__module__
    init.__annotations__ = {**{field.name: field.type for field in fields if field.init}, "return": None}
    return init


class _Factory:
    """The default of a parameter whose value is made anew for each instance."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _compared(fields: tuple[Field[Any], ...]) -> dict[str, Callable[..., Any]]:
    """Make what compares two instances by their fields, and the hash that agrees with it."""
    values = _values_of(tuple(field.name for field in fields if field.compare))
    hashed = tuple(field.name for field in fields if (field.compare if field.hash is None else field.hash))
    told = _values_of(hashed)

    def __eq__(self: object, other: object) -> Any:
        if other is self:
            return True
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def __hash__(self: object) -> int:
        return hash(told(self))

    return {"__eq__": __eq__, "__hash__": __hash__}


def _values_of(names: tuple[str, ...]) -> Callable[[object], tuple[Any, ...]]:
    if len(names) > 1:
        return attrgetter(*names)
    return lambda instance: tuple(getattr(instance, name) for name in names)


def _repr(names: tuple[str, ...]) -> Callable[[object], str]:
    def __repr__(self: object) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return __repr__


def _refuse_to_set(self: object, name: str, value: object) -> NoReturn:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: object, name: str) -> NoReturn:
    raise FrozenInstanceError(f"cannot delete field {name!r}")
