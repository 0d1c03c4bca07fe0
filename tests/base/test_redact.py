"""No password leaves: what is secret by its place in a URL, and what is known to be one, wherever it stands."""

import base64
import json
import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from hypothesis import assume, given, strategies as st

from envspec.base import redact as secrets
from envspec.base.redact import (
    has_credentials,
    redact,
    register,
    register_environment,
    register_url,
    without_credentials,
)


@pytest.fixture(autouse=True)
def nothing_known() -> Iterator[None]:
    secrets.forget()
    yield
    secrets.forget()


@pytest.mark.parametrize(
    ("text", "bare"),
    [
        ("https://user:secret@host/simple", "https://host/simple"),
        ("https://token@host/simple", "https://host/simple"),
        ("https://:secret@host:8080/a?b#c", "https://host:8080/a?b#c"),
        ("git+https://user:secret@host/repo.git@v1", "git+https://host/repo.git@v1"),
        ("a `https://u:p@a/` and (https://u:p@b/), done", "a `https://a/` and (https://b/), done"),
        ("https://u:p@ss@host/", "https://host/"),
        ("https://u:p%40ss@host/", "https://host/"),
        ("https://u:p/w@host/simple", "https://host/simple"),
        ("https://u:p?w#x/y@host/simple", "https://host/simple"),
        ("name @ git+http://u:p/PASS@host/r.git", "name @ git+http://host/r.git"),
        ("https://u:p@a/,https://u:p/w@b/", "https://a/,https://b/"),
        ("name @ https://u:p@host/x.whl", "name @ https://host/x.whl"),
        ("http://h/simple?token=PASS: HTTP 404", "http://h/simple?token=****: HTTP 404"),
        ("GET /simple/?x=1&api_key=PASS&y=2 done", "GET /simple/?x=1&api_key=****&y=2 done"),
        (
            "'https://s3/x.whl?X-Amz-Credential=AK%2F1&X-Amz-Date=2&X-Amz-Signature=0af'",
            "'https://s3/x.whl?X-Amz-Credential=****&X-Amz-Date=2&X-Amz-Signature=****'",
        ),
        ("https://blob/x?sv=2&sig=a%3D", "https://blob/x?sv=2&sig=****"),
        ("https://host/t/TOKEN/simple/", "https://host/t/****/simple/"),
        ("https://u:p@host/t/TOKEN", "https://host/t/****"),
        ("channel host.example/t/TOKEN/mine", "channel host.example/t/****/mine"),
        ("/conda/t/ab-12345678-1234-1234-1234-123456789012/x", "/conda/t/****/x"),
        ("/conda/t/0123456789abcdefABCD/x", "/conda/t/****/x"),
        ("{'Authorization': 'Basic dTpw'}", "{'Authorization': 'Basic ****'}"),
        ("authorization: Bearer a.b.c", "authorization: Bearer ****"),
        ("ssh://git:secret@host/x", "ssh://git@host/x"),
    ],
)
def test_what_is_secret_by_its_place(text: str, bare: str) -> None:
    assert redact(text) == bare


@pytest.mark.parametrize(
    "text",
    [
        "write to me@example.org, or u:me@example.org",
        "https://host/path@1.0",
        "git+https://host/x.git@v1.2",
        "http://host:8080/x@v1",
        "http://[::1]:8080/x@v1",
        "package @ https://host/x.whl#sha256=ab",
        "git+ssh://git@host/x.git@v1",
        "git+ssh://git@host:team/x.git@v1",
        "file:///home/me@work/t/x",
        "http://mirror/pool/main/t/tzdata/tzdata_1.deb",
        "http://mirror/packages/t/tensorrt-cu12-bindings/",
        "torch==2.9.* ; python_version >= '3.10'",
        "https://host/?author=me&page=2",
        "/tmp/t/work",
        "basic operations",
        "",
    ],
)
def test_what_is_none(text: str) -> None:
    assert redact(text) == text
    if "://" in text and " " not in text:
        assert without_credentials(text) == text and not has_credentials(text)


@pytest.mark.parametrize(
    ("url", "bare"),
    [
        ("https://a:b@c@host.example/x@y", "https://host.example/x@y"),
        ("https://u:p/w@host/x", "https://host/x"),
        ("git+ssh://git:pw@host/x@v1", "git+ssh://git@host/x@v1"),
        ("https://host/t/TOKEN/chan/noarch", "https://host/chan/noarch"),
        ("https://host/x.whl?token=a&b=1#sha256=0", "https://host/x.whl?b=1#sha256=0"),
        ("https://host/x.whl?token=a", "https://host/x.whl"),
        ("https://host/x?", "https://host/x?"),
        ("conda-forge", "conda-forge"),
    ],
)
def test_a_url_without_credentials(url: str, bare: str) -> None:
    assert without_credentials(url) == bare
    assert without_credentials(bare) == bare


