"""No secret of a file that a spec begins with gets into the spec, onto the terminal, or into what is made of the spec;
and of a spec that holds one itself, no recipe and no image is made."""

import re
from pathlib import Path

import pytest
from support.planted import COMMANDS, Plant, planted, spec

from envspec.cli.main import run
from envspec.spec.parse import load_spec

CANARY = "canary7hunter22"
"""In every secret that is planted here."""
VARIABLES = (
    ("HF_TOKEN", CANARY),
    ("WANDB_API_KEY", f"{CANARY}0123456789abcdef"),
    ("UV_INDEX_MINE_PASSWORD", CANARY),
    ("PIP_INDEX_URL", f"https://bot:{CANARY}@pkgs.example.org/simple"),
    ("PIP_EXTRA_INDEX_URL", f"https://dl.cloudsmith.io/{CANARY}/acme/repo/python/simple/"),
    ("CHANNEL", f"https://conda.example.org/t/{CANARY}/mine"),
    ("DATABASE_URL", f"postgres://me:{CANARY}@db.example.org/x"),
    ("GOOGLE_CREDENTIALS", f"{{{CANARY}}}"),
    ("MYSQL_PWD", CANARY),
    ("npm_config__auth", CANARY),
    ("GIT_PAT", CANARY),
)
PLAIN = {"HF_HOME": "/cache", "TOKENIZERS_PARALLELISM": "false", "VLLM_MAX_TOKENS": "4096"}
EVERY = {**dict(VARIABLES), **PLAIN}
LOGIN = f"https://bot:{CANARY}@pkgs.example.org/simple"
TOKEN = f"https://repo.fury.io/{CANARY}/acme/"
IN_PATH = f"https://pkgs.example.org/x{CANARY}9z8y7/simple"
GIT = f"git+https://{CANARY}@example.org/acme/thing.git"

