"""Judging a log in this process."""

from __future__ import annotations

from typing import Any

from envprobe import cli_nccl, redact
from envprobe.checks.finding import Finding
from envprobe.config import Config
from envprobe.expectations import parse
from envprobe.nccl import conf, log
from envprobe.nccl.params import Version
from envprobe.report.nccl_model import Report

NOW: Version = (2, 28, 9)


def judged(path: str, *expect: str, files: dict[str, bytes] | None = None) -> Report:
    """Return the report on a log; `files` are configuration files by path."""
    config = Config(tuple(parse(one) for one in expect))
    found = log.read([path])
    report = cli_nccl.judged(found, config, cli_nccl.Options((path,)))
    return report if files is None else with_files(report, files)


def with_files(report: Report, files: dict[str, bytes]) -> Report:
    """Return the report on the same log with these configuration files."""
    from envprobe.checks import verdict
    from envprobe.checks.nccl.context import Context
    from envprobe.checks.nccl.registry import CHECKS
    from envprobe.checks.registry import run_checks

    read = conf.load(files, NOW, files.__getitem__)
    context = Context(report.context.log, report.context.config, read)
    result = run_checks(CHECKS, context, {})
    return Report(context, result, verdict.of_findings(result, {}))


def told(report: Report) -> list[tuple[str, str, str]]:
    """Return the check, the severity (or `unknown`) and the variable of each finding."""
    return [
        (one.check, "unknown" if one.undetermined else one.severity.value, one.variable)
        for one in report.result.findings
    ]


def said(finding: Finding) -> str:
    """Return all that a finding says."""
    sentences = (finding.message, *finding.evidence, finding.remedy)
    return "\n".join(redact.show_sentence(one) for one in sentences)


def only(report: Report) -> Any:
    """Return the only finding."""
    (found,) = report.result.findings
    return found