SECRET = 'pa/ss w"ö\\rd'


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET),
        quote(SECRET, safe=""),
        quote(SECRET, safe="").lower(),
        json.dumps(SECRET)[1:-1],
        repr(SECRET)[1:-1],
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(f"robot:{SECRET}".encode()).decode(),
        base64.urlsafe_b64encode(f"robot:{SECRET}".encode()).decode(),
    ],
)
def test_what_is_known_is_masked_in_every_form(form: str) -> None:
    assert form in redact(f"<{form}>")
    register(SECRET, "robot")
    assert redact(f"<{form}>") == "<****>"


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("https://u:hunter2@h/", "hunter2"),
        ("https://u:hunt%65r2@h/", "hunter2"),
        ("https://u:pass/word@h/", "pass/word"),
        ("https://u:12345678/word@h/simple", "12345678/word"),
        ("https://a-token-for-all@h/", "a-token-for-all"),
        ("https://h/x/t/hunter2/y", "hunter2"),
        ("https://h/?token=hunter%32", "hunter2"),
        ("http://proxy:hunter2@proxy.example:3128", "hunter2"),
    ],
)
def test_a_setting_tells_its_secret(url: str, text: str) -> None:
    register_url(url)
    assert redact(f"the answer was {text}, it said") == "the answer was ****, it said"


@pytest.mark.parametrize("url", ["https://robot@h/", "http://h:8080/x", "https://u:pw@h/", "git+https://h/x.git@v1.2"])
def test_what_is_no_secret_or_too_short_is_never_masked_in_words(url: str) -> None:
    register_url(url)
    assert redact("robot 8080/x pw git v1.2 /x.git") == "robot 8080/x pw git v1.2 /x.git"


def test_an_environments_secrets() -> None:
    register_environment(
        {"UV_INDEX_MINE_USERNAME": "robot", "UV_INDEX_MINE_PASSWORD": "hunter2-Zq", "HF_TOKEN": "hf_0123456789",
         "ALL_PROXY": "http://u:s3cr3t!@p", "JUPYTER_TOKEN": "numpy", "HOME": "/home/x"}
    )  # fmt: skip
    encoded = base64.b64encode(b"robot:hunter2-Zq").decode()
    assert redact(f"{encoded} hf_0123456789 s3cr3t! numpy /home/x") == "**** **** **** numpy /home/x"


scheme = st.sampled_from(["https", "http", "git+https", "ftp", "HTTPS", ""])
anything = st.text(min_size=1, max_size=20).map(lambda text: quote(text, safe="!$&'()*+,;=-._~"))
around = st.text(st.characters(codec="utf-8", exclude_characters="@:/&?;="), max_size=20)


@given(scheme, anything, st.none() | anything, around, around)
def test_no_user_part_survives(name: str, user: str, password: str | None, before: str, after: str) -> None:
    secret = user if password is None else f"{user}:{password}"
    text = f"{before} {name}://{secret}@host.example/simple {after}"
    assert redact(text) == f"{before} {name}://host.example/simple {after}"


passwords = st.text(
    st.characters(exclude_categories=["Cc", "Cs", "Zs", "Zl", "Zp"], exclude_characters='"<>@:'), min_size=1
)


@given(st.sampled_from(["https", "git+https"]), passwords)
def test_no_password_survives_whatever_slashes_are_in_it(name: str, password: str) -> None:
    # digits before a slash read as a port: that is what known secrets are for
    assume(not password[0].isdigit() and password[0] not in "/?#")
    assert redact(f"{name}://user:{password}@host.example/simple") == f"{name}://host.example/simple"


@given(st.text(max_size=200) | st.text(st.sampled_from("abst:/@?&=h%'\" \n"), max_size=40))
def test_redacting_twice_is_redacting_once(text: str) -> None:
    once = redact(text)
    assert redact(once) == once


@given(st.text(min_size=6, max_size=20), st.text(max_size=20), st.text(max_size=20))
def test_a_known_secret_is_nowhere(secret: str, before: str, after: str) -> None:
    assume(secret.strip("*") and secret not in "****")
    secrets.forget()
    register(secret)
    assert secret not in redact(f"{before}{secret}{after}") or "*" in secret
    assert secret not in redact(json.dumps({"a": secret}, ensure_ascii=False)) or "*" in secret