DOCKERFILE = f"""FROM python:3.12-slim
ARG GITHUB_TOKEN={CANARY}
ONBUILD RUN echo {CANARY}
MAINTAINER {CANARY}
ENV {" ".join(f"{name}='{value}'" for name, value in EVERY.items())}
ENV NPM_TOKEN {CANARY}
RUN pip config set global.index-url {LOGIN}
RUN pip config set global.password {CANARY} && wandb login {CANARY} && huggingface-cli login --token {CANARY}
RUN HF_TOKEN={CANARY} python get.py --password {CANARY}
RUN echo "machine example.org login me password {CANARY}" > ~/.netrc; curl -u me:{CANARY} -H "X-Api-Key: {CANARY}" x
RUN git clone https://{CANARY}@example.org/acme/a.git && git config user.token {CANARY}
RUN make install TOKEN={CANARY} PASSWORD={CANARY}
RUN pip install --proxy http://me:{CANARY}@proxy.example.org:3128 --global-option=--token={CANARY} six
RUN pip install --index-url {LOGIN} --extra-index-url {TOKEN} --find-links {IN_PATH} "a @ {GIT}" $MORE
RUN pip install -i {LOGIN} --extra-index-url {TOKEN} --extra-index-url {IN_PATH} -f {TOKEN}x.html "a @ {GIT}"
RUN conda install -c https://me:{CANARY}@conda.example.org/mine -c https://conda.example.org/t/{CANARY}/other numpy
RUN conda install --token={CANARY} https://me:{CANARY}@conda.example.org/mine::ffmpeg
RUN <<EOF
export HF_TOKEN={CANARY}
wandb login {CANARY}
EOF
"""
REQUIREMENTS = f"""--index-url {LOGIN}
--extra-index-url {TOKEN}
--extra-index-url {IN_PATH}
--extra-index-url https://${{USER}}:{CANARY}@pkgs2.example.org/simple
--find-links https://me:{CANARY}@pages.example.org/links.html
--find-links {TOKEN}
--client-cert /x --proxy=http://u:{CANARY}@p.example.org
-r https://me:{CANARY}@example.org/more.txt
-e {GIT}#egg=thing
{GIT}
more @ https://dl.cloudsmith.io/{CANARY}/acme/repo/python/more-1.0-py3-none-any.whl
commas @ https://me:a,{CANARY}@example.org/commas-1.0-py3-none-any.whl
six --config-settings=token={CANARY}
"""
CHANNELS = (
    f"https://me:{CANARY}@conda.example.org/mine",
    f"https://conda.example.org/t/{CANARY}/other",
    f"https://conda.example.org/api/conda/t/{CANARY}/third",
    f"https://conda.example.org/x{CANARY}9z8y7/fourth",
)
FILES = {
    "Dockerfile": DOCKERFILE,
    "requirements.txt": REQUIREMENTS,
    "environment.yml": "channels: [conda-forge, {channels}]\ndependencies:\n"
    "  - 'https://me:{canary}@h.example.org/c::numpy'\n"
    "  - ffmpeg[channel='https://h.example.org/t/{canary}/c']\n  - npm: ['https://me:{canary}@example.org/x']\n"
    "  - pip:\n{pip}\nvariables:\n{variables}\n",
    "pixi.toml": '[workspace]\nchannels = ["conda-forge", {channels}]\nplatforms = ["linux-64"]\n'
    '[dependencies]\nnumpy = {{ version = "*", channel = "https://h.example.org/t/{canary}/c" }}\n'
    '[pypi-dependencies]\nthing = {{ git = "https://{canary}@example.org/thing.git" }}\n'
    'six = {{ version = "*", index = "{token}" }}\n[pypi-options]\nindex-url = "{login}"\n'
    'find-links = [{{ url = "{token}" }}]\n'
    "[activation.env]\n{assigned}\n[feature.x.activation.env]\nHF_TOKEN = '{canary}'\n"
    '[feature.x]\nchannels = ["https://h.example.org/t/{canary}/d"]\n',
    "pyproject.toml": '[project]\nname = "own"\nversion = "1"\ndependencies = ["six", "a @ {git}"]\n'
    '[project.optional-dependencies]\nx = ["b @ {git}"]\n[[tool.uv.index]]\nname = "one"\nurl = "{login}"\n'
    '[[tool.uv.index]]\nname = "two"\nurl = "{token}"\n[[tool.uv.index]]\nname = "three"\nurl = "{in_path}"\n'
    '[tool.uv]\nfind-links = ["{token}"]\noverride-dependencies = ["c @ {git}"]\n'
    '[tool.uv.sources]\nsix = {{ git = "https://{canary}@example.org/six.git" }}\n'
    'd = {{ url = "https://me:{canary}@h/d-1.zip" }}\n',
    "poetry/pyproject.toml": '[tool.poetry]\nname = "p"\n[[tool.poetry.source]]\nname = "one"\nurl = "{login}"\n'
    '[tool.poetry.dependencies]\nsix = {{ git = "https://{canary}@example.org/six.git" }}\n'
    'e = {{ url = "https://me:{canary}@h.example.org/e-1.zip" }}\n',
    "setup.py": "from setuptools import setup\nsetup(install_requires=['six', 'a @ {git}'], "
    "extras_require={{'x': ['b @ {git}']}})\n",
    "setup.cfg": "[options]\ninstall_requires =\n  six\n  a @ {git}\n[options.extras_require]\nx = b @ {git}\n",
    "cog.yaml": "build:\n  python_packages: [six, 'a @ {git}']\n  run: ['wandb login {canary}']\n"
    "environment:\n{listed}\n",
    "README.md": "```\npip install six 'a @ {git}' --index-url {login}\nwandb login {canary}\n```\n",
}  # fmt: skip


