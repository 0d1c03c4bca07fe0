"""`dataclass`, of which a frozen class costs a tenth of the time to make.

The standard library writes six functions for each frozen dataclass and compiles them one by one. A command imports a
hundred such classes and makes values of half of them. Here what a class compares, hashes and shows are its fields, by
functions that all classes share; `__init__`, and what `dataclasses` keeps of a class, are made when they are first
asked for. `replace` needs none of that; type checkers and `dataclasses.fields` and `asdict` see a dataclass.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def dataclass(made: type | None = None, /, **options: Any) -> Any:
        """Make a class a dataclass. What is more than a plain frozen one is left to the standard library."""
        if made is None:
            return lambda one: dataclass(one, **options)
        if options in _PLAIN and _is_plain(made):
            return _frozen(made, "order" in options)
        return dataclasses.dataclass(made, **options)

    def replace(one: Any, /, **changes: Any) -> Any:
        """Make another value of a dataclass, with these fields changed. The standard library's way asks for what it
        keeps of the class, which takes longer to make than any value."""
        kind = one.__class__
        if not isinstance(vars(kind).get("__dataclass_fields__"), _Kept):
            return dataclasses.replace(one, **changes)
        return kind(**({name: getattr(one, name) for name in kind.__match_args__} | changes))


_PLAIN = ({"frozen": True}, {"frozen": True, "order": True})
_ORDERS = {"__lt__": operator.lt, "__le__": operator.le, "__gt__": operator.gt, "__ge__": operator.ge}
_WRITTEN = frozenset(("__init__", "__repr__", "__eq__", "__hash__", "__setattr__", "__delattr__", *_ORDERS))
_NO_FIELDS = ("ClassVar", "InitVar", "KW_ONLY")


def _is_plain(made: type) -> bool:
    """Say whether a class inherits nothing, writes none of the functions itself, and takes all its fields by place:
    those without a default first, and no default that could change."""
    own = vars(made)
    if made.__bases__ != (object,) or not _WRITTEN.isdisjoint(own):
        return False
    optional = False
    for name, kind in made.__annotations__.items():
        if not isinstance(kind, str) or any(word in kind for word in _NO_FIELDS):
            return False
        value = own.get(name, MISSING)
        if isinstance(value, Field) and not (value.init and value.kw_only is not True and value.hash is None):
            return False
        default = _default(value)
        if (optional and default is MISSING) or default.__class__.__hash__ is None:
            return False
        optional = default is not MISSING
    return not any(isinstance(value, Field) and name not in made.__annotations__ for name, value in own.items())


def _default(value: Any) -> Any:
    """Give the default of a field, or what makes it; MISSING where it has none. `value` is what its class says."""
    if not isinstance(value, Field):
        return value
    return value.default_factory if value.default is MISSING else value.default


def _frozen(made: type, ordered: bool) -> type:
    said = {name: vars(made).get(name, MISSING) for name in made.__annotations__}
    for name, value in said.items():
        if isinstance(value, Field):
            if value.default is MISSING:
                delattr(made, name)
            else:
                setattr(made, name, value.default)
    own = {
        "__init__": _Init(made, said),
        "__match_args__": tuple(said),
        **_comparing(_names(said, "compare"), ordered),
        "__repr__": _showing(_names(said, "repr")),
        "__setattr__": _refuse_setting,
        "__delattr__": _refuse_deleting,
        "__replace__": _replaced,
        **{name: _Kept(made, said, name, ordered) for name in ("__dataclass_fields__", "__dataclass_params__")},
    }
    for name, value in own.items():
        setattr(made, name, value)
    return made


def _names(said: Mapping[str, Any], asked: str) -> tuple[str, ...]:
    """List the fields that take part in what is asked: comparing, or being shown."""
    return tuple(name for name, value in said.items() if not isinstance(value, Field) or getattr(value, asked))


class _Kept:
    """What the standard library keeps of a dataclass: it makes it of the same fields when it's first asked for."""

    def __init__(self, made: type, said: Mapping[str, Any], name: str, ordered: bool) -> None:
        self._made, self._said, self._name, self._ordered = made, said, name, ordered

    def __get__(self, instance: object, owner: type) -> Any:
        made = self._made
        own = {name: value for name, value in self._said.items() if value is not MISSING}
        # without a docstring `dataclasses` would write one, by means that take longer than all else
        said = {"__doc__": made.__name__, "__module__": made.__module__, "__annotations__": made.__annotations__}
        like = type(made.__name__, (), {**own, **said})
        dataclasses.dataclass(init=False, repr=False, eq=False)(like)
        kept = vars(like)[self._name]
        if self._name == "__dataclass_params__":
            for name in ("init", "repr", "eq", "frozen"):
                setattr(kept, name, True)
            kept.order = self._ordered
        setattr(made, self._name, kept)
        return kept


