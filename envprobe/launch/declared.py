"""A declared environment: what a definition hands over, entry by entry, with its origin."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection, Iterable

from envprobe.launch.types import NOWHERE, Entry, Place, Setting, Source
from envprobe.model import Confidence, Environment, EnvironmentStatus, Reading, State, View
from envprobe.values import Value


@dataclasses.dataclass(frozen=True)
class Declared:
    """What one definition hands over, in the order in which the names first come up.

    `open` says why a name that is not among the entries may still be handed over ("" if it cannot
    be): what the manager itself adds is seldom in a file. `source` names the definition, `at` is
    when it was loaded or read, in Unix seconds.
    """

    entries: tuple[Entry, ...]
    open: str = ""
    source: str = ""
    at: float | None = None

    def entry(self, name: str) -> Entry | None:
        """Return the entry of a variable, None if it is not declared."""
        return self._by_name.get(name)

    @functools.cached_property
    def _by_name(self) -> dict[str, Entry]:
        return {one.setting.name: one for one in self.entries}

    @property
    def written(self) -> tuple[Entry, ...]:
        """The entries that the definition itself speaks of, not those of the manager."""
        return tuple(
            one for one in self.entries if not one.setting.source.given or one.removed is not None
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The names that the definition speaks of: relevant and shown, whatever their prefix."""
        return tuple(one.setting.name for one in self.written)

    @functools.cached_property
    def environment(self) -> Environment:
        """The declared view; PARTIAL where a name that is not in it may still be handed over."""
        sure = {
            one.setting.name: one.setting.value
            for one in self.entries
            if one.removed is None and one.known
        }
        doubts = [one for one in self.entries if not one.known]
        reason = self.open or (doubts[0].doubt or doubts[0].setting.reason if doubts else "")
        inferred = any(one.setting.confidence is Confidence.INFERRED for one in self.entries)
        return Environment(
            View.DECLARED,
            EnvironmentStatus.PARTIAL if reason else EnvironmentStatus.COMPLETE,
            dict(sure),
            source=self.source,
            at=self.at,
            confidence=Confidence.INFERRED if inferred else Confidence.PROVED,
            reason=reason,
        )

    def reading(self, name: str) -> Reading:
        """Return what is handed over under a name, with its line as the source."""
        entry = self.entry(name)
        if entry is None and not self.open:
            return Reading(State.ABSENT, source=self.source, at=self.at)
        if entry is None:
            return self.environment.reading(name)
        setting = entry.setting
        if entry.removed is not None:
            return Reading(State.ABSENT, source=str(entry.removed), at=self.at)
        source = str(setting.place) or setting.source.value
        if not entry.known:
            reason = entry.doubt or setting.reason
            return Reading(State.UNREADABLE, source=source, at=self.at, reason=reason)
        return Reading(State.VALUE, setting.value, source, self.at, setting.confidence)


class Builder:
    """Puts a declared environment together, from what counts least to what counts most."""

    def __init__(self) -> None:
        self._entries: dict[str, Entry] = {}

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> Builder:
        """Return one that goes on from entries."""
        made = cls()
        made._entries = {one.setting.name: one for one in entries}
        return made

    def set(self, setting: Setting) -> None:
        """Let an assignment override what there is under its name."""
        before = self._entries.get(setting.name)
        overridden = () if before is None else (*before.overridden, before.setting)
        self._entries[setting.name] = Entry(setting, overridden)

    def remove(self, name: str, place: Place, value: Value | None = None) -> None:
        """Take a name out; with `value` only if it is set to just that."""
        before = self._entries.get(name)
        if before is None:
            if value is None:
                unset = Setting(name, None, Source.MANAGER)
                self._entries[name] = Entry(unset, (), place)
        elif value is None or (before.known and before.setting.value == value):
            self._entries[name] = dataclasses.replace(before, removed=place)
        elif not before.known:
            doubt = f"{place} removes it if it has a certain value"
            self._entries[name] = dataclasses.replace(before, doubt=doubt)

    def clear(self, place: Place, keep: Collection[str] = ()) -> None:
        """Take out every entry but those named in `keep`."""
        for name in self.names:
            if name not in keep:
                self.remove(name, place)

    def doubt(self, reason: str, names: Iterable[str] | None = None) -> None:
        """Say that what there is so far may be overridden by something that cannot be read."""
        for name in self._entries if names is None else names:
            entry = self._entries.get(name)
            if entry is not None and entry.removed is None:
                self._entries[name] = dataclasses.replace(entry, doubt=reason)

    def value(self, name: str) -> Value | None:
        """Return what is set under a name, None if nothing or nothing certain is."""
        entry = self._entries.get(name)
        if entry is None or entry.removed is not None or not entry.known:
            return None
        return entry.setting.value

    def has(self, name: str) -> bool:
        """Return whether something is, or may be, set under a name."""
        entry = self._entries.get(name)
        return entry is not None and entry.removed is None

    def removed(self, name: str) -> bool:
        """Return whether a name is known not to be set, as it was taken out."""
        entry = self._entries.get(name)
        return entry is not None and entry.removed is not None

    @property
    def names(self) -> tuple[str, ...]:
        """The names that are set."""
        return tuple(name for name in self._entries if self.has(name))

    def made(self, *, open: str = "", source: str = "", at: float | None = None) -> Declared:
        """Return the declared environment."""
        return Declared(tuple(self._entries.values()), open, source, at)


def setting(
    name: str, text: str, source: Source, place: Place = NOWHERE, reason: str = ""
) -> Setting:
    """Return an assignment of a text."""
    return Setting(name, Value(text.encode("utf-8", "surrogateescape")), source, place, reason)
