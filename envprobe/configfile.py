"""The configuration file: finding it, trusting it, and reading what it expects."""

from __future__ import annotations

import importlib
import os
import re
import stat
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from envprobe import expiry, inputfile
from envprobe.config import (
    Config,
    Expectation,
    HookExpectation,
    KernelExpectation,
    LibraryExpectation,
    PatchExpectation,
    Rule,
    did_you_mean,
    refuse_contradictions,
)
from envprobe.errors import UsageError
from envprobe.expectations import MAX_WORKERS, checked_name, environment_value, list_item
from envprobe.patchexpect import checked_path, checked_source
from envprobe.pythonfacts import HOOKS

DEFAULT_NAME: Final = "envprobe.toml"
MAX_BYTES: Final = 1 << 20

_TOP: Final = ("expect", "ignore", "allow-unknown")
_EXPECT: Final = ("env", "env-by-role", "workers", "patch", "nccl", "lib", "kernel", *HOOKS)
_FLAGS: Final = {"set": Rule.SET, "absent": Rule.ABSENT, "same": Rule.SAME}
_RULES: Final = (*_FLAGS, "contains", "one-of")
_FORMS: Final = (
    'Write NAME = "value", or NAME = {set = true}, {absent = true}, {contains = "item"},'
    ' {one-of = ["a", "b"]} or {same = true}.'
)
_PATCH_FORMS: Final = (
    'Write "pkg.mod:Class.attr" = "my_kernels", or = {from = "my_kernels", role = "scheduler"}.'
)
_ARCH: Final = re.compile(r"sm_[1-9]\d{1,2}[af]?")
_KERNEL_FORMS: Final = 'Write arch = "sm_120", installed = true, or both.'
_HOOK_FORMS: Final = (
    'Write file = "/opt/hooks/sitecustomize.py", or from = "/opt/hooks", and role = "scheduler" if'
    " it is not for all workers."
)


def load(
    path: str | os.PathLike[str] | None,
    check_slug: Callable[[str], str],
    roles: Iterable[str] = (),
    environ: Mapping[str, str] = os.environ,
) -> Config:
    """Return what a configuration file expects.

    `path` None means ./envprobe.toml, and nothing is expected if there is none. `check_slug` turns
    the id or slug of a check into its slug or raises UsageError; `roles` are the names of the table
    of roles; `environ` is the caller's environment (SUDO_UID, SUDO_GID). Raises UsageError, naming
    file and key and never a value.
    """
    shown = os.fspath(path) if path is not None else DEFAULT_NAME
    try:
        raw = _read(shown, environ)
    except FileNotFoundError:
        if path is None:
            return Config()
        raise UsageError(
            f"{shown}: there is no such file", "Give --config an existing file."
        ) from None
    return parse(shown, raw, check_slug, roles)


def parse(
    name: str, raw: bytes, check_slug: Callable[[str], str], roles: Iterable[str] = ()
) -> Config:
    """Return what the bytes of a configuration file expect; `name` is for errors and origins."""
    return _File(name, check_slug, tuple(roles)).config(_parse(name, raw))


def _read(path: str, environ: Mapping[str, str]) -> bytes:
    def trusted(status: os.stat_result) -> None:
        if os.geteuid() == 0:
            _refuse_untrusted(path, status, environ)

    return inputfile.read(path, MAX_BYTES, remedy="Give a plain TOML file.", trusted=trusted)


def _refuse_untrusted(path: str, status: os.stat_result, environ: Mapping[str, str]) -> None:
    """Raise UsageError if someone else than root or the caller could have written the file.

    What root is told to ignore or to expect must not come from a file that another user planted in
    the directory at hand; a symbolic link there counts as much as the file.
    """
    users = {0, *_number(environ.get("SUDO_UID"))}
    groups = {0, *_number(environ.get("SUDO_GID"))}
    owners = {status.st_uid, os.lstat(path).st_uid}
    if not owners <= users:
        raise UsageError(
            f"{path} belongs to another user, and envprobe runs as root",
            f"Run `chown root {path}` if you trust it, or give another file with --config.",
        )
    by_group = status.st_mode & stat.S_IWGRP and status.st_gid not in groups
    if by_group or status.st_mode & stat.S_IWOTH:
        raise UsageError(
            f"{path} can be written by other users, and envprobe runs as root",
            f"Run `chmod go-w {path}` after you have checked what it says.",
        )


def _number(text: str | None) -> Iterator[int]:
    if text and text.isascii() and text.isdecimal() and len(text) < 11:
        yield int(text)


