"""The redactor: keeps secrets out of texts.

A secret is recognised by its place or by its value. By place: the user part of a URL, a query such as `?token=`,
conda's `/t/TOKEN/`, an `Authorization` header. By value: the code that reads a password from a setting, netrc, the
keyring or a registry's login registers it at once, and the redactor masks it in any text, plain, percent-encoded,
quoted or in base64. This covers texts in which no rule by place finds it.

A registration holds for one run of the program: `envspec.cli.main.run` begins with `forget`. Texts from an index or a
lock are never registered: they could mask envspec's own words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

MASK = "****"
SHORTEST = 6
"""The least length in characters of a secret masked by value. A shorter one would match inside words, and is masked
only by its place.
"""

_RUN = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30})?://((?:(?!://)[^\s\"<>])*)")
"""A URL's scheme and the rest of the URL, as far as it may reach in a text."""
_HOST = re.compile(r"(?:\[[0-9A-Fa-f:.%]*\]|[^:\[\]]*)(?::[0-9]*)?")
"""A host and its port. `u:p` is neither, so there a password continues after the slash."""
_SECRET_NAME = (
    r"(?:[\w.~%+-]{0,40}(?:token|passw|pwd|secret|signature|credential|api[_-]?key|access[_-]?key|auth(?!or))"
    r"[\w.~%+-]{0,40}|sig|key|policy|jwt|hmac|hdnea|hdnts|key-pair-id)"
)
_QUERY = re.compile(rf"([?&;]{_SECRET_NAME}=)([^&#\s\"<>]+)", re.IGNORECASE)
_HEADER = re.compile(r"(authorization['\"]?\s{0,3}[:=]\s{0,3}['\"]?(?:basic|bearer|token)\s)[^\s\"']+", re.IGNORECASE)
_CONDA_TOKEN = r"[A-Za-z]{2}-[0-9a-fA-F-]{20,}|[0-9a-fA-F]{20,}"
_TOKEN_ANYWHERE = re.compile(rf"(/t/)(?:{_CONDA_TOKEN})(?=[/?#\s'\")]|$)")
_TOKEN_OF_A_HOST = re.compile(
    r"(?<![\w./:-])((?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z0-9-]{1,63}(?::\d{1,5})?/t/)[^/?#\s'\")]+"
)
"""A host without a scheme."""
_TOKEN_FIRST = re.compile(r"^([^/?#]*/t/)[^/?#\s'\")]+")
_HIDDEN = "/t/-/"
_ENDS_A_QUOTE = "'`)],.:;"
_SECRET_ENDS = ("password", "passwd", "token", "secret", "api_key", "apikey", "access_key", "accesskey")
"""How the name of a variable ends that holds a secret, in small letters."""
_LONG_ENOUGH_FOR_A_VARIABLE = 8

_known: dict[str, None] = {}
_tokens: dict[str, str] = {}
"""Host → the token in the path of a setting's URL."""
_pattern: re.Pattern[str] | None = None


def redact(text: str, *, login: str = "") -> str:
    """Remove the secrets from a text: `login` replaces the user parts of URLs, `MASK` other secrets. The account of an
    SSH URL stays: it's part of the address. Takes time in proportion to the text.
    """
    if _pattern is not None:
        text = _pattern.sub(MASK, text)
    if "://" in text:
        text = _RUN.sub(lambda match: _without_login(match, login), text)
    if "/t/" in text:
        text = _TOKEN_OF_A_HOST.sub(rf"\1{MASK}", _TOKEN_ANYWHERE.sub(rf"\1{MASK}", text))
    # compiling a pattern takes as long as a table of text: most texts can't hold what it finds
    if "=" in text and any(mark in text for mark in "?&;"):
        text = _QUERY.sub(_mask, text)
    if "author" in text.casefold():
        text = _HEADER.sub(rf"\1{MASK}", text)
    return text


def without_credentials(url: str) -> str:
    """Remove the secrets from one URL so that it still works with another login: without user and password, `/t/TOKEN`
    and secret queries.
    """
    scheme, found, rest = url.partition("://")
    if not found:
        return url
    rest = _bare(scheme, rest)
    rest = _TOKEN_FIRST.sub(lambda match: match[1].removesuffix("/t/"), rest)
    rest = re.sub(rf"/t/(?:{_CONDA_TOKEN})(?=[/?#]|$)", "", rest)
    before, fragment_mark, fragment = rest.partition("#")
    path, mark, query = before.partition("?")
    kept = "&".join(part for part in query.split("&") if not _QUERY.match(f"&{part}"))
    return f"{scheme}://{path}{mark if kept or not query else ''}{kept}{fragment_mark}{fragment}"


def has_credentials(url: str) -> bool:
    """Say whether a URL contains a secret."""
    return without_credentials(url) != url


