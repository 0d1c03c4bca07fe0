"""The report: verdicts, its summary, JUnit, and the table on stderr."""

from __future__ import annotations

import math
import os
import re
from typing import Any, Iterable, Iterator, Sequence
from xml.sax.saxutils import quoteattr

from envspec_check.lock import FRAMEWORKS
from envspec_check.process import finite


def verdict_of(value: float | None, reference: dict[str, Any] | None) -> str | None:
    """ "low", "high" or "ok": `low` and `high` of a reference are shares of its value. None: nothing to compare."""
    if reference is None or value is None or not math.isfinite(value):
        return None
    low, high, middle = reference.get("low"), reference.get("high"), reference["value"]
    if low is not None and value < middle + low * abs(middle):
        return "low"
    if high is not None and value > middle + high * abs(middle):
        return "high"
    return "ok"


LEAST = {"figures.matmul_tflop_s": 0.4, "figures.copy_gb_s": 0.6}
"""The share of a card's peak below which a figure is slow. No card reaches its peak: large products reach half to nine
tenths, by the power that the card is given."""


def peak_of(name: str, card: dict[str, Any] | None) -> dict[str, Any] | None:
    """Give a card's advertised peak in a figure's unit, and the least share of it that isn't slow; None where the
    peak isn't sure enough to judge by."""
    kind, last = name.rpartition(".")[::2]
    card = card or {}
    peak, least = card.get("bandwidth_gb_s") if name == "figures.copy_gb_s" else None, LEAST.get(name)
    if kind == "figures.matmul_tflop_s":
        peak, least = (card.get("tflop_s") or {}).get(last), LEAST[kind] if card.get("trust") != "low" else None
    elif kind == "collectives.bus_gb_s" and card.get("nvlink_gb_s"):
        peak = card["nvlink_gb_s"] / 2  # one way; no verdict, as GPUs may have no NVLink between them
    return {"value": peak, "least": least} if peak else None


