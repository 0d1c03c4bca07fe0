"""Licences by class: identifiers, words, and expressions of both."""

import pytest

from envspec.review.diff.risk import licence_class

LICENCES = {
    "permissive": (
        "MIT",
        "MIT License",
        "BSD",
        "BSD3",
        "3-Clause BSD License",
        "Apache2",
        "Apache Software License AND BSD License",
        "Apache-2.0 WITH LLVM-exception",
        "ISC License (ISCL)",
        "Unlicense",
        "CC-BY-4.0",
        "CC0-1.0",
        "PSF-2.0",
        "LicenseRef-Public-Domain",
        "Apache-2.0 OR GPL-2.0-only",
        "GPL-2.0-only OR FTL",
        "MIT OR Its-Own",
    ),
    "weak copyleft": (
        "LGPL-2.1-or-later",
        "LGPLv3+",
        "MPL-2.0",
        "MPLv2",
        "MPL-2.0 AND MIT",
        "LGPL-2.1-only or MPL-1.1",
        "GPL-2.0-or-later OR LGPL-3.0-or-later",
        "GNU Lesser General Public License v3 (LGPLv3)",
        "GNU Library or Lesser General Public License (LGPL)",
        "Mozilla Public License 2.0 (MPL 2.0)",
    ),
    "copyleft": (
        "GPL",
        "GPLv3",
        "AGPL-3.0-only",
        "GPL-3.0-only WITH GCC-exception-3.1",
        "GNU General Public License v2 or later (GPLv2+)",
        "(MIT OR Zlib) AND GPL-2.0-only",
        "OSL-3.0",
        "CC-BY-SA-4.0",
    ),
    "proprietary": (
        "NVIDIA Proprietary Software",
        "UNLICENSED",
        "Elastic-2.0",
        "CC-BY-NC-4.0",
        "CC-BY-NC-SA-4.0",
        "Llama Community License",
        "free for non-commercial use",
        "OpenRAIL-M",
        "BUSL-1.1 AND MIT",
    ),
    "unknown": (
        "",
        "Dual License",
        "provided as is, without any implied warranty",
        "SMPLX",
        "LicenseRef-Its-Own",
        "BSD-3-Clause AND Its-Own",
        "(" * 5000,
    ),
}


@pytest.mark.parametrize(("licence", "expected"), [(text, name) for name, found in LICENCES.items() for text in found])
def test_classes(licence: str, expected: str) -> None:
    assert licence_class(licence) == expected
