"""Reads ``sasl.jaas.config`` as Kafka's own parser does. Pure.

Kafka (`JaasConfig`) uses a ``java.io.StreamTokenizer``. Splitting on blanks, ``=`` or ``;`` instead
would break passwords that contain them.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

_TOKEN = re.compile(
    r"""(?P<blank>[\x00-\x20]+)
    |(?P<comment>//[^\r\n]*|/\*.*?(?:\*/|\Z)|/[^\r\n]*)
    |(?P<quoted>"(?:\\.|[^"\\\r\n])*(?:"|(?=[\r\n])|\Z)|'(?:\\.|[^'\\\r\n])*(?:'|(?=[\r\n])|\Z))
    |(?P<number>-?(?:[0-9]+\.?[0-9]*|\.[0-9]*))
    |(?P<word>[A-Za-z_$\xa0-\U0010ffff][A-Za-z0-9._$\xa0-\U0010ffff-]*)
    |(?P<symbol>.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
_CONTROLS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FLAGS = ("required", "requisite", "sufficient", "optional")


class JaasError(ValueError):
    """The text is not a JAAS configuration. The message never repeats a value from it."""


@dataclass(frozen=True, slots=True)
class LoginModule:
    """One entry: the module's class name and its options. The repr does not show options."""

    name: str
    options: dict[str, str] = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str

    @property
    def is_string(self) -> bool:
        return self.kind in ("word", "quoted")


def parse_jaas(text: str) -> tuple[LoginModule, ...]:
    """Returns all login modules in *text*, in order.

    Raises:
        JaasError: The text violates the grammar ``<class> <flag> key=value ... ;``.
    """
    tokens = _tokens(text)
    modules = []
    for first in tokens:
        if not first.is_string:
            raise JaasError(f"expected a login module's class name, found a {first.kind}")
        flag = next(tokens, None)
        if flag is None or flag.text.lower() not in _FLAGS:
            raise JaasError("expected 'required' after the class name")
        modules.append(LoginModule(first.text, _options(tokens)))
    if not modules:
        raise JaasError("no login module found")
    return tuple(modules)


def _options(tokens: Iterator[_Token]) -> dict[str, str]:
    options: dict[str, str] = {}
    for key in tokens:
        if key == _Token("symbol", ";"):
            return options
        if not key.is_string or next(tokens, None) != _Token("symbol", "="):
            raise JaasError(f"expected key=value or ';' after option {len(options)}")
        value = next(tokens, None)
        if value is None or not value.is_string:
            raise JaasError(f'option {len(options) + 1} needs double quotes: key="value"')
        options[key.text] = value.text
    raise JaasError("an entry must end with ';'")


def _tokens(text: str) -> Iterator[_Token]:
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "quoted":
            inner = match[0][1:].removesuffix(match[0][0]) if len(match[0]) > 1 else ""
            yield _Token(kind, _ESCAPE.sub(_unescape, inner))
        elif kind not in ("blank", "comment"):
            yield _Token(kind, match[0])


def _unescape(escape: re.Match[str]) -> str:
    code = escape[1]
    return chr(int(code, 8)) if code[0] in "01234567" else _CONTROLS.get(code, code)


WITH_PASSWORD = ("PlainLoginModule", "ScramLoginModule")


def find_jaas_problem(java: Mapping[str, str]) -> str | None:
    """Returns what is wrong with ``sasl.jaas.config`` in these properties; None if nothing.

    Any login module is allowed: the one that is loaded knows its own options.
    """
    text = java.get("sasl.jaas.config")
    if text is None or not java.get("security.protocol", "").upper().startswith("SASL_"):
        return None
    try:
        modules = parse_jaas(text)
    except JaasError as error:
        return f"invalid, {error} (value not shown)"
    if "sasl.client.callback.handler.class" in java:  # it may bring the credentials
        return None
    for module in modules:
        kind = module.name.rpartition(".")[2]
        missing = [name for name in ("username", "password") if name not in module.options]
        if kind in WITH_PASSWORD and missing:
            return f"{kind} needs {' and '.join(missing)}"
    return None
