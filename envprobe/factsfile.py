"""A snapshot as a file: for replay, for joining nodes, and for judging without the rights to read.

The file is JSON. Bytes that are no UTF-8 survive: a name or title as the text `base64:...`, a value
as {"base64": ...}. Values and words of a command line that look like credentials are masked unless
the caller unmasks them. All others stand there as they are, so that the file is created for its
owner alone (mode 0600).
"""

from __future__ import annotations

import base64
import dataclasses
import enum
import functools
import hashlib
import os
import secrets
from collections.abc import Callable
from typing import Any, Final

import msgspec

from envprobe import inputfile
from envprobe.errors import UsageError
from envprobe.model import SCHEMA_VERSION, Snapshot
from envprobe.ncclfacts import Read, Setting
from envprobe.pythonfacts import Answer, Datum, names_of
from envprobe.redact import holds_secret, mask_words, members_of
from envprobe.unitfacts import Entry
from envprobe.values import Value

KIND: Final = "envprobe-facts"
MAX_FILE_BYTES: Final = 1 << 30
_ESCAPE: Final = "base64:"
_COMMANDS: Final = frozenset({"title", "argv", "orig_argv"})
_SALT_BYTES: Final = 16
_LEFT_OUT: Final = object()
MAX_SECRETS: Final = 512
"""Different credentials in one file that keep a digest; of more, only the names are kept."""
_REMEDY: Final = "Write the file again with --save-facts and this version of envprobe."


class MaskedValue(Value):
    """A credential of which only the length and a salted digest are known.

    It equals a value, or another one from the same file, exactly if the bytes are equal. The digest
    is slow to compute (scrypt, RFC 7914), so that short passwords cannot be tried out from a file
    that has been passed on.
    """

    __slots__ = ("salt",)

    def __init__(self, length: int, digest: str, salt: bytes) -> None:
        super().__init__(b"<masked>", length=length, digest=digest)
        self.salt = salt

    @property
    def truncated(self) -> bool:
        """Always true: `reveal` gives nothing of the value."""
        return True

    @property
    def hidden(self) -> bool:
        """Always true: no `--unmask` can show it."""
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        if self.length != other.length:
            return False
        if isinstance(other, MaskedValue):
            return (self.salt, self.digest) == (other.salt, other.digest)
        return slow_digest(_told(other), self.salt) == self.digest

    __hash__ = Value.__hash__


@functools.lru_cache(maxsize=4096)
def slow_digest(raw: bytes, salt: bytes) -> str:
    """Return the digest that stands for a masked value, in hexadecimal."""
    return hashlib.scrypt(raw, salt=salt, n=1 << 12, r=8, p=1, dklen=32).hex()


def _told(value: Value) -> bytes:
    """Return what the slow digest is made of: a cut value is known by its own digest only."""
    return value.digest.encode() if value.truncated else value.reveal()


def dumps(snapshot: Snapshot, *, unmask: bool = False) -> str:
    """Return a snapshot as one line of JSON that ends in a newline."""
    salt = secrets.token_bytes(_SALT_BYTES)
    writer = _Writer(salt, unmask=unmask)
    document = {"kind": KIND, "salt": salt.hex(), **writer.fields(snapshot)}
    return msgspec.json.encode(document).decode() + "\n"


