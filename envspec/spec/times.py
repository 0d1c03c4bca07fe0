"""Points in time as people write them, in UTC."""

from __future__ import annotations

import re
from datetime import date, datetime, timedelta, timezone

from envspec.base.reader.nodes import BadValue

_RFC_3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d):(\d\d)(?:\.\d+)?(?:[Zz]|([+-])(\d\d):(\d\d))?)?", re.ASCII
)


def utc_time(value: str | date) -> str:
    """Return an RFC 3339 date or time as `2026-11-01T00:00:00Z`.

    A bare date is its first moment, a time without offset is UTC, and fractions of a second are dropped.
    """
    try:
        moment = _moment(value) if isinstance(value, str) else _aware(value)
        moment = moment.astimezone(timezone.utc)
    except (ValueError, OverflowError) as error:
        raise BadValue(f"isn't a date or time: {error}", "for example: 2026-11-01 or 2026-11-01T12:00:00Z") from None
    return moment.replace(microsecond=0, tzinfo=None).isoformat() + "Z"


def _moment(text: str) -> datetime:
    match = _RFC_3339.fullmatch(text)
    if match is None:
        raise ValueError("RFC 3339 has years, months and days: YYYY-MM-DD")
    numbers = [int(part or 0) for part in match.groups()[:6]]
    offset = timedelta(0)
    if match[7]:
        hours, minutes = int(match[8]), int(match[9])
        if hours > 23 or minutes > 59:
            raise ValueError("offset must be below 24:00")
        offset = timedelta(hours=hours, minutes=minutes) * (-1 if match[7] == "-" else 1)
    return datetime(*numbers, tzinfo=timezone(offset))  # type: ignore[misc,arg-type]  # six numbers, never tzinfo


def _aware(value: date) -> datetime:
    if not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day, tzinfo=timezone.utc)
    return value if value.tzinfo else value.replace(tzinfo=timezone.utc)


def utc_day(value: str | date) -> str:
    """Return the day of an RFC 3339 date or time, as `2026-11-01`."""
    return utc_time(value)[:10]
