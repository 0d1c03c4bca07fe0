"""Labels as builders of extensions write them."""

import pytest

from envspec.packages.build_label import BuildLabel, label_of


@pytest.mark.parametrize(
    ("version", "expected"),
    [
        ("2.1.2+pt24cu118", BuildLabel("2.4", "11.8")),
        ("2.1.2+pt210cu130", BuildLabel("2.10", "13.0")),
        ("2.1.2+pt28cpu", BuildLabel("2.8", cpu=True)),
        ("2.8.3+cu12torch2.5cxx11abiFALSE", BuildLabel("2.5", "12", cxx11abi=False)),
        ("1.5.0+cu122torch2.1cxx11abitrue", BuildLabel("2.1", "12.2", cxx11abi=True)),
        ("0.17.1+torch240cu124", BuildLabel("2.4", "12.4")),
        ("0.21.0+torch2100cu128", BuildLabel("2.10", "12.8")),
        ("0.7.8+pt2.4.1cu121", BuildLabel("2.4", "12.1")),
        ("0.2.8+cu121.torch2.5.0", BuildLabel("2.5", "12.1")),
        ("0.6+18f6958pt2.4.1cu121", BuildLabel("2.4", "12.1")),
        ("1.0.1+torch2.8", BuildLabel("2.8")),
        ("0.0.23.post1+cu118", BuildLabel(cuda="11.8")),
        ("0.6.0+cpu", BuildLabel(cpu=True)),
        ("2.9.1+rocm6.4", None),
        ("2.9.1+acme", None),
        ("2.9.1", None),
        ("1.0+occupied.cpuset", None),
        ("1.0+cu92", None),
    ],
)  # fmt: skip
def test_label(version: str, expected: BuildLabel | None) -> None:
    assert label_of(version) == expected


@pytest.mark.parametrize("plus", ["+", "%2B"])
def test_the_file_name_speaks_where_the_version_has_no_local_part(plus: str) -> None:
    file = f"flash_attn-2.8.3{plus}cu12torch2.8cxx11abiTRUE-cp312-cp312-linux_x86_64.whl"
    assert label_of("2.8.3", file) == BuildLabel("2.8", "12", cxx11abi=True)
    assert label_of("2.8.3+acme", file) is None
