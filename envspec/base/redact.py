"""The redactor: keeps secrets out of texts.

A secret is recognised by its place or by its value. By place: the user part of a URL, a query such as `?token=`,
conda's `/t/TOKEN/` and the path of a host that takes tokens there, an `Authorization` header, a variable whose name
speaks of one. By value: a token in the form of a known service; the code that reads a password from a setting, netrc,
the keyring or a registry's login registers it at once, and the redactor masks it in any text, plain, percent-encoded,
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
_SEGMENT = r"[^/?#\s'\")]+"
_LIKE_A_TOKEN = r"(?=[^/?#]*[0-9])[^/?#\s'\")]{8,}"
_TOKEN_PATHS = (
    (
        re.compile(rf"^((?:[^/?#]*\.)?cloudsmith\.[a-z]+(?::\d+)?/)(?!public/|basic/){_SEGMENT}(?=/[^/?#]+/[^/?#])"),
        "basic",
    ),
    (re.compile(rf"^((?:[^/?#]*\.)?packagecloud\.[a-z]+(?::\d+)?/priv/){_SEGMENT}"), ""),
    (re.compile(rf"^([^/?#]*/F/[^/?#]+/auth/){_SEGMENT}"), ""),
    (re.compile(rf"^((?:[^/?#]*\.)?fury\.[a-z]+(?::\d+)?/){_SEGMENT}(?=/(?!simple\b)[^/?#]+/?$)"), ""),
    (re.compile(rf"^((?:[^/?#]*\.)?fury\.[a-z]+(?::\d+)?/){_LIKE_A_TOKEN}(?=/[^/?#])"), ""),
)
"""Hosts whose indexes take a token in the path, and what stands in its place where a login is sent instead. Sources:
Cloudsmith's, packagecloud's, MyGet's and Gemfury's pages on private Python repositories."""
_EMPTIED = re.compile(r"/(?:priv|auth)//|(?<=[^/])//")
_OF_A_SERVICE = re.compile(
    r"(?<![A-Za-z0-9_-])(?:hf_[A-Za-z0-9]{20,}|gh[opsur]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{16,}"
    r"|sk-[\w-]{20,}|xox[abprs]-[\w-]{10,}|A(?:KI|SI)A[0-9A-Z]{16}(?![0-9A-Z])|pypi-AgE[\w-]{20,}|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*)|-----BEGIN [A-Z ]*PRIVATE KEY-----[\s\S]*"
)
_MARKS_OF_SERVICES = ("hf_", "gh", "glpat-", "sk-", "xox", "AKIA", "ASIA", "pypi-A", "AIza", "eyJ", "PRIVATE KEY")
"""Tokens by the prefixes that their services give them, JSON web tokens, and private keys."""
_HIDDEN = "/t/-/"
_ENDS_A_QUOTE = "'`)],.:;"
_LONG_ENOUGH_FOR_A_VARIABLE = 8

_WORDS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_ALWAYS_SECRET = re.compile(
    r"(?:PASSWORDS?|PASSWD|PASSPHRASE|SECRETS?|CREDENTIALS?|(?:API|ACCESS|SECRET|PRIVATE|AUTH)KEYS?|CREDS?|JWT|BEARER"
    r"|(?:ACCESS|AUTH|API|REFRESH|BEARER)TOKENS?|COOKIE)$"
)
_GLUED = re.compile(
    "(?:DB|PG|SQL|MYSQL|POSTGRES|MONGO|REDIS|LDAP|SMTP|E?MAIL|FTP|SSH|SVN|GIT|HTTP|PROXY|WIFI|VPN|VNC|ROOT|ADMIN|SUDO"
    "|USER|LOGIN|MY|APP)(?:PASS|PWD|PW)"
)
"""Passwords of names that are written without a mark between their words."""
_HARMLESS_AFTER = re.compile(
    "FILE|PATH|DIR|FOLDER|NAME|URL|URI|ENDPOINT|TYPE|COUNT|LIMIT|LENGTH|LEN|SIZE|IDS?|HOST|PORT|SOCK|ENABLED|DISABLED"
    "|TIMEOUT|TTL|FORMAT|METHOD|MODE|PROVIDER|BACKEND|CLASS|COLUMN|FIELD|PREFIX|SUFFIX|RATE|BUDGET|ALGORITHM|SCOPES?"
    "|VERSION|MIN|MAX|PER|SECOND|BATCH"
)
"""Last words of names that speak of something about a secret: where it is, of which kind, how many there are."""
_HARMLESS_BEFORE = {
    "TOKEN": re.compile(
        "MAX|MIN|NUM|PAD|EOS|BOS|UNK|SEP|CLS|MASK|SPECIAL|STOP|START|END|IMAGE|VIDEO|AUDIO|IMPLICIT|PER|NEW"
    ),
    "KEY": re.compile(
        "PUBLIC|PUB|SORT|PRIMARY|PARTITION|FOREIGN|CACHE|GROUP|SHARD|ROUTING|INDEX|HOT|TEXT|IMAGE|VIDEO|AUDIO|LABEL"
        "|DATA|COLUMN|PROMPT|BATCH"
    ),
    "AUTH": re.compile("NO|DISABLE|ENABLE|REQUIRE|USE|SKIP|WITHOUT"),
}
_AFTER_AUTH = ("", "HEADER", "CODE", "STRING", "DATA", "CONFIG")
_REFERENCE = re.compile(r"\$\w+|\$\{\w+(?::?[-?])?\}|\$\{\{[^{}]*\}\}|%\w+%")
"""A value that only names another variable."""
_PLAIN = re.compile(
    r"true|false|yes|no|on|off|none|null|auto|-?[0-9]{1,7}(?:\.[0-9]+)?|(?:~|\.{1,2})?(?:/[\w.@-]+){2,}/?",
    re.IGNORECASE,
)
"""A switch, a number or a path."""

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
    return _OF_A_SERVICE.sub(MASK, text) if any(mark in text for mark in _MARKS_OF_SERVICES) else text


def redact_command(text: str) -> str:
    """Remove the secrets from a command: also the values of variables and options whose names speak of one."""
    words = redact(text).split(" ")
    for at, word in enumerate(words):
        name, equals, value = word.partition("=")
        before = words[at - 1] if at else ""
        if equals:
            words[at] = f"{name}={MASK if is_secret(name, value) else redact_command(value)}"
        elif word[:1] not in ("", "-", "&", "|") and "=" not in before and is_secret(before, word):
            words[at] = MASK
    return " ".join(words)


def is_secret(name: str, value: str) -> bool:
    """Return whether an environment variable holds a secret: its value has one, or its name speaks of one. An empty
    value, a reference to another variable, a switch, a number and a path are none."""
    value = value.strip()
    if not value or _REFERENCE.fullmatch(value):
        return False
    if redact(value) != value:
        return True
    strong = _speaks_of_secret(name)
    is_plain = bool(_PLAIN.fullmatch(value))
    return bool(strong) and not (is_plain and (strong < 2 or not value[:1].isdigit()))


def _speaks_of_secret(name: str) -> int:
    """Grade what the name of a variable says: 0 of no secret, 1 of one (TOKEN, KEY, AUTH), 2 of a password."""
    words = [word.upper() for word in _WORDS.findall(name)]
    grade = 0
    for at, word in enumerate(words):
        before, after = words[at - 1] if at else "", words[at + 1] if at + 1 < len(words) else ""
        last = words[-1] if after else ""
        if _HARMLESS_AFTER.fullmatch(last) and not (last == "ID" and (word == "SECRET" or before == "ACCESS")):
            continue
        if ("PASS" in word and _ALWAYS_SECRET.search(word)) or (word in ("PASS", "PWD", "PW") and at and not after):
            return 2
        if _GLUED.fullmatch(word) and not after:
            return 2
        if _ALWAYS_SECRET.search(word):
            grade = 1
        plural = word in ("KEYS", "TOKENS") and before in ("API", "ACCESS", "SECRET", "PRIVATE", "AUTH")
        of_key = word == "KEY" or word.endswith("TOKEN") or plural or (word == "PAT" and not after)
        of_auth = word in ("AUTH", "OAUTH") and after in _AFTER_AUTH
        kind = "AUTH" if of_auth else "KEY" if word == "KEY" else "TOKEN"
        if (of_key or of_auth) and not _HARMLESS_BEFORE[kind].fullmatch(before):
            grade = 1
    return grade


def without_credentials(url: str) -> str:
    """Remove the secrets from one URL so that it still works with another login: without user and password, `/t/TOKEN`
    and secret queries.
    """
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url
    rest = _bare(scheme, rest)
    rest = _TOKEN_FIRST.sub(lambda match: match[1].removesuffix("/t/"), rest)
    rest = re.sub(rf"/t/(?:{_CONDA_TOKEN})(?=[/?#]|$)", "", rest)
    for pattern, instead in _TOKEN_PATHS:
        if pattern.search(rest):
            rest = _EMPTIED.sub("/", pattern.sub(rf"\g<1>{instead}", rest))
    before, fragment_mark, fragment = rest.partition("#")
    path, mark, query = before.partition("?")
    plain_query = "&".join(part for part in query.split("&") if not _QUERY.match(f"&{part}"))
    return f"{scheme}://{path}{mark if plain_query or not query else ''}{plain_query}{fragment_mark}{fragment}"


def has_credentials(url: str) -> bool:
    """Return whether a URL contains a secret."""
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
        for pattern, _ in _TOKEN_PATHS:
            if match := pattern.search(_bare(scheme, rest)):
                register(match[0][len(match[1]) :])
        for _, value in _QUERY.findall(rest):
            register(value)
            register(unquote(value))


def register_environment(env: Mapping[str, str]) -> None:
    """Mask the secrets in environment variables: in URLs, and the whole value where the variable's name says secret."""
    for name, value in env.items():
        if "://" in value:
            register_url(value)
        elif len(value) >= _LONG_ENOUGH_FOR_A_VARIABLE and is_secret(name, value):
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
        for pattern, _ in _TOKEN_PATHS:
            rest = pattern.sub(rf"\g<1>{MASK}", rest)
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