def _parse(path: str, raw: bytes) -> dict[str, Any]:
    # The name of the parser differs: the standard library has it from Python 3.11 on.
    toml: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document: dict[str, Any] = toml.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise UsageError(f"{path}: line {line} is no UTF-8", "Save the file as UTF-8.") from None
    except toml.TOMLDecodeError as error:
        raise UsageError(f"{path} is no valid TOML: {error}", "Mend that line.") from None
    except (ValueError, RecursionError):
        raise UsageError(
            f"{path} is no valid TOML: a number is too long or tables are nested too deeply",
            "Write values of variables in quotes.",
        ) from None
    return document


class _File:
    """One parsed file: turns its tables into a Config, and knows how to name a key in an error."""

    def __init__(self, path: str, check_slug: Callable[[str], str], roles: tuple[str, ...]) -> None:
        self.path = path
        self.name = os.path.basename(path)
        self.check_slug = check_slug
        self.roles = roles

    def config(self, document: dict[str, Any]) -> Config:
        self.known(document, _TOP, "")
        expect = self.table(document, "expect", "expect")
        self.known(expect, _EXPECT, "expect")
        expectations = tuple(self.environment(expect))
        refuse_contradictions(expectations)
        nccl = tuple(self.nccl(self.table(expect, "nccl", "expect.nccl")))
        refuse_contradictions(nccl)
        ignore, expired = self.ending(document, "ignore")
        allowed, unaccepted = self.ending(document, "allow-unknown")
        return Config(
            expectations=expectations,
            patches=tuple(self.patches(self.table(expect, "patch", "expect.patch"))),
            hooks=tuple(self.hook(expect, name) for name in HOOKS if name in expect),
            nccl=nccl,
            libraries=tuple(self.libraries(expect)),
            workers=self.counts(self.table(expect, "workers", "expect.workers")),
            kernel=self.kernel(expect),
            ignore=ignore,
            allow_unknown=allowed,
            expired=expired,
            unaccepted=unaccepted,
        )

    def error(self, key: str, problem: str, remedy: str = "") -> UsageError:
        return UsageError(f"{self.path}: [{key}] {problem}", remedy)

    def table(self, parent: dict[str, Any], name: str, key: str) -> dict[str, Any]:
        found = parent.get(name, {})
        if not isinstance(found, dict):
            raise self.error(key, "must be a table", f"Write [{key}] on a line of its own.")
        return found

    def known(self, table: dict[str, Any], keys: Iterable[str], key: str) -> None:
        for name in table:
            if name not in keys:
                where = f"[{key}] " if key else ""
                raise UsageError(
                    f"{self.path}: {where}has no key {name!r}", did_you_mean(name, keys)
                )

    def role(self, name: str, key: str) -> str:
        if self.roles and name not in self.roles:
            raise self.error(key, f"there is no role {name!r}", did_you_mean(name, self.roles))
        return name

    def environment(self, expect: dict[str, Any]) -> Iterator[Expectation]:
        yield from self.variables(self.table(expect, "env", "expect.env"), "", "expect.env")
        by_role = self.table(expect, "env-by-role", "expect.env-by-role")
        for role in by_role:
            key = f"expect.env-by-role.{role}"
            yield from self.variables(self.table(by_role, role, key), self.role(role, key), key)

    def nccl(self, table: dict[str, Any]) -> Iterator[Expectation]:
        for one in self.variables(table, "", "expect.nccl"):
            if one.rule is Rule.SAME:
                raise self.error(
                    f"expect.nccl.{one.name}",
                    "cannot be {same = true}: a log does not show what is not set",
                    f'Write {one.name} = "value", and {{same = true}} under [expect.env].',
                )
            if not one.name.startswith("NCCL_"):
                raise self.error(
                    "expect.nccl",
                    f"{one.name} is no variable of NCCL",
                    "Write it under [expect.env].",
                )
            yield one

    def libraries(self, expect: dict[str, Any]) -> Iterator[LibraryExpectation]:
        stated = expect.get("lib", [])
        if not isinstance(stated, list) or not all(isinstance(one, str) and one for one in stated):
            raise self.error(
                "expect.lib",
                "must be a list of patterns",
                'Write lib = ["*/libmy_kernels*.so"] below [expect].',
            )
        for pattern in dict.fromkeys(stated):
            yield LibraryExpectation(pattern, f"{self.name} [expect] lib")

    def variables(self, table: dict[str, Any], role: str, key: str) -> Iterator[Expectation]:
        for name, stated in table.items():
            checked_name(name, f"{self.path}: [{key}]")
            origin = f"{self.name} [{key}] {name}"
            for rule, texts in self.demands(f"{key}.{name}", stated):
                make = list_item if rule is Rule.CONTAINS else environment_value
                values = tuple(make(name, text, f"{self.path}: [{key}]") for text in texts)
                yield Expectation(name, rule, values, role, origin)

    def demands(self, key: str, stated: Any) -> Iterator[tuple[Rule, tuple[str, ...]]]:
        if isinstance(stated, str):
            yield Rule.EXACT, (stated,)
            return
        if not isinstance(stated, dict):
            raise self.error(key, "must be a string or a table (put the value in quotes)", _FORMS)
        self.known(stated, _RULES, key)
        if len(stated) != 1:
            raise self.error(key, "must state exactly one rule", _FORMS)
        ((word, demand),) = stated.items()
        if word in _FLAGS:
            if demand is not True:
                raise self.error(key, f"{word} can only be true", _FORMS)
            yield _FLAGS[word], ()
        elif word == "one-of":
            yield Rule.ONE_OF, self.strings(key, word, demand)
        else:
            for item in self.strings(key, word, [demand] if isinstance(demand, str) else demand):
                yield Rule.CONTAINS, (item,)

    def strings(self, key: str, word: str, demand: Any) -> tuple[str, ...]:
        if isinstance(demand, list) and demand and all(isinstance(one, str) for one in demand):
            return tuple(demand)
        raise self.error(key, f"{word} needs strings, at least one", _FORMS)

    def patches(self, table: dict[str, Any]) -> Iterator[PatchExpectation]:
        for query, stated in table.items():
            key = f"expect.patch.{query}"
            if not isinstance(stated, str | dict):
                raise self.error(key, "must be a string or a table", _PATCH_FORMS)
            whole = {"from": stated} if isinstance(stated, str) else stated
            role, given = self.place(key, whole, ("from",), _PATCH_FORMS)
            source = checked_source(given["from"], f"{self.path}: [{key}]")
            yield PatchExpectation(query, source, role, f"{self.name} [expect.patch] {query}")

    def hook(self, expect: dict[str, Any], name: str) -> HookExpectation:
        key = f"expect.{name}"
        role, given = self.place(key, self.table(expect, name, key), ("file", "from"), _HOOK_FORMS)
        ((word, path),) = given.items()
        source = checked_path(path, f"{self.path}: [{key}]")
        return HookExpectation(name, source, word == "file", role, f"{self.name} [{key}]")

    def place(
        self, key: str, stated: dict[str, Any], words: tuple[str, ...], forms: str
    ) -> tuple[str, dict[str, str]]:
        """Return the role of a table, and which one of `words` it has, with its text."""
        self.known(stated, (*words, "role"), key)
        given = {word: text for word, text in stated.items() if word in words}
        if len(given) != 1 or not all(isinstance(text, str) for text in stated.values()):
            raise self.error(key, f"needs {' or '.join(words)}, as a string", forms)
        return self.role(stated["role"], key) if "role" in stated else "", given

    def counts(self, table: dict[str, Any]) -> dict[str, int]:
        for role, number in table.items():
            self.role(role, "expect.workers")
            # bool is a subclass of int.
            if type(number) is not int or not 0 < number <= MAX_WORKERS:
                raise self.error(
                    f"expect.workers.{role}",
                    f"must be a whole number from 1 to {MAX_WORKERS}",
                    f"Write for example {role} = 8.",
                )
        return dict(table)

    def kernel(self, expect: dict[str, Any]) -> KernelExpectation | None:
        if "kernel" not in expect:
            return None
        key = "expect.kernel"
        stated = self.table(expect, "kernel", key)
        self.known(stated, ("arch", "installed"), key)
        arch, installed = stated.get("arch", ""), stated.get("installed", False)
        if not isinstance(arch, str) or (arch and not _ARCH.fullmatch(arch)):
            raise self.error(f"{key}.arch", "names no architecture of a GPU", _KERNEL_FORMS)
        if not isinstance(installed, bool) or not (arch or installed):
            raise self.error(key, "needs arch, or installed = true", _KERNEL_FORMS)
        return KernelExpectation(arch, installed, f"{self.name} [{key}]")

    def ending(self, document: dict[str, Any], name: str) -> tuple[dict[str, str], dict[str, str]]:
        """Return the reason of each check in a table, and of each whose last day has passed."""
        stated, ends = expiry.split(name, self.table(document, name, name), self.error)
        reasons = self.reasons({name: stated}, name)
        over = {self.check_slug(one): day for one, day in ends.items() if expiry.ended(day)}
        kept = {slug: reason for slug, reason in reasons.items() if slug not in over}
        return kept, {slug: f"{reasons[slug]} (until {day})" for slug, day in over.items()}

    def reasons(self, document: dict[str, Any], name: str) -> dict[str, str]:
        found: dict[str, str] = {}
        for check, reason in self.table(document, name, name).items():
            try:
                slug = self.check_slug(check)
            except UsageError as error:
                raise self.error(name, error.message, error.remedy) from None
            if slug in found:
                raise self.error(name, f"names the check {slug} twice", "Keep one of the two.")
            if not isinstance(reason, str) or not reason.strip():
                raise self.error(
                    f"{name}.{check}", "needs a reason", f'Write {check} = "why this is accepted".'
                )
            found[slug] = reason.strip()
        return found