def text_of(name: str) -> str:
    """The text of a file with secrets."""
    return FILES[name] if name in ("Dockerfile", "requirements.txt") else FILES[name].format(
        canary=CANARY, login=LOGIN, token=TOKEN, in_path=IN_PATH, git=GIT,
        channels=", ".join(f'"{one}"' for one in CHANNELS),
        pip="\n".join(f"    - '{line}'" for line in REQUIREMENTS.splitlines()),
        variables="\n".join(f"  {name}: '{value}'" for name, value in EVERY.items()),
        assigned="\n".join(f"{name} = '{value}'" for name, value in EVERY.items()),
        listed="\n".join(f"  - '{name}={value}'" for name, value in EVERY.items()),
    )  # fmt: skip


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `init` writes and prints."""
    Path(name).parent.mkdir(exist_ok=True)
    Path(name).write_text(text_of(name), encoding="utf-8")
    assert CANARY in Path(name).read_text()
    status = run(["init", "demo", "--from", name])
    told = capsys.readouterr()
    assert status == 0, told.err
    return Path("specs/demo.toml").read_text(encoding="utf-8") + told.out + told.err


@pytest.mark.parametrize("name", FILES)
def test_in_what_init_writes_and_prints(name: str, here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written = begin(name, capsys)
    assert [line for line in written.splitlines() if CANARY in line] == []
    spec = load_spec("specs/demo.toml")
    if name in ("Dockerfile", "environment.yml", "pixi.toml", "cog.yaml"):
        assert spec.image.env == PLAIN
        for left, _ in VARIABLES:
            if name == "Dockerfile" and left in (
                "PIP_INDEX_URL",
                "PIP_EXTRA_INDEX_URL",
            ):  # its index is taken, without the login
                assert "an index's credentials are left out" in written
                continue
            assert f"the variable {left} is left out, since it may hold a secret: pass it at run time" in written
    addresses = " ".join((*spec.pip.indexes.values(), *spec.pip.indexes, *spec.pip.terms.find_links.values()))
    assert "****" not in addresses and (name != "requirements.txt" or "pkgs.example.org/simple" in addresses)


def test_a_repository_with_all_of_them(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in FILES:
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text_of(name), encoding="utf-8")
    run(["init", "demo", "--from", ".", "--prefer", "pyproject.toml"])
    told = capsys.readouterr()
    spec = Path("specs/demo.toml")
    written = (spec.read_text() if spec.exists() else "") + told.out + told.err
    assert [line for line in written.splitlines() if CANARY in line] == []


@pytest.mark.slow
def test_in_what_is_made_of_such_a_spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lock, recipes and all else of a spec that began with a Dockerfile."""
    with planted(tmp_path, CANARY) as plant:
        plant.machine.default = plant.index.url
        text = (
            re.sub("RUN .*(?:a @|-c |conda).*\n", "", DOCKERFILE).replace("--global-option", "--x")
            + "RUN pip install alpha\n"
        )
        plant.write(plant.machine.folder / "Dockerfile", text)
        ran = plant.run("init", "demo", "--from", "Dockerfile")
        assert ran.status == 0, ran.err
        path = plant.machine.folder / "specs" / "demo.toml"
        path.write_text(path.read_text().replace('"six"', '"beta"'))
        for name, arguments in COMMANDS.items():
            assert plant.run(*arguments).status in (0, 1, 3) or name == "diff", plant.said[-1]
        assert plant.machine.lock_path().is_file() and (plant.machine.folder / "recipes/demo").is_dir()
        assert plant.found() == []


SECRET = f'[image]\nenv = {{ HF_TOKEN = "{CANARY}", HF_HOME = "/x", KEYBOARD = "us" }}\n'


def locked(plant: Plant, accept: str = "") -> None:
    plant.machine.default = plant.index.url
    plant.files.append(plant.machine.folder / plant.machine.spec(spec(accept, SECRET)))


@pytest.mark.slow
def test_a_spec_that_holds_one_itself(tmp_path: Path) -> None:
    """`lock` warns by name, and nothing that others get is made of it."""
    with planted(tmp_path, CANARY) as plant:
        locked(plant)
        ran = plant.run("lock", "specs/demo.toml")
        assert ran.status == 0 and "HF_TOKEN may hold a secret" in ran.err and "KEYBOARD" not in ran.err, ran.err
        assert "HF_HOME" not in ran.err
        for arguments in (
            *[COMMANDS[name] for name in COMMANDS],
            ("export", "specs/demo.toml", "-f", "pixi", "-f", "uv-project", "-o", "others"),
            ("image", "specs/demo.toml", "-o", "image"),
            ("image", "specs/demo.toml", "--sif", "x.sif"),
        ):
            ran = plant.run(*arguments)
            if arguments[0] in ("image", "bundle") or {"all", "pixi"} & {*arguments}:
                assert ran.status == 2, ran
                assert (
                    "specs/demo.toml:9:20: image.env: HF_TOKEN" in ran.error
                    and "HF_TOKEN may hold a secret" in ran.error
                )
                assert 'accept = { secret-variable = { hf-token = "why" } }' in ran.hint
        assert plant.found() == []


