"""uv's log of its search is asked for where a correction may have kept the search from a release."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from envspec.base.errors import EnvspecError
from envspec.facts.corrections import corrections
from envspec.net.index_proxy.server import IndexProxy
from envspec.resolve.pip.compile import UvCompile, compile_request
from envspec.resolve.pip.request import Request
from envspec.resolve.uv.program import Uv


@pytest.mark.parametrize("corrected", [True, False])
def test_a_request_without_corrections_has_no_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, corrected: bool
) -> None:
    asked: list[str] = []

    def run(self: Uv, command: Any, *, cwd: Path, more: dict[str, str]) -> subprocess.CompletedProcess[str]:
        asked.append(more["RUST_LOG"])
        return subprocess.CompletedProcess(command, 1, "", "error: no")

    monkeypatch.setattr(Uv, "run", run)
    request = Request("linux-64", "3.12", "2.28", ("numpy",), None)
    request = replace(request, corrections=corrections()) if corrected else request
    with pytest.raises(EnvspecError):
        compile_request(
            UvCompile(Uv("uv", {"RUST_LOG": "trace"}), request, (), tmp_path, "t", IndexProxy("http://127.0.0.1:9"))
        )
    assert asked == ["uv_resolver::resolver=debug" if corrected else ""]