@pytest.mark.parametrize(
    "name",
    re.findall(
        r"\S+",
        "HF_TOKEN WANDB_API_KEY UV_INDEX_MINE_PASSWORD GITHUB_PAT DB_PASS MYSQL_PWD AWS_ACCESS_KEY_ID TOKEN_1 KEY AUTH "
        "AWS_SECRET_ACCESS_KEY apiKey dbPassword HFTOKEN MY_SECRET SECRET_KEY NPM_AUTH BASIC_AUTH AUTH_HEADER API_KEYS "
        "ACCESS_TOKENS HF_TOKEN2 CREDENTIAL GOOGLE_APPLICATION_CREDENTIALS SSH_PRIVATE_KEY OPENAI_APIKEY ROOT_PASSWD "
        "PGPASS DBPASS SSHPASS SMTPPASS MYSQLPWD dbPass DB_PW ADMINPW REDISPASS "
        "DOCKER_AUTH_CONFIG OAUTH_CLIENT_SECRET VAULT_SECRET_ID huggingface_token PASSWORD KEY_PASSPHRASE",
    ),
)
def test_a_variable_whose_name_speaks_of_a_secret(name: str) -> None:
    assert secrets.is_secret(name, "hunter22")
    for harmless in ("", " ", "${HF_TOKEN}", "$HF_TOKEN", "${{ secrets.HF }}", "%HF_TOKEN%", "${HF_TOKEN:-}", "true"):
        assert not secrets.is_secret(name, harmless)
    assert secrets.is_secret(name, "${HF_TOKEN:-hunter22}") and not secrets.is_secret(name, "/run/secrets/hunter22")
    assert secrets.is_secret(name, "123456") == bool(re.search("PASS|PWD|PW$", name.upper()))


@pytest.mark.parametrize(
    "name",
    re.findall(
        r"\S+",
        "KEYBOARD MONKEY TOKENIZERS_PARALLELISM MAX_TOKENS VLLM_MAX_NUM_BATCHED_TOKENS TOKEN_COUNT TOKEN_LIMIT KEYMAP "
        "PAD_TOKEN EOS_TOKEN BOS_TOKEN_ID PUBLIC_KEY SSH_PUBLIC_KEY AUTHORIZED_KEYS SSH_AUTH_SOCK PWD OLDPWD AUTHOR "
        "COMPASS_HOME COMPASS LOWPASS MULTIPASS FORWARD_PASSES RENDERPASS "
        "XAUTHORITY AUTH_URL HF_TOKEN_PATH DB_PASSWORD_FILE SORT_KEY IMAGE_KEY TOKENIZER_NAME SECRETARY HOTKEY BYPASS "
        "HF_HOME MAX_TOKEN_LENGTH TOKENS_PER_BATCH NO_AUTH KEY_COLUMN PASSENGERS PASS AUTH_TYPE CUDA_HOME PATH "
        "NVIDIA_VISIBLE_DEVICES TORCH_CUDA_ARCH_LIST PYTHONHASHSEED OMP_NUM_THREADS HF_HUB_DISABLE_IMPLICIT_TOKEN",
    ),
)
def test_a_variable_whose_name_speaks_of_none(name: str) -> None:
    assert not secrets.is_secret(name, "hunter22")
    assert secrets.is_secret(name, "https://me:hunter22@host/") and secrets.is_secret(name, "ghp_" + "0123456789ab" * 3)


# the hosts that take a token in an index's path, put together here
TOKEN_PATHS = [
    ("https://dl.{}.io/{}/acme/repo/python/simple/", "cloudsmith", "https://dl.{}.io/basic/acme/repo/python/simple/"),
    ("https://{}.io/priv/{}/acme/repo/pypi/simple", "packagecloud", "https://{}.io/acme/repo/pypi/simple"),
    ("https://www.{}.org/F/feed/auth/{}/python/", "myget", "https://www.{}.org/F/feed/python/"),
    ("https://repo.{}.io/{}/acme/", "fury", "https://repo.{}.io/acme/"),
    ("https://repo.{}.io/{}/acme/torch/torch-1.whl", "fury", "https://repo.{}.io/acme/torch/torch-1.whl"),
]


@pytest.mark.parametrize(("url", "host", "bare"), TOKEN_PATHS)
def test_a_token_in_the_path_of_a_host_that_takes_them(url: str, host: str, bare: str) -> None:
    full = url.format(host, "hunter22token")
    assert redact(f"a `{full}` is") == f"a `{url.format(host, '****')}` is"
    assert without_credentials(full) == bare.format(host) == without_credentials(bare.format(host))
    assert has_credentials(full) and has_credentials(f"git+{full}")
    register_url(full)
    assert redact("it said hunter22token") == "it said ****"


@pytest.mark.parametrize(
    "url",
    ["https://dl.cloudsmith.io/public/acme/repo/python/simple/", "https://repo.fury.io/acme/", "https://a/priv/b/"],
)
def test_a_public_path_of_such_a_host(url: str) -> None:
    assert redact(url) == url == without_credentials(url)


def test_tokens_by_the_forms_of_their_services() -> None:
    for token in ("hf_" + "aB3" * 10, "ghp_" + "aB3" * 12, "glpat-" + "aB3-" * 6, "AKIA" + "ABCD1234" * 2):
        assert redact(f"login --with {token} now") == "login --with **** now"
    assert redact("-----BEGIN RSA PRIVATE KEY-----\nAAAA\n") == "****"
    assert redact("sk-learn and hf_transfer, ghostscript") == "sk-learn and hf_transfer, ghostscript"
