"""All questions about one start, in a bounded number of runs of that interpreter.

The runs: the walk (site without its two modules), the trace with the effects, the attributes
without any hook, the children, and the cost. Each executes foreign code: startup files, and all but
the walk and the attributes the hooks themselves.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from typing import Final

from envprobe.runner import supervised
from envprobe.runner.started import NO_GPUS, Bounds
from envprobe.startup import cost, culprit, effects, interpreter, lines, owners, reach, trace, walk
from envprobe.startup.hooks import Observed
from envprobe.startup.result import Attribute, Effects, Hook, Outcome, Startup
from envprobe.startup.types import MODULES, Launch, Walk

_OUTPUT_BYTES: Final = 8 << 20
_PROCESSES: Final = 48
_WRITES_FILES: Final = ("NCCL_DEBUG_FILE",)
_TRACED: Final = ("-v", "-X", "importtime")
_WATCHED: Final = ("-S",)


@dataclasses.dataclass(frozen=True, slots=True)
class Questions:
    """What to find out beyond the hooks themselves.

    `patches` are attributes as MODULE:Class.attr; `methods` how children are started
    (`reach.METHODS`); `cost_runs` how often the cost is measured, 0: not. `seconds` is for one run.
    `with_gpu` leaves GPUs visible to the hooks. `wanted` is a path, as seen from the directory of
    the launch, that the interpreter is asked about, "" for none.
    """

    patches: tuple[str, ...] = ()
    methods: tuple[str, ...] = reach.METHODS
    cost_runs: int = 5
    seconds: float = 60.0
    with_gpu: bool = False
    wanted: str = ""


def examine(given: Launch, questions: Questions) -> Startup:
    """Answer the questions about one launch.

    Raises UndeterminedError if the interpreter cannot be started at all.
    """
    return _Examination(given, questions).made()


class _Examination:
    """One launch; `problems` collects what could not be found out."""

    def __init__(self, given: Launch, questions: Questions) -> None:
        self._launch = _prepared(given, questions.with_gpu)
        self._questions = questions
        self._bounds = Bounds(questions.seconds, _OUTPUT_BYTES, _PROCESSES)
        self._problems: list[str] = []
        self._last_read = ""

    def made(self) -> Startup:
        walked = self._walk()
        ended = self._run("startup_probe", _TRACED, self._request(modules=_imported(walked)))
        traced = trace.parse(ended.stderr)
        found = effects.read(interpreter.answers(ended), self._launch)
        run = interpreter.described(ended, said=interpreter.last_words(ended))
        hooks = Observed(self._launch, run, traced, walked, found, self._last_read).hooks()
        packages = self._packages(hooks, walked)
        if walked is None and any(_stops(hook) for hook in hooks):
            self._problems.clear()  # the same startup file has stopped the walk
        made = Startup(
            launch=self._launch,
            run=run,
            hooks=tuple(_owned(hook, packages) for hook in hooks),
            walk=_with_owners(walked, packages),
            effects=found,
        )
        if found is not None and not run.stopped:
            made = self._with_more(made, found)
        elif not (run.stopped or run.answered or trace.begun(ended.stderr)):
            found_out = culprit.found(self._launch, run, ended.stderr, self._bounds)
            made = dataclasses.replace(made, run=found_out)
            self._problems.clear()  # the walk has failed in the same way
        return dataclasses.replace(made, problems=tuple(self._problems))

    def _run(self, name: str, options: tuple[str, ...], *arguments: str) -> supervised.Ended:
        text = interpreter.payload(name)
        return interpreter.run(
            self._launch, text, self._bounds, options=options, arguments=arguments
        )

    def _request(self, path: tuple[str, ...] | None = None, modules: tuple[str, ...] = ()) -> str:
        return json.dumps(
            {
                "path0": self._launch.path0,
                "patches": self._questions.patches,
                "path": path,
                "modules": modules,
            }
        )

    def _walk(self) -> Walk | None:
        wanted = self._questions.wanted
        place = posixpath.normpath(posixpath.join(self._launch.cwd, wanted))
        ended = self._run("startup_walk", _WATCHED, *([place] if wanted else []))
        try:
            return walk.read(ended.answer, self._launch)
        except ValueError:
            self._last_read = walk.last_read(interpreter.answers(ended))
            how = f"it was ended for {ended.stopped}" if ended.stopped else f"code {ended.code}"
            said = interpreter.last_words(ended)
            problem = f"the walk of sys.path did not come to its end ({how})"
            self._problems.append(f"{problem}: {said}" if said else problem)
            return None

    def _with_more(self, made: Startup, found: Effects) -> Startup:
        """Add the patches, the children and the cost."""
        asked = self._questions
        without = self._without(found) if asked.patches else {}
        children, problem = reach.observe(
            self._launch, asked.patches, asked.methods, self._bounds, asked.seconds / 4, without
        )
        if problem:
            self._problems.append(problem)
        measured = None
        if asked.cost_runs and not self._launch.has_flag("S"):
            measured = cost.measure(self._launch, self._bounds, asked.cost_runs, asked.seconds / 2)
        states = {
            name: reach.patch_state(without.get(name), one, one)
            for name, one in found.patches.items()
        }
        return dataclasses.replace(made, children=children, cost=measured, patches=states)

    def _without(self, found: Effects) -> dict[str, Attribute]:
        """Return what the attributes hold in an interpreter that runs no hook at all."""
        ended = self._run("startup_probe", _WATCHED, self._request(found.path))
        bare = effects.read(interpreter.answers(ended), self._launch)
        return dict(bare.patches) if bare is not None else {}

    def _packages(self, hooks: tuple[Hook, ...], walked: Walk | None) -> dict[str, str]:
        paths = [hook.path for hook in hooks if hook.path]
        if walked is not None:
            paths += [one.file.path for one in walked.candidates]
        return owners.packages(paths, self._launch)


def _imported(walked: Walk | None) -> tuple[str, ...]:
    """Return the modules that startup files import."""
    texts = [text for file in walked.files for _, text in file.lines] if walked is not None else []
    return tuple(dict.fromkeys(name for text in texts for name in lines.modules(text)))


def _stops(hook: Hook) -> bool:
    ended = hook.outcome in (Outcome.ENDED, Outcome.STOPPED)
    return ended and hook.name not in MODULES


def _prepared(given: Launch, with_gpu: bool) -> Launch:
    """Hide what the hooks must not touch: GPUs, and the file that NCCL would write to."""
    environment = {k: v for k, v in given.environment.items() if k not in _WRITES_FILES}
    environment |= {} if with_gpu else NO_GPUS
    return dataclasses.replace(given, environment=environment)


def _owned(hook: Hook, packages: dict[str, str]) -> Hook:
    return dataclasses.replace(hook, owner=hook.owner or packages.get(hook.path, ""))


def _with_owners(walked: Walk | None, packages: dict[str, str]) -> Walk | None:
    if walked is None:
        return None
    candidates = tuple(
        dataclasses.replace(
            one,
            file=dataclasses.replace(
                one.file, owner=one.file.owner or packages.get(one.file.path, "")
            ),
        )
        for one in walked.candidates
    )
    return dataclasses.replace(walked, candidates=candidates)
