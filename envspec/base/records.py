"""Frozen records that carry notes: fields that say more of a value and aren't part of what it is."""

from __future__ import annotations

from functools import cache
from operator import attrgetter
from typing import ClassVar

from msgspec import Struct


class RecordWithNotes(Struct, frozen=True, eq=False):
    """A frozen record whose `notes`, names of its fields, count neither for equality nor for its hash: where a
    requirement was read doesn't make it another requirement."""

    notes: ClassVar[frozenset[str]]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, RecordWithNotes) and (isinstance(other, type(self)) or isinstance(self, type(other))):
            return _identity(self) == _identity(other)
        return NotImplemented

    def __ne__(self, other: object) -> bool:
        # Struct has one of its own, which doesn't ask __eq__
        return not self == other

    def __hash__(self) -> int:
        return hash(_identity(self))


def compared_fields(kind: type[RecordWithNotes]) -> tuple[str, ...]:
    """Give the names of the fields of a kind of record that aren't notes."""
    return tuple(name for name in kind.__struct_fields__ if name not in kind.notes)


def _identity(record: RecordWithNotes) -> object:
    return _reader(type(record))(record)


@cache
def _reader(kind: type[RecordWithNotes]) -> attrgetter[object]:
    return attrgetter(*compared_fields(kind))