class _Init:
    """`__init__` of a class: compiled once it pays, or when a signature or the words of a TypeError are needed.

    Compiling takes as long as filling ten values field by field, and of most classes a command makes fewer.
    """

    def __init__(self, made: type, said: Mapping[str, Any]) -> None:
        self._made, self._said, self._left = made, said, 10

    def __get__(self, instance: object, owner: type) -> Any:
        self._left -= 1
        if instance is not None and self._left >= 0:
            return partial(self._fill, instance)
        return self._compiled().__get__(instance, owner)

    def _compiled(self) -> Any:
        method = _compile(self._made, self._said)
        setattr(self._made, "__init__", method)  # noqa: B010 - a type checker would take it for a mistake
        return method

    def _fill(self, instance: Any, /, *args: Any, **named: Any) -> None:
        given = dict(zip(self._said, args, strict=False))
        wrong = len(args) > len(given) or not given.keys().isdisjoint(named)
        given.update(named)
        for name, value in self._said.items():
            if name in given:
                value = given.pop(name)
            elif isinstance(value, Field) and value.default is MISSING and value.default_factory is not MISSING:
                value = value.default_factory()
            else:
                value = _default(value)
            wrong = wrong or value is MISSING
            object.__setattr__(instance, name, value)
        if wrong or given:
            self._compiled()(instance, *args, **named)
        elif hasattr(instance, "__post_init__"):
            instance.__post_init__()


def _compile(made: type, said: Mapping[str, Any]) -> Any:
    """Compile `__init__`: the fields' defaults are its globals."""
    known: dict[str, Any] = {"_set": object.__setattr__, "_missing": MISSING}
    parameters, body = [], []
    for name, of_class in said.items():
        value, default = name, _default(of_class)
        if default is MISSING:
            parameters.append(name)
        elif isinstance(of_class, Field) and of_class.default is MISSING:
            known[f"_make_{name}"] = default
            parameters.append(f"{name}=_missing")
            value = f"_make_{name}() if {name} is _missing else {name}"
        else:
            known[f"_default_{name}"] = default
            parameters.append(f"{name}=_default_{name}")
        body.append(f" _set(self, {name!r}, {value})")
    if hasattr(made, "__post_init__"):
        body.append(" self.__post_init__()")
    head = f"def __init__({', '.join(['self', *parameters])}):"
    exec("\n".join([head, *(body or [" pass"])]), known)
    method = known["__init__"]
    method.__qualname__ = f"{made.__qualname__}.__init__"
    method.__annotations__ = {**made.__annotations__, "return": None}
    return method


def _comparing(names: tuple[str, ...], ordered: bool) -> dict[str, Any]:
    """Make `__eq__` and `__hash__` of these fields, and what orders by them."""
    if len(names) > 1:
        values: Any = operator.attrgetter(*names)
    elif names:
        one = operator.attrgetter(*names)

        def values(self: object) -> tuple[Any, ...]:
            return (one(self),)
    else:

        def values(self: object) -> tuple[Any, ...]:
            return ()

    def equal(self: object, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(values(self))

    def by(order: Callable[[Any, Any], bool]) -> Any:
        return lambda self, other: (
            order(values(self), values(other)) if other.__class__ is self.__class__ else NotImplemented
        )

    orders = _ORDERS if ordered else {}
    return {"__eq__": equal, "__hash__": hashed, **{name: by(order) for name, order in orders.items()}}


def _showing(names: tuple[str, ...]) -> Any:
    def shown(self: object) -> str:
        return f"{self.__class__.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in names)})"

    return shown


def _refuse_setting(self: object, name: str, value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_deleting(self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _replaced(self: Any, /, **changes: Any) -> Any:
    return dataclasses.replace(self, **changes)