@pytest.mark.parametrize("accept", ["{ secret-variable = { HF_TOKEN = 'a test' } }", "{ secret-variable = 'a test' }"])
def test_one_that_is_accepted_with_a_reason(tmp_path: Path, accept: str) -> None:
    with planted(tmp_path, CANARY) as plant:
        locked(plant, f"accept = {accept}")
        ran = plant.run("lock", "specs/demo.toml")
        assert ran.status == 0 and "accepted [secret-variable]: a test" in ran.err and "unused-accept" not in ran.err
        assert plant.run("check", "specs/demo.toml").status == 0
        ran = plant.run(*COMMANDS["recipes"])
        assert ran.status == 0, ran.err
        assert CANARY in (plant.machine.folder / "recipes/demo/cpu/Dockerfile").read_text()


def test_addresses_that_only_look_so(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = ("vllm/0123456789abcdef0123456789abcdef01234567", "project123456789/simple", "t5/simple", "acme2024/simple")
    lines = "".join(f"--extra-index-url https://pkgs.example.org/{path}\n" for path in paths)
    Path("requirements.txt").write_text(f"{lines}six\n")
    assert run(["init", "demo", "--from", "requirements.txt"]) == 0
    assert {*load_spec("specs/demo.toml").pip.indexes.values()} == {
        f"https://pkgs.example.org/{path}" for path in paths
    }
    assert "left out" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("table", "subject"),
    [
        (f"[image]\nbuild-env = {{ NPM_TOKEN = '{CANARY}' }}\n", "image.build-env: NPM_TOKEN may hold a secret"),
        (f"[image]\nenv = {{ X = 'https://me:{CANARY}@example.org/' }}\n", "image.env: X may hold a secret"),
        (f"[kubernetes]\nprogram = ['train', '--wandb-key', '{CANARY}']\n", "kubernetes.program has a secret"),
        (f"[kubernetes]\nprogram = ['train', '--hub=https://me:{CANARY}@h/']\n", "kubernetes.program has a secret"),
        (f"[kubernetes]\nprogram = ['serve', '--api-key={CANARY}']\n", "kubernetes.program has a secret"),
    ],
)
def test_other_places_of_a_spec(tmp_path: Path, table: str, subject: str) -> None:
    with planted(tmp_path, CANARY) as plant:
        plant.machine.default = plant.index.url
        plant.files.append(plant.machine.folder / plant.machine.spec(spec("", table)))
        ran = plant.run("lock", "specs/demo.toml")
        assert ran.status == 0 and subject in ran.err, ran.err
        ran = plant.run(*COMMANDS["recipes"])
        assert ran.status == 2 and subject in ran.error
        assert plant.found() == []


def test_what_speaks_of_no_secret_is_no_finding(tmp_path: Path) -> None:
    with planted(tmp_path, CANARY) as plant:
        plant.machine.default = plant.index.url
        table = "[image]\nenv = { HF_TOKEN = '', MAX_TOKENS = 'x', PUBLIC_KEY = 'x', DB_PASSWORD_FILE = '/run/x' }\n"
        plant.machine.spec(
            spec("", f"{table}[kubernetes]\nprogram = ['train', '--max-tokens', '4096', '--key', '5']\n")
        )
        ran = plant.run("lock", "specs/demo.toml")
        assert ran.status == 0 and "may hold a secret" not in ran.err and "has a secret" not in ran.err
        assert plant.run(*COMMANDS["recipes"]).status == 0
