"""The report as JUnit XML: a suite for each subject, a case for each finding and clean check.

The grammar is that of junit-team's `jenkins-junit.xsd`, which Jenkins, GitLab and Azure read: a
finding that fails the run is a `failure`, what could not be told an `error` and never `skipped`.
"""

from __future__ import annotations

from typing import Final
from xml.etree import ElementTree

from envprobe import redact
from envprobe.checks.finding import Check
from envprobe.errors import EXIT_MEANINGS, Exit
from envprobe.report.outlet import Outcome, Outlet, Subject, Told

_TAGS: Final = {Outcome.FAILS: "failure", Outcome.UNKNOWN: "error", Outcome.IGNORED: "skipped"}


def render(outlet: Outlet) -> str:
    """Return the report as an XML document."""
    root = ElementTree.Element("testsuites", name=f"envprobe {outlet.command}")
    for subject in outlet.subjects:
        root.append(_suite(outlet, subject))
    _count(root, list(root.iter("testcase")))
    return _document(root)


def failure(message: str, remedy: str, code: Exit) -> str:
    """Return the document for a run that made no report: one case that is an `error`."""
    root = ElementTree.Element("testsuites", name="envprobe")
    suite = ElementTree.SubElement(root, "testsuite", name="envprobe")
    case = ElementTree.SubElement(suite, "testcase", name="no report", classname="envprobe")
    _add(case, "error", message, EXIT_MEANINGS[code], f"{message}\n{remedy}")
    for one in (suite, root):
        _count(one, [case])
    return _document(root)


def _suite(outlet: Outlet, subject: Subject) -> ElementTree.Element:
    suite = ElementTree.Element("testsuite", name=subject.name)
    package = f"envprobe.{outlet.command}"
    spoken = {told.check.slug for told in subject.told}
    for told in subject.told:
        _finding(ElementTree.SubElement(suite, "testcase", classname=package), told)
    for check in outlet.checks if subject.checks is None else subject.checks:
        if check.slug not in spoken:
            ElementTree.SubElement(suite, "testcase", classname=package, name=_name(check))
    verdict = ElementTree.SubElement(suite, "testcase", classname=package, name="verdict")
    if subject.unexplained:
        meaning = EXIT_MEANINGS[subject.verdict.exit]
        _add(verdict, "error", meaning, subject.verdict.exit.name.lower(), meaning)
    elif subject.elsewhere:
        said = f"{EXIT_MEANINGS[subject.verdict.exit]}; told in {', '.join(subject.elsewhere)}"
        ElementTree.SubElement(verdict, "system-out").text = said
    if subject.notes:
        ElementTree.SubElement(suite, "system-out").text = "\n".join(subject.notes)
    _count(suite, list(suite.iter("testcase")))
    return suite


def _finding(case: ElementTree.Element, told: Told) -> None:
    about = ", ".join((*((told.variable,) if told.variable else ()), *told.places[:1]))
    more = f" and {len(told.places) - 1} more" if len(told.places) > 1 else ""
    case.set("name", f"{_name(told.check)}{f': {about}{more}' if about else ''}")
    tag = _TAGS.get(told.outcome)
    if tag == "skipped":
        ElementTree.SubElement(case, tag, message=told.because)
    if tag in ("failure", "error"):
        _add(case, tag, told.message, told.severity.value, "\n".join(told.lines))
        return
    said = [f"{told.outcome.value}, {told.severity.value}", *told.lines]
    ElementTree.SubElement(case, "system-out").text = "\n".join(said)


def _name(check: Check) -> str:
    return f"{check.id} {check.slug}"


def _add(case: ElementTree.Element, tag: str, message: str, kind: str, text: str) -> None:
    ElementTree.SubElement(case, tag, message=message, type=kind).text = text


def _count(element: ElementTree.Element, cases: list[ElementTree.Element]) -> None:
    element.set("tests", str(len(cases)))
    for name, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        if name != "skipped" or element.tag == "testsuite":
            element.set(name, str(sum(case.find(tag) is not None for case in cases)))


def _document(root: ElementTree.Element) -> str:
    ElementTree.indent(root)
    text = ElementTree.tostring(root, "unicode")
    return redact.without_commands(f'<?xml version="1.0" encoding="UTF-8"?>\n{text}\n')