def figure(
    name: str, value: float | None, unit: str, references: dict[str, Any], card: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return a figure with its reference, by its whole name or by what follows its group, and the peak of the card that
    it was taken on. A reference for some GPUs is none for others."""
    known = references.get(name) or references.get(name.partition(".")[2])
    if known and known.get("unit") and known["unit"] != unit:
        known = None
    if known and known.get("gpus") and (card or {}).get("product") not in known["gpus"]:
        known = None
    reference = {key: known.get(key) for key in ("value", "low", "high", "unit")} if known else None
    value, peak = finite(value), peak_of(name, card)
    slow = value is not None and peak and peak["least"] and value < peak["least"] * peak["value"]
    verdict = verdict_of(value, reference) or ("slow" if slow else None)
    return {"name": name, "value": value, "unit": unit, "reference": reference, "verdict": verdict, "peak": peak}


def shares(figures: Iterable[dict[str, Any]]) -> Iterator[tuple[str, float, str]]:
    """Yield the shares of a card's advertised peak that large products and copies reach, in per cent. NVML's
    utilisation says only for how much of the time some kernel ran."""
    for figure in figures:
        name = figure["name"]
        if figure["peak"] and figure["value"] is not None and (name in LEAST or name.rpartition(".")[0] in LEAST):
            kind = name.partition(".")[2].replace("_tflop_s", "").replace("_gb_s", "")
            yield f"figures.share_of_peak.{kind}", 100 * figure["value"] / figure["peak"]["value"], "%"


def slow_words(checks: Sequence[dict[str, Any]], figures: Sequence[dict[str, Any]]) -> list[str]:
    """List slow parts by the checks and by the figures; they decide nothing."""
    lines = [words for check in checks for words in check.get("slow", ())]
    for figure in figures:
        if figure["verdict"] == "slow":
            share = 100 * figure["value"] / figure["peak"]["value"]
            lines.append("%s is %.0f %% of the card's peak" % (figure["name"], share))
    return lines


def summary(
    checks: Sequence[dict[str, Any]],
    complete: bool = True,
    blind: bool = False,
    slow: Sequence[str] = (),
    bare: bool = False,
) -> dict[str, Any]:
    """Return the counts of a report, its verdict, and one line that says it. A run that was cut short proves nothing.
    `blind`: the target is for GPUs, and the checks ran on the CPU. `slow`: what is slow. `bare`: the target locks no
    framework that has checks, so that nothing is proved of what it is for."""
    count = {status: sum(check["status"] == status for check in checks) for status in ("pass", "fail", "skip")}
    total = sum(check["needs_gpu"] for check in checks)
    without = sum(check["needs_gpu"] and check["status"] == "skip" for check in checks)
    headline = "%(pass)d passed, %(fail)d failed, %(skip)d skipped" % count
    if not checks:
        headline = "no check ran"
    elif blind or 0 < total == without:
        need = "need" if without > 1 else "needs"
        headline = "no GPU check ran: " + headline + (" (%d of them %s a GPU)" % (without, need) if without else "")
    if bare:
        headline = "the target locks none of %s: %s" % (", ".join(FRAMEWORKS), headline)
    headline += "; slow: %d" % len(slow) if slow else ""
    return {
        "passed": count["pass"],
        "failed": count["fail"],
        "skipped": count["skip"],
        "gpu_skipped": without,
        "gpu_total": total,
        "verdict": "fail" if count["fail"] else "pass" if count["pass"] and complete and not bare else "skip",
        "headline": headline if complete else "interrupted: " + headline,
        "slow": list(slow),
    }


def xml_text(text: str) -> str:
    """Return a text without what XML can't hold, quoted."""
    text = re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", text)
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def junit(report: dict[str, Any]) -> str:
    """Return the report as JUnit XML: a testsuite with a testcase for each check."""

    def attribute(text: object) -> str:
        return quoteattr(re.sub("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "", str(text)))

    counts, name = report["summary"], "{}.{}".format(report["spec"], report["target"])
    head = 'tests="%d" failures="%d" errors="0" skipped="%d" time="%.3f"'
    head = head % (len(report["checks"]), counts["failed"], counts["skipped"], report["seconds"])
    lines = ['<?xml version="1.0" encoding="utf-8"?>', f'<testsuites name="envspec check" {head}>']
    lines.append('<testsuite name={} {} timestamp="{}">'.format(attribute(name), head, report["started"].rstrip("Z")))
    for check in report["checks"]:
        where = 'classname={} name={} time="{:.3f}"'.format(attribute(name), attribute(check["name"]), check["seconds"])
        inner = []
        if check["status"] == "fail":
            body = "\n".join(filter(None, [check["reason"], check["remedy"] and "remedy: {}".format(check["remedy"])]))
            message = attribute(check["reason"].partition("\n")[0])
            inner.append(
                "<failure message={} type={}>{}</failure>".format(message, attribute(check["group"]), xml_text(body))
            )
        elif check["status"] == "skip":
            inner.append("<skipped message={}/>".format(attribute(check["reason"].partition("\n")[0])))
        if check["output"]:
            inner.append("<system-out>{}</system-out>".format(xml_text(check["output"])))
        lines.append("<testcase {}>{}</testcase>".format(where, "".join(inner)))
    lines += ["<system-out>{}</system-out>".format(xml_text(counts["headline"])), "</testsuite>", "</testsuites>"]
    return "\n".join(lines) + "\n"


class Progress:
    """The table on stderr: a line for each check as it ends; on a terminal also the one that runs."""

    def __init__(self, names: Iterable[str], stream: Any) -> None:
        self.stream, self.live = stream, stream.isatty()
        self.width = max(map(len, names), default=0)
        colours = {"pass": "32", "fail": "31;1", "skip": "33"} if self.live and not os.environ.get("NO_COLOR") else {}
        self.colours = colours

    def begins(self, name: str) -> None:
        if self.live:
            self.stream.write(f"\r      {name}")
            self.stream.flush()

    def running(self, name: str, line: str) -> None:
        """Show the last line of the check that runs."""
        if self.live:
            self.stream.write("\r\033[K      %s  %s" % (name, re.sub(r"[^ -~]", " ", line)[:60]))
            self.stream.flush()

    def end(self, result: dict[str, Any]) -> None:
        word = result["status"]
        if word in self.colours:
            word = f"\033[{self.colours[word]}m{word}\033[0m"
        lines = [result["reason"]] if result["reason"] else []
        lines += ["remedy: {}".format(result["remedy"])] if result["remedy"] and result["status"] == "fail" else []
        lines += ["slow: " + words for words in result.get("slow", ())]
        if result["output"]:
            lines += ["| " + line for line in result["output"].splitlines()[-8:]]
        lead = "\r\033[K" if self.live else ""
        self.stream.write("%s%s  %-*s %7.2f s\n" % (lead, word, self.width, result["name"], result["seconds"]))
        for line in "\n".join(lines).splitlines():
            self.stream.write(f"      {line}\n")
        self.stream.flush()