def register(secret: str, user: str = "") -> None:
    """Mask a secret in every text from now on. `user` is the password's user: HTTP sends the two as one text in
    base64.
    """
    global _pattern
    if len(secret) < SHORTEST or not secret.strip("*"):
        return
    new = [form for form in _forms(secret, user) if len(form) >= SHORTEST and form not in _known]
    if new:
        _known.update(dict.fromkeys(new))
        _pattern = re.compile("|".join(map(re.escape, sorted(_known, key=len, reverse=True))))


def register_url(url: str) -> None:
    """Mask the secret in a URL of the user's own settings: its password, or the token in its place."""
    from urllib.parse import unquote

    for scheme, rest in _RUN.findall(url):
        login = rest[: len(rest) - len(_bare("", rest))].removesuffix("@")
        # behind what may be a port, a setting's `@` still ends a login more often than it begins a tag
        if not login and ":" in re.split(r"[/?#]", rest, maxsplit=1)[0] and not scheme.startswith(("git+", "file")):
            login = rest.rpartition("@")[0]
        user, colon, password = login.partition(":")
        # a token may stand where the user does
        for secret in {password, unquote(password)} if colon and password else {user} if len(user) >= 12 else ():
            register(secret, unquote(user))
        for token in re.findall(r"/t/([^/?#]+)", rest):
            register(token)
            _tokens[_authority(_bare(scheme, rest))] = token
        for _, value in _QUERY.findall(rest):
            register(value)
            register(unquote(value))


def register_environment(env: Mapping[str, str]) -> None:
    """Mask the secrets in environment variables: in URLs, and the whole value where the variable's name says secret."""
    for name, value in env.items():
        if "://" in value:
            register_url(value)
        elif len(value) >= _LONG_ENOUGH_FOR_A_VARIABLE and name.casefold().rstrip("\n").endswith(_SECRET_ENDS):
            register(value, env.get(re.sub(r"PASSWORD$", "USERNAME", name), ""))


def register_all(value: object) -> None:
    """Mask the secrets in all URLs of a configuration file's values."""
    if isinstance(value, str):
        register_url(value)
    elif isinstance(value, Mapping):
        for inner in value.values():
            register_all(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            register_all(inner)


def hide_token(host: str, path: str) -> str:
    """Remove from a path on a host the token that a setting has for it, for another program's cache; see
    `show_token`.
    """
    token = _tokens.get(host)
    return f"/{path}".replace(f"/t/{token}/", _HIDDEN, 1)[1:] if token else path


def show_token(host: str, path: str) -> str:
    """Restore the path that `hide_token` took, with the token that a setting has now."""
    token = _tokens.get(host)
    return f"/{path}".replace(_HIDDEN, f"/t/{token}/", 1)[1:] if token else path


def forget() -> None:
    """Forget all registered secrets: mask by place alone again."""
    global _pattern
    _known.clear()
    _tokens.clear()
    _pattern = None


def _without_login(match: re.Match[str], login: str) -> str:
    scheme, rest = match[1] or "", _bare(match[1] or "", match[2])
    rest = f"{login}{rest}" if len(rest) < len(match[2]) and "ssh" not in scheme else rest
    if scheme != "file":
        rest = _TOKEN_FIRST.sub(rf"\1{MASK}", rest)
    return f"{scheme}://{rest}"


def _bare(scheme: str, rest: str) -> str:
    """Remove the login from what follows `://`."""
    at = _authority(rest).rfind("@")
    login, rest = (rest[:at], rest[at + 1 :]) if at >= 0 else ("", rest)
    ssh = "ssh" in scheme
    if not (ssh and login) and not _HOST.fullmatch(_authority(rest)):
        more, _, end = rest.rpartition("@")
        login, rest = (login or more, end) if more else (login, rest)
    user = login.partition(":")[0]
    return f"{user}@{rest}" if ssh and user else rest


def _authority(rest: str) -> str:
    return re.split(r"[/?#]", rest, maxsplit=1)[0]


def _mask(match: re.Match[str]) -> str:
    return match[1] + MASK + match[2][len(match[2].rstrip(_ENDS_A_QUOTE)) :]


def _forms(secret: str, user: str) -> Iterator[str]:
    """List the encodings in which programs write a secret."""
    import base64
    import json
    from html import escape
    from urllib.parse import quote, quote_plus

    yield secret
    for encoded in (quote(secret, safe=""), quote(secret), quote_plus(secret), quote(secret, safe="!$&'()*+,;=:@")):
        yield encoded
        yield re.sub("%..", lambda match: match[0].lower(), encoded)
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield repr(secret)[1:-1]
    yield escape(secret)
    yield secret.encode("unicode_escape").decode("ascii")
    for text in (secret, f"{user}:{secret}"):
        plain = text.encode("utf-8", "surrogateescape")
        for code in (base64.b64encode(plain), base64.urlsafe_b64encode(plain)):
            yield code.decode("ascii")
            yield code.decode("ascii").rstrip("=")
