"""What uv is asked."""

from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from envspec.resolve.pip.indexes import Question
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.answer import Found


@contextmanager
def questions() -> Iterator[dict[Path, list[Request]]]:
    """Give what uv is asked for each solution, which its folder stands for."""
    asked, ask = defaultdict[Path, list[Request]](list), Question.ask

    def asking(self: Question, request: Request, *more: Any) -> tuple[Found, ...]:
        asked[self.folder].append(request)
        return ask(self, request, *more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Question, "ask", asking)
        yield asked
