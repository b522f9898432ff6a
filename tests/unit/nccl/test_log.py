"""Files, wrappings, damaged lines, versions and reused numbers, each in the smallest log."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from envprobe.errors import Exit, UsageError
from envprobe.nccl import facts, log
from envprobe.nccl.facts import DamageKind, Wording
from envprobe.nccl.outcomefacts import Call, Choice
from envprobe.nccl.place import Place

DATA = Path(__file__).resolve().parents[2] / "data" / "nccl"
ID = "0x114c8ecfe5a5cc0f"


def init(rank: int, pointer: str, phase: str = "START", extra: str = f"commId {ID}") -> str:
    return (
        f"ncclCommInitRank comm {pointer} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} "
        f"busId {rank}000 {extra} - Init {phase}"
    )


def info(text: str, pid: int = 10, host: str = "vm", tid: int | None = None) -> str:
    return f"{host}:{pid}:{tid or pid} [0] NCCL INFO {text}\n"


def read(text: str | bytes, folder: Path, name: str = "a.log") -> facts.Log:
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return log.read([str(path)])


def variables(process: facts.Process) -> dict[str, str]:
    return {each.name: each.value.reveal().decode() for each in process.variables}


def summary(found: facts.Log) -> list[tuple[object, ...]]:
    return [(p.host, p.pid, p.messages, variables(p), len(p.ranks)) for p in found.processes]


# --- files ----------------------------------------------------------------------------------------


def test_gzip_reads_like_the_plain_file(tmp_path: Path) -> None:
    text = (DATA / "045.log").read_bytes()
    found = read(gzip.compress(text), tmp_path, "a.gz")
    assert summary(found) == summary(log.read([str(DATA / "045.log")]))
    assert (found.files[0].compression, found.files[0].lines) == ("gzip", 152)


def test_zstd_reads_like_the_plain_file(tmp_path: Path) -> None:
    library = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    text = (DATA / "045.log").read_bytes()
    frames = library.compress(text[:5000]) + library.compress(text[5000:])
    found = read(frames, tmp_path, "a.zst")
    assert summary(found) == summary(log.read([str(DATA / "045.log")]))
    assert found.files[0].compression == "zstd"


def test_without_the_library_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(UsageError) as error:
        read(b"\x28\xb5\x2f\xfd rest", tmp_path, "a.zst")
    assert "zstd" in error.value.message
    assert "zstd -dc" in error.value.remedy
    assert error.value.code is Exit.USAGE


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_a_broken_archive_gives_what_it_holds(module: Any, tmp_path: Path) -> None:
    text = (DATA / "045.log").read_bytes() * 40
    whole = module.compress(text)
    cut = read(whole[: len(whole) * 2 // 3], tmp_path, "cut").files[0]
    assert "break off" in cut.broken
    # bzip2 and xz give out whole blocks only; these are longer than this text.
    assert (cut.lines > 1000) is (module is gzip)
    tail = read(whole + b"no archive", tmp_path, "tail").files[0]
    assert "are broken" in tail.broken
    assert tail.lines == text.count(b"\n")


def test_a_cut_zstd_file_is_no_empty_log(tmp_path: Path) -> None:
    library = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    whole = library.compress((DATA / "045.log").read_bytes())
    assert "break off" in read(whole[:-10], tmp_path, "a.zst").files[0].broken


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_parts_and_padding_of_archives_are_one_log(module: Any, tmp_path: Path) -> None:
    text = (DATA / "045.log").read_bytes()
    found = read(module.compress(text[:900]) + module.compress(text[900:]) + bytes(600), tmp_path)
    assert summary(found) == summary(log.read([str(DATA / "045.log")]))
    assert not found.files[0].broken


def test_a_small_archive_of_much_is_read_in_little_memory(tmp_path: Path) -> None:
    library = pytest.importorskip("zstandard", reason="the extra zstd is not installed")
    packed = library.compress(bytes(200_000_000))
    path = tmp_path / "a.zst"
    path.write_bytes(packed)
    code = (
        "import sys; from envprobe.nccl import log; print(log.read(sys.argv[1:]).files);"
        "print(open('/proc/self/status').read().partition('VmHWM:')[2].split()[0])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert int(done.stdout.split()[-1]) < 150_000


def test_what_cannot_be_read_at_all_is_an_error_and_no_empty_log() -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        log.read(["/proc/self/mem"])


def test_globs_give_every_file_once_and_a_missing_one_is_an_error(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.log").write_text(info("x", pid=number))
    pattern = str(tmp_path / "*.log")
    assert [p.pid for p in log.read([pattern, str(tmp_path / "1.log")]).processes] == [1, 2]
    (tmp_path / "below" / "more").mkdir(parents=True)
    (tmp_path / "below" / "more" / "3.log").write_text(info("x", pid=3))
    assert [p.pid for p in log.read([str(tmp_path / "*")]).processes] == [1, 2]
    assert [p.pid for p in log.read([str(tmp_path / "**")]).processes] == [1, 2, 3]
    with pytest.raises(UsageError, match="no file"):
        log.read([str(tmp_path / "*.txt")])
    with pytest.raises(UsageError, match="cannot be read"):
        log.read([str(tmp_path)])


def test_the_standard_input_is_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(info("x").encode())))
    (process,) = log.read(["-"]).processes
    assert (process.host, process.first) == ("vm", Place("-", 1))


@pytest.mark.parametrize("line", ["a line of the server", "LLLL LL NCCL_ALGO NCCLL CL L", "", "L"])
def test_lines_are_numbered_across_blocks(line: str, tmp_path: Path) -> None:
    noise = f"{line}\n" * 30000
    text = noise + info("NCCL_PROTO set by environment to LL") + noise + info("x")
    (process,) = read(text, tmp_path).processes
    assert process.variables[0].place.line == 30001
    assert process.last.line == 60002
    assert read(text, tmp_path).files[0].lines == 60002


def test_after_a_matrix_a_sparse_log_stays_sparse(tmp_path: Path) -> None:
    # Its rows and the lines behind them are not marked; a message in their midst is.
    noise = "a line of the server that is nothing but words in a row\n" * 2000
    head = info("Enabled NCCL Func/Proto/Algo Matrix:")
    rows = (
        "     Function |       LL   Simple   |    Ring\n"
        "    AllReduce |        1        0   |       1\n"
    )
    text = noise + head + rows + noise + info("NCCL_PROTO set by environment to LL") + noise
    (process,) = read(text, tmp_path).processes
    assert process.outcome.matrices[0].rows == {"AllReduce": {"LL": 1, "Simple": 0, "Ring": 1}}
    assert process.variables[0].place.line == 4004


def test_texts_that_differ_in_digits_are_counted_apart(tmp_path: Path) -> None:
    text = "".join(
        info(f"Channel 0{n}/0 : {n}[{n}] -> {n + 1}[{n + 1}] via P2P/IPC") * 2 for n in range(8)
    )
    (process,) = read(text + info("Channel 09/0 : 1[1] -> 2[2] via"), tmp_path).processes
    assert [(link.source, link.count) for link in process.outcome.links] == [
        (n, 2) for n in range(8)
    ]
    assert process.messages == 17


def test_many_messages_in_a_long_log_are_counted_exactly(tmp_path: Path) -> None:
    call = "AllReduce: opCount {:x} sendbuff 0x7f recvbuff 0x7f count {} datatype 7 op 0 root 0 "
    call += "comm 0x55e2 [nranks=2] stream 0x55"
    text = info(init(0, "0x55e2"))
    text += "".join(info(call.format(n, n * 8)) for n in range(20000))
    (process,) = read(text, tmp_path).processes
    assert process.ranks[0].outcome.calls == (Call("AllReduce", 20000),)
    assert process.subsystems["COLL"] == 20000
    assert process.messages == 20001


# --- wrappings ------------------------------------------------------------------------------------


def test_dockers_json_is_unwrapped(tmp_path: Path) -> None:
    lines = [
        json.dumps({"log": line + "\n", "stream": "stdout", "time": "2025-07-29T17:39:01.1Z"})
        for line in (DATA / "038.log").read_text().splitlines()
    ]
    found = read("\n".join(lines) + "\n", tmp_path)
    assert summary(found) == summary(log.read([str(DATA / "038.log")]))
    assert found.files[0].envelope == "docker json-file"
    assert found.processes[0].first_stamp == "2025-07-29T17:39:01.1Z"
    assert all(m.whole for p in found.processes for r in p.ranks for m in r.outcome.matrices)


@pytest.mark.parametrize("field", ["log", "message", "line"])
def test_json_of_any_collector_is_unwrapped(field: str, tmp_path: Path) -> None:
    lines = [json.dumps({"stream": "x", field: line}) for line in _038().splitlines()]
    found = read("\n".join([*lines, "no JSON", '{"a": 1}', "{"]) + "\n", tmp_path)
    assert summary(found) == summary(log.read([str(DATA / "038.log")]))
    assert found.files[0].envelope == "JSON"


def test_blanks_at_the_ends_of_lines_are_no_part_of_a_number(tmp_path: Path) -> None:
    text = "".join(f"{line}   \n" for line in _038().splitlines())
    found = read(text, tmp_path)
    plain = read(_038(), tmp_path)
    assert found.communicators == plain.communicators
    meanings = [[each.meaning for each in p.variables] for p in found.processes]
    assert meanings == [[each.meaning for each in p.variables] for p in plain.processes]


def _038() -> str:
    return (DATA / "038.log").read_text("utf-8")


def test_the_parts_of_a_cri_line_are_joined(tmp_path: Path) -> None:
    stamp = "2025-07-29T17:39:01.123456789Z stdout"
    line = info("NCCL_BUFFSIZE set by environment to 8388608.").rstrip()
    text = f"{stamp} F start\n{stamp} P {line[:45]}\n{stamp} F {line[45:]}\n"
    (process,) = read(text, tmp_path).processes
    (variable,) = process.variables
    assert (variable.meaning, variable.whole, variable.place.line) == (8388608, True, 3)


@pytest.mark.parametrize(
    ("prefix", "launcher", "field"),
    [
        ("[1,1]<stderr>:", "mpirun", ("rank", "1")),
        ("[trainer1]:", "torchrun", ("local", "1")),
        ("(Worker pid=77, ip=10.1.2.3) ", "ray", ("ip", "10.1.2.3")),
        ("[pod/a-0/main] ", "kubectl --prefix", ("pod", "a-0")),
        ("12: ", "srun", ("task", "12")),
        ("svc-1  | ", "docker compose", ("service", "svc-1")),
        ("Nov 29 15:36:00 n1 sglang[77]: ", "journald", ("unit", "sglang")),
        ("n17: ", "pdsh", ("node", "n17")),
    ],
)
def test_a_launchers_words_are_a_witness(
    prefix: str, launcher: str, field: tuple[str, str], tmp_path: Path
) -> None:
    found = read(prefix + info("x"), tmp_path)
    (process,) = found.processes
    assert found.launchers == (launcher,)
    (witness,) = process.witnesses
    assert witness.launcher == launcher
    assert field in witness.fields
    assert (process.host, process.pid) == ("vm", 10)


def test_equal_pids_of_two_mpi_ranks_are_two_processes(tmp_path: Path) -> None:
    text = "".join(f"[1,{rank}]<stdout>:" + info(init(rank, "0x1")) for rank in (0, 1))
    found = read(text, tmp_path)
    assert [(p.pid, p.generation) for p in found.processes] == [(10, 1), (10, 2)]
    assert "launcher" in found.processes[1].told_apart_by
    assert [rank.process for rank in found.communicators[0].ranks] == [0, 1]


def test_an_issue_is_read_through_its_markdown(tmp_path: Path) -> None:
    line = info("NCCL_ALGO set by environment to Ring").rstrip().replace(" ", "\u00a0")
    found = read(f"> `{line}`\n> NCCL INFO NCCL_PROTO set by environment to LL\n", tmp_path)
    assert [variables(p) for p in found.processes] == [{"NCCL_ALGO": "Ring"}, {"NCCL_PROTO": "LL"}]
    assert found.processes[1].pid is None
    assert found.damage_counts == {DamageKind.NO_PREFIX: 1}


def test_ray_says_how_many_lines_it_left_out(tmp_path: Path) -> None:
    text = "(W pid=3) " + info("NCCL_PROTO set by environment to LL").rstrip()
    found = read(text + "\x1b[32m [repeated 7x across cluster] (Ray ...)\x1b[0m\n", tmp_path)
    (variable,) = found.processes[0].variables
    assert (variable.value.reveal(), variable.repeated) == (b"LL", 7)
    assert found.damage_counts == {DamageKind.DEDUPLICATED: 1}


# --- damage ---------------------------------------------------------------------------------------


def test_a_line_of_many_messages_is_split_at_each(tmp_path: Path) -> None:
    one = "vm:10:10 [0] NCCL INFO x "
    (process,) = read(one * 2_000 + "NCCL INFO " * 2_000, tmp_path).processes
    assert (process.host, process.pid) == ("vm", 10)
    assert process.messages == 2_000


def test_glued_messages_are_split_at_the_known_host(tmp_path: Path) -> None:
    text = info("x") + info("NCCL_SOCKET_IFNAME set by environment to lo").rstrip()
    text += info("NCCL_IB_DISABLE set by environment to 1.", pid=11)
    first, second = read(text, tmp_path).processes
    (variable,) = first.variables
    assert (variable.value.reveal(), variable.whole) == (b"lo", False)
    assert (second.host, variables(second)) == ("vm", {"NCCL_IB_DISABLE": "1"})


def test_an_integer_without_its_full_stop_is_cut(tmp_path: Path) -> None:
    (process,) = read(info("NCCL_BUFFSIZE set by environment to 838"), tmp_path).processes
    assert (process.variables[0].whole, process.variables[0].meaning) == (False, None)


def test_a_beginning_in_front_of_a_prefix_is_no_host(tmp_path: Path) -> None:
    found = read(info("x") + info("y") + "vm:1" + info("z"), tmp_path)
    assert summary(found) == [("vm", 10, 3, {}, 0)]
    assert found.damage_counts == {DamageKind.GLUED: 1, DamageKind.CUT: 1}


def test_a_cut_complete_is_joined_with_its_end(tmp_path: Path) -> None:
    complete = init(0, "0xa", "COMPLETE")
    text = info(init(0, "0xa")) + info(complete[:50])[:-1] + info("x", pid=11)
    text += "something else\n" + complete[50:] + "\n"
    first, _ = read(text, tmp_path).processes
    assert first.ranks[0].completed == Place(str(tmp_path / "a.log"), 4)
    assert first.ranks[0].repaired
    # The end of another communicator's line is none of its.
    text = text.replace(complete[50:], complete[50:].replace("0x11", "0x12"))
    first, _ = read(text, tmp_path).processes
    assert first.ranks[0].completed is None


def test_the_last_line_may_go_on(tmp_path: Path) -> None:
    text = info("NCCL_SOCKET_IFNAME set by environment to eth").rstrip()
    found = read(text, tmp_path)
    assert not found.processes[0].variables[0].whole
    assert found.damage_counts[DamageKind.INCOMPLETE] == 1


def test_a_line_as_long_as_nccls_buffer_is_cut(tmp_path: Path) -> None:
    value = "x" * (1022 - len(info("NCCL_TOPO_FILE set by environment to ").rstrip("\n")))
    (process,) = read(info(f"NCCL_TOPO_FILE set by environment to {value}"), tmp_path).processes
    assert not process.variables[0].whole


# --- processes and communicators ------------------------------------------------------------------


def started(value: int, version: str = "2.28.9+cuda13.0") -> str:
    return (
        info("NCCL_SOCKET_IFNAME set by environment to lo")
        + info(f"NCCL_IB_TIMEOUT set by environment to {value}.")
        + info("cudaDriverVersion 13000")
        + info(f"NCCL version {version}")
        + info(init(0, "0xa", extra=f"commId 0x{value}"))
    )


def test_a_number_used_again_is_another_process(tmp_path: Path) -> None:
    first, second = read(started(20) + info("x") + started(22), tmp_path).processes
    assert (first.generation, second.generation) == (1, 2)
    assert "banner" in second.told_apart_by
    assert variables(first)["NCCL_IB_TIMEOUT"] == "20"
    assert variables(second)["NCCL_IB_TIMEOUT"] == "22"
    assert (first.messages, second.messages, second.first.line) == (6, 5, 7)
    assert [each.times for each in first.variables + second.variables] == [1, 1, 1, 1]


def test_a_second_copy_of_the_library_is_no_other_process(tmp_path: Path) -> None:
    (process,) = read(started(20) + started(22, "2.26.2+cuda12.2"), tmp_path).processes
    assert process.versions == ("2.28.9+cuda13.0", "2.26.2+cuda12.2")


def test_two_files_of_one_process_are_one(tmp_path: Path) -> None:
    (tmp_path / "out.log").write_text(started(20))
    (tmp_path / "err.log").write_text("vm:10:10 [0] a.cc:5 NCCL WARN bad\n")
    found = log.read([str(tmp_path / "out.log"), str(tmp_path / "err.log")])
    (process,) = found.processes
    assert (process.messages, process.warnings[0].where) == (6, "a.cc:5")


def test_two_files_with_two_starts_are_two_processes(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"{number}.log").write_text(started(number))
    found = log.read([str(tmp_path / "*.log")])
    assert [process.generation for process in found.processes] == [1, 2]


@pytest.mark.parametrize(
    ("line", "joined"),
    [
        ("comm {p} rank {r} nranks 2 cudaDev 0 busId 60 - Init COMPLETE", "order"),
        ("comm {p} rank {r} nranks 2 cudaDev 0 busId 60 commId 0x5 - Init COMPLETE", "commId"),
        (
            "[Rank {r}] ncclCommInitRank comm {p} rank {r} nranks 2 cudaDev 0 nvmlDev 0 busId 60 "
            "commId 0x5 - Init START",
            "commId",
        ),
    ],
)
def test_ranks_are_joined_in_the_words_of_all_versions(
    line: str, joined: str, tmp_path: Path
) -> None:
    text = "".join(info(line.format(r=r, p=f"0x{r}a"), pid=10 + r) for r in (0, 1))
    (communicator,) = read(text, tmp_path).communicators
    assert communicator.joined == joined
    assert [(rank.rank, rank.process) for rank in communicator.ranks] == [(0, 0), (1, 1)]
    assert communicator.missing == ()


def test_an_old_channel_line_has_bus_ids(tmp_path: Path) -> None:
    text = info("Channel 00/0 : 0[1b000] -> 1[1c000] via P2P/IPC/read")
    text += info("Channel 00 : 0[0] -> 1[1] via SHM/direct/direct")
    text += info("Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0/GDRDMA")
    (process,) = read(text, tmp_path).processes
    assert process.outcome.transports == {
        "NET/IB/0/GDRDMA": 1,
        "P2P/IPC/read": 1,
        "SHM/direct/direct": 1,
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("NCCL_IB_HCA set to mlx5", ("NCCL_IB_HCA", b"mlx5", None, Wording.TEXT)),
        ("NCCL_ALGO set by environment to ", ("NCCL_ALGO", b"", None, Wording.TEXT)),
        ("NCCL_HOSTID set by environment to 5.", ("NCCL_HOSTID", b"5.", None, Wording.TEXT)),
        (
            "NCCL_P2P_LEVEL set by environment to PXB",
            ("NCCL_P2P_LEVEL", b"PXB", None, Wording.TEXT),
        ),
        ("NCCL_X_Y set by environment to -2.", ("NCCL_X_Y", b"-2", -2, Wording.INTEGER)),
        (
            "Invalid value 99999999999999999999 for NCCL_BUFFSIZE, using default -2.",
            ("NCCL_BUFFSIZE", b"99999999999999999999", -2, Wording.REFUSED),
        ),
        (
            "Invalid NCCL_NTHREADS 100 (must be a multiple of 32)",
            ("NCCL_NTHREADS", b"100", None, Wording.REFUSED),
        ),
        (
            "Comm config minCTAs reset to NCCL_MIN_CTAS=4",
            ("NCCL_MIN_CTAS", b"4", None, Wording.OVERRIDE),
        ),
        (
            "Parsed environment variable NCCL_CTA_POLICY=DEFAULT to 0",
            ("NCCL_CTA_POLICY", b"DEFAULT", 0, Wording.PARSED),
        ),
        (
            "NET/OFI Adding NCCL_PROTO=simple to environment",
            ("NCCL_PROTO", b"simple", None, Wording.WRITTEN),
        ),
        (
            "TUNER/Plugin: Plugin name set by env to a.so",
            ("NCCL_TUNER_PLUGIN", b"a.so", None, Wording.TEXT),
        ),
        (
            "NET/Plugin: Plugin name set by env to b.so",
            ("NCCL_NET_PLUGIN", b"b.so", None, Wording.TEXT),
        ),
        (
            "PARAM: Disabling caching for environment variable NCCL_PROTO.",
            ("NCCL_PROTO", b"", None, Wording.UNCACHED),
        ),
        (
            "misc/param.cc:9 (f) NCCL_PROTO set by environment to LL",
            ("NCCL_PROTO", b"LL", None, Wording.TEXT),
        ),
    ],
)  # fmt: skip
def test_every_wording_of_a_variable(
    text: str, expected: tuple[object, ...], tmp_path: Path
) -> None:
    (process,) = read(info(text), tmp_path).processes
    (each,) = process.variables
    assert (each.name, each.value.reveal(), each.meaning, each.wording) == expected
    assert each.whole


@pytest.mark.parametrize(
    ("text", "choice"),
    [
        (
            "AllReduce: 4096 Bytes -> Algo RING proto LL channel{Lo..Hi}={0..3}",
            Choice("AllReduce", 4096, "RING", "LL", "0..3"),
        ),
        ("8 Bytes -> Algo 1 proto 2 time 3.5", Choice("", 8, "RING", "SIMPLE")),
    ],
)
def test_the_choice_for_a_collective(text: str, choice: Choice, tmp_path: Path) -> None:
    (process,) = read(info(text), tmp_path).processes
    assert process.outcome.choices == (choice,)


def test_warnings_banners_and_rccl(tmp_path: Path) -> None:
    text = "NCCL version 2.19.3+cuda11.8\n\n"
    text += "[2026-01-31 23:59:59] vm:10:11 [3] a/b.cc:7 (f) NCCL WARN Message truncated\n"
    text += "vm:10:10 NCCL CALL ncclCommDestroy(0x1)\n"
    text += info("RCCL version 2.18.3+hip5.7", pid=12)
    found = read(text, tmp_path)
    first, second = found.processes
    (warning,) = first.warnings
    assert (warning.where, warning.function, warning.stamp, warning.tid) == (
        "a/b.cc:7",
        "f",
        "2026-01-31 23:59:59",
        11,
    )
    assert first.levels == {"WARN": 1, "CALL": 1}
    assert found.banners == {"NCCL version 2.19.3+cuda11.8": 1}
    assert (second.family, second.versions) == ("rccl", ("2.18.3+hip5.7",))
