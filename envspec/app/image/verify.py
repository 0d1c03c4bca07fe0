"""`envspec image --verify`: whether an image is this lock's."""

from __future__ import annotations

from contextlib import ExitStack, suppress
from functools import reduce

from msgspec.structs import replace

from envspec.app.image.base import open_base, open_image
from envspec.app.image.prepare import ImageOrder, permit, prepare, source_wheels
from envspec.app.observer import observer
from envspec.base.errors import OutsideError
from envspec.base.finding import Finding
from envspec.export.make import make_plan
from envspec.image.build import DATES, WITHOUT
from envspec.image.manifest import ImageManifest, read_image
from envspec.image.requirements import FEATURES, require_digests
from envspec.image.verify import by_content, by_labels, label_of
from envspec.review.audit.store import Stored, read


def verify_image(order: ImageOrder, where: str) -> dict[str, tuple[Finding, ...]]:
    """Compare an image with what the lock gives, target by target. Raises InputError, Forbidden, IndexFailure,
    ToolError, StorageError."""
    differences_by_target = {}
    with ExitStack() as stack:
        image_source = stack.enter_context(open_image(where, "--verify", offline=order.offline))
        plans = [(target, make_plan(order.spec, order.lock, target)) for target in order.targets]
        images = [
            read_image(image_source.top, image_source.read, plan.runtime.oci_platform, where) for _, plan in plans
        ]
        permit(order, reduce(Stored.with_more, map(_read_annotation, images), Stored()))
        progress = stack.enter_context(observer().progress())
        for (target, plan), image in zip(plans, images, strict=True):
            differences = by_labels(plan, image)
            if not differences:
                lacking = label_of(image, WITHOUT).split(",")
                own = replace(order, without=tuple(name for name in FEATURES if name in lacking))
                plan, built = require_digests(plan, target, own.without), source_wheels(own, target, stack)
                source = stack.enter_context(open_base(plan, order.base, progress.came, offline=order.offline))
                ready = prepare(own, target, plan, built, source, progress, stack)
                differences = tuple(
                    by_content(
                        ready.plan,
                        image,
                        ready.base,
                        ready.layers,
                        ready.labels,
                        ready.annotations,
                        lambda name: progress.phase(f"making {name} anew"),
                        progress.came,
                    )
                )
            differences_by_target[target.name] = differences
    return differences_by_target


def _read_annotation(image: ImageManifest) -> Stored:
    with suppress(OutsideError):
        return read(image.annotations[DATES], DATES) if DATES in image.annotations else Stored()
    # what can't be read is asked anew
    return Stored()