class _Writer:
    """Turns the model into what JSON can hold."""

    def __init__(self, salt: bytes, *, unmask: bool) -> None:
        self._salt = salt
        self._unmask = unmask
        self._secrets: set[bytes] = set()

    def fields(self, record: Any) -> dict[str, Any]:
        """Return the fields of a dataclass by name."""
        found = {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
        for words in _COMMANDS.intersection(found) if not self._unmask else ():
            found[words] = mask_words(found[words])
        return {name: self._plain(thing) for name, thing in found.items()}

    def _plain(self, thing: Any, name: str = "") -> Any:
        """Return one thing; `name` is the variable whose value it may be."""
        if isinstance(thing, Value):
            return self._value(thing, name)
        if isinstance(thing, Answer):
            return self._answer(thing)
        if isinstance(thing, Read | Setting):
            value = self._value(thing.value, thing.name)
            return _LEFT_OUT if value is None else {**self.fields(thing), "value": value}
        if isinstance(thing, Entry):
            fields = self.fields(dataclasses.replace(thing, value=None))
            return {**fields, "value": self._plain(thing.value, thing.name)}
        if isinstance(thing, enum.Enum):
            return thing.value
        if isinstance(thing, str):
            return _text_out(thing)
        if isinstance(thing, dict):
            return {self._plain(key): self._plain(one, str(key)) for key, one in thing.items()}
        if isinstance(thing, (tuple, list)):
            made = (self._plain(one, name) for one in thing)
            return [one for one in made if one is not _LEFT_OUT]
        return self.fields(thing) if dataclasses.is_dataclass(thing) else thing

    def _answer(self, answer: Answer) -> dict[str, Any]:
        fields = self.fields(dataclasses.replace(answer, value=None))
        if answer.value is not None:
            fields["value"] = self._datum(answer.value, names_of(answer.query))
        return fields

    def _datum(self, datum: Datum, names: tuple[str, ...]) -> dict[str, Any]:
        """Return a datum; `names` lead to it, and may tell that it is a credential."""
        fields = self.fields(dataclasses.replace(datum, value=None, items=(), keys=()))
        if datum.value is not None:
            fields["value"] = self._value(datum.value, *names)
        fields["items"] = [self._datum(item, inner) for inner, item in members_of(datum, names)]
        fields["keys"] = [self._datum(key, names) for key in datum.keys]
        return fields

    def _value(self, value: Value, *names: str) -> dict[str, Any] | None:
        raw = value.reveal()
        secret = any(holds_secret(name, value) for name in names)
        if isinstance(value, MaskedValue) or (secret and not self._unmask):
            masked = self._masked(value)
            return masked and {"masked": masked}
        try:
            shown: dict[str, Any] = {"text": raw.decode()}
        except UnicodeDecodeError:
            shown = {"base64": base64.b64encode(raw).decode()}
        if value.truncated:
            shown |= {"length": value.length, "sha256": value.digest}
        return shown

    def _masked(self, value: Value) -> dict[str, Any] | None:
        if isinstance(value, MaskedValue):
            return {"length": value.length, "digest": value.digest, "salt": value.salt.hex()}
        told = _told(value)
        self._secrets.add(told)
        if len(self._secrets) > MAX_SECRETS:
            return None
        return {"length": value.length, "digest": slow_digest(told, self._salt)}


def _text_out(text: str) -> str:
    """Return a text that JSON can hold; those that cannot, or look escaped, are escaped."""
    if text.isascii() and not text.startswith(_ESCAPE):
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        pass
    else:
        if not text.startswith(_ESCAPE):
            return text
    return _ESCAPE + base64.b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _text_in(text: str) -> str:
    if not text.startswith(_ESCAPE):
        return text
    return base64.b64decode(text[len(_ESCAPE) :], validate=True).decode("utf-8", "surrogatepass")


def load(path: str) -> Snapshot:
    """Read a snapshot from a file.

    Raises UsageError if the file cannot be read, is no facts file, is damaged, or was written for
    another version of the schema.
    """
    try:
        raw = inputfile.read(path, MAX_FILE_BYTES, remedy=_REMEDY)
    except FileNotFoundError as error:
        reason = os.strerror(error.errno or 0)
        raise UsageError(f"{path} cannot be read: {reason}", "Check the path.") from None
    return loads(raw, path)


def loads(raw: bytes, origin: str = "the facts") -> Snapshot:
    """Return the snapshot of a file's contents; `origin` names it in the UsageError."""
    try:
        document = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        raise UsageError(f"{origin} is no JSON", _REMEDY) from None
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise UsageError(f"{origin} is no file of --save-facts", _REMEDY)
    version = document.get("schema_version")
    if version != SCHEMA_VERSION:
        raise UsageError(
            f"{origin} has schema version {version!r:.20}, this envprobe reads {SCHEMA_VERSION}",
            _REMEDY,
        )
    try:
        salt = bytes.fromhex(document.pop("salt"))
        return msgspec.convert(_Reader(salt).read(document), Snapshot, dec_hook=_as_it_is)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        # A message of msgspec names the place and the type, never what stands there.
        told = f": {error}" if isinstance(error, msgspec.ValidationError) else ""
        raise UsageError(f"{origin} is damaged{told}", _REMEDY) from None


class _Reader:
    """Turns JSON back into texts and values; the shape of the rest is checked by msgspec."""

    def __init__(self, salt: bytes) -> None:
        self._salt = salt
        self._kinds: dict[str, Callable[[dict[str, Any]], Value | None]] = {
            "text": self._text,
            "base64": self._base64,
            "masked": self._masked,
        }

    def read(self, node: Any) -> Any:
        """Return a node of the document with its texts and values restored."""
        if isinstance(node, str):
            return _text_in(node)
        if isinstance(node, list):
            return [self.read(one) for one in node]
        if not isinstance(node, dict):
            return node
        # No variable can be mistaken for one of these keys: what a name leads to is no text.
        for kind, restore in self._kinds.items():
            if kind in node and (value := restore(node)) is not None:
                return value
        return {_text_in(key): self.read(one) for key, one in node.items()}

    def _text(self, node: dict[str, Any]) -> Value | None:
        text = node["text"]
        return self._value(text.encode(), node) if isinstance(text, str) else None

    def _base64(self, node: dict[str, Any]) -> Value | None:
        text = node["base64"]
        if not isinstance(text, str):
            return None
        return self._value(base64.b64decode(text, validate=True), node)

    def _value(self, raw: bytes, node: dict[str, Any]) -> Value:
        if "length" not in node:
            return Value(raw)
        return Value(raw, length=int(node["length"]), digest=str(node["sha256"]))

    def _masked(self, node: dict[str, Any]) -> Value | None:
        masked = node["masked"]
        if not isinstance(masked, dict) or not isinstance(masked.get("digest"), str):
            return None
        salt = bytes.fromhex(masked["salt"]) if "salt" in masked else self._salt
        return MaskedValue(int(masked["length"]), masked["digest"], salt)


def _as_it_is(kind: type, thing: Any) -> Any:
    """Accept the values that `_Reader` has made; msgspec checks the type."""
    return thing
