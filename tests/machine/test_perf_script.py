"""perf script's text to stacks: equal to the kernel's own tool, in any pieces, never raising."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path

import pytest
from nfslab.evidence.profile import perf_script
from nfslab.evidence.profile.perf_script import (
    IDLE,
    INTERRUPTS,
    KERNEL_THREADS,
    NFSLAB,
    OTHER,
    PERF,
    RUN,
    Folded,
    ScriptReader,
)

KEPT = Path(__file__).parent / "perf"
ALWAYS = (0, 10**18)
SECOND = 10**9


def read(
    text: bytes, roots: dict[int, str] | None = None, window: tuple[int, int] = ALWAYS
) -> Folded:
    reader = ScriptReader(window, roots or {})
    reader.feed(text)
    return reader.finish()


def sample(
    process: str, pid: int, at_ns: int, *frames: str, cpu: int = 0, period: int = 10101010
) -> bytes:
    """One sample; frames from the leaf, "k:name" is the kernel's, "name@module" lies in one."""
    seconds, rest = divmod(at_ns, SECOND)
    lines = [f"{process} {pid}/{pid} [{cpu:03}] {seconds}.{rest:09}:   {period} cpu-clock: "]
    for frame in frames:
        name, _, module = frame.removeprefix("k:").partition("@")
        kernel = frame.startswith("k:")
        address = "ffffffff813c3984" if kernel else "    7f42320ae4e8"
        lines.append(f"\t{address} {name} ({module or ('[kernel.kallsyms]' if kernel else '/p')})")
    return ("\n".join(lines) + "\n\n").encode()


def fork(child: int, parent: int, at_ns: int = 0) -> bytes:
    seconds, rest = divmod(at_ns, SECOND)
    return (
        f"somebody {parent}/{parent} [000] {seconds}.{rest:09}: "
        f"PERF_RECORD_FORK({child}:{child}):({parent}:{parent})\n"
    ).encode()


def folded_lines(folded: Folded) -> Counter[str]:
    """As stackcollapse writes them: there, a frame without a symbol has no other name."""
    found: Counter[str] = Counter()
    for stack, tally in folded.each_stack():
        names = [
            "[unknown]" if name.startswith("[") else name for name in stack.frames
        ]  # fmt: skip
        found[";".join([stack.process.replace(" ", "_"), *names])] += tally.samples
    return found


def kept_text() -> bytes:
    return gzip.decompress((KEPT / "planted.script.gz").read_bytes())


def test_stacks_equal_those_of_the_kernels_own_tool() -> None:
    folded = read(kept_text())
    theirs = {}
    for line in (KEPT / "planted.folded").read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        theirs[stack] = int(count)
    assert dict(folded_lines(folded)) == theirs
    assert (folded.odd_lines, folded.lost, folded.broken) == (0, 0, 1)
    assert folded.events == {"cpu-clock": sum(theirs.values())}


def test_marks_and_weights_are_exact() -> None:
    folded = read(
        sample("my app", 7, 5, "k:do_sys_poll", "k:entry", "poll", "main", period=3)
        + sample("my app", 7, 6, "k:do_sys_poll", "k:entry", "poll", "main", period=4)
        + sample("kworker/0:1", 9, 8, "k:flush", "k:kthread", period=5)
        + sample("my app", 7, 9, "work", period=2)
        + sample("none", 8, 11, period=1)
    )
    found = {
        (stack.process, stack.frames, stack.kernel_frames): (tally.samples, tally.weight)
        for stack, tally in folded.each_stack()
    }
    assert found == {
        ("my app", ("main", "poll", "entry", "do_sys_poll"), 2): (2, 7),
        ("kworker/0:1", ("kthread", "flush"), 2): (1, 5),
        ("my app", ("work",), 0): (1, 2),
        ("none", (), 0): (1, 1),
    }
    assert folded.threads == {(7, "my app"): 3, (9, "kworker/0:1"): 1, (8, "none"): 1}
    assert (folded.first_ns, folded.last_ns) == (5, 11)


def test_only_the_window_is_in_stacks_and_all_is_over_time() -> None:
    text = b"".join(
        sample("app", 7, at, "work", cpu=cpu)
        for at, cpu in ((SECOND - 1, 0), (SECOND, 0), (2 * SECOND - 1, 1), (2 * SECOND, 1))
    )
    folded = read(text, window=(SECOND, 2 * SECOND))
    assert (folded.samples, folded.window_samples) == (4, 2)
    (stack,) = folded.each_stack()
    assert stack[1].samples == 2
    bins = {(key[0], key[1]): counts for key, counts in folded.series.items()}
    assert bins == {(-1, 0): [1, 0], (0, 0): [1, 0], (9, 1): [1, 0], (10, 1): [1, 0]}


def test_idle_is_the_idle_task_unless_it_serves_an_interrupt() -> None:
    folded = read(
        sample("swapper", 0, 1, "k:pv_native_safe_halt", "k:default_idle", "k:do_idle")
        + sample(
            "swapper", 0, 2, "k:net_rx_action", "k:__do_softirq", "k:irq_exit_rcu", "k:do_idle"
        )
        + sample("swapper", 0, 3, "k:x", "k:asm_common_interrupt", "k:do_idle")
        + sample("swapper", 0, 4, "k:[unknown]", "k:[unknown]")
    )
    classes = Counter({stack.klass: 0 for stack, _ in folded.each_stack()})
    for stack, tally in folded.each_stack():
        classes[stack.klass] += tally.samples
    assert classes == {IDLE: 2, INTERRUPTS: 2}
    assert (folded.idle_samples, folded.window_idle_samples) == (2, 2)
    assert folded.threads == {(0, "swapper"): 2}, "an idle CPU is no thread"


def test_processes_are_classed_by_descent() -> None:
    roots = {100: NFSLAB, 150: PERF, 2: KERNEL_THREADS, 400: RUN}
    text = b"".join(
        [
            # Before the recording, in no order: a child with a smaller number than its parent's.
            fork(90, 120), fork(120, 100), fork(150, 100), fork(30, 2), fork(401, 400),
            *(sample("x", pid, 1, "f") for pid in (100, 120, 90, 150, 30, 400, 401, 999)),
            # While it is recorded: a child of a child, a stranger's, a number used again.
            fork(91, 90, 5), fork(998, 999, 6), fork(400, 999, 7),
            *(sample("x", pid, 10, "g") for pid in (91, 998, 400)),
        ]
    )  # fmt: skip
    seen = {}
    reader = ScriptReader(ALWAYS, roots)
    reader.feed(text)
    folded = reader.finish()
    for stack, tally in folded.each_stack():
        seen[(stack.klass, stack.frames)] = tally.samples
    assert seen == {
        (NFSLAB, ("f",)): 1, (RUN, ("f",)): 4, (PERF, ("f",)): 1, (KERNEL_THREADS, ("f",)): 1,
        (OTHER, ("f",)): 1, (RUN, ("g",)): 1, (OTHER, ("g",)): 2,
    }  # fmt: skip
    assert folded.odd_lines == 0


@pytest.mark.parametrize(
    ("line", "name", "unknown"),
    [
        ("operator new(unsigned long) (/usr/lib/libstdc++.so.6)", "operator new(unsigned long)", 0),
        ("a::(anonymous namespace)::b (/opt/x)", "a::(anonymous namespace)::b", 0),
        ("[unknown] (/usr/lib/my lib.so)", "[my lib.so]", 1),
        ("[unknown] ([unknown])", "[unknown]", 1),
        ("[unknown] ([vdso])", "[vdso]", 1),
        ("work (/opt/gone (deleted))", "work", 0),
        ("[unknown] (/opt/gone (deleted))", "[gone (deleted)]", 1),
        ("a;b (/opt/x)", "a:b", 0),
        ("<T as U>::f (/opt/x)", "<T as U>::f", 0),
    ],
)
def test_names_of_frames(line: str, name: str, unknown: int) -> None:
    heading = b"p 1/1 [000] 0.000000001:   1 cpu-clock: \n"
    folded = read(heading + f"\t  7f42320ae4e8 {line}\n\n".encode())
    ((stack, _),) = folded.each_stack()
    assert stack.frames == (name,)
    assert sum(folded.unknown.values()) == unknown


def test_a_broken_chain_is_counted_and_makes_nothing_the_kernels() -> None:
    """Behind the first user frame any number may stand, also one like the kernel's addresses."""
    folded = read(
        sample("p", 1, 1, "k:read", "leaf", "k:[unknown]@[unknown]", "[unknown]@[unknown]")
        + sample("p", 1, 2, "leaf", "main")
    )
    kernel = {stack.frames: stack.kernel_frames for stack, _ in folded.each_stack()}
    assert kernel == {("[unknown]", "[unknown]", "leaf", "read"): 1, ("main", "leaf"): 0}
    assert (folded.broken, folded.user_stacks) == (1, 2)


def test_lost_records_are_summed() -> None:
    lost = b"perf 31915 [001] 75343.676637000: PERF_RECORD_LOST lost 3\n"
    old = b"perf 31915/31915 [001] 75343.676637000: PERF_RECORD_LOST lost 29\n"
    folded = read(old + sample("p", 1, 1, "f") + old + lost)
    assert folded.lost == 58
    assert folded.odd_lines == 1, "the line with one number only is not as we ask for it"


def split(text: bytes, places: list[int]) -> Folded:
    reader = ScriptReader(ALWAYS, {25310: RUN})
    for begin, end in zip([0, *places], [*places, len(text)], strict=True):
        reader.feed(text[begin:end])
    return reader.finish()


def test_any_split_of_the_text_gives_the_same() -> None:
    text = kept_text()
    whole = split(text, [])
    draw = random.Random(6)
    for _ in range(10):
        places = sorted(draw.randrange(len(text)) for _ in range(draw.choice([1, 2, 50, 900])))
        assert split(text, places) == whole
    short = b"".join([fork(2, 1, 3), sample("a b", 2, 5, "k:x", "y"), b"odd\n", sample("c", 3, 6)])
    for place in range(len(short)):
        assert split(short, [place]) == split(short, []), place


def test_hostile_text_is_counted_and_never_raises() -> None:
    draw = random.Random(2001)
    text = kept_text()
    alphabet = [
        b"\n",
        b"\t",
        b" ",
        b"/",
        b"[",
        b"]:",
        b"(",
        b")",
        b";",
        b"\xff",
        b"0",
        b"-1",
        b"\0",
    ]
    for _ in range(60):
        begin = draw.randrange(len(text) - 4000)
        piece = bytearray(text[begin : begin + 4000])
        for _ in range(draw.choice([1, 20, 300])):
            at = draw.randrange(len(piece))
            piece[at : at + draw.randrange(3)] = draw.choice(alphabet)
        folded = read(bytes(piece))
        assert sum(tally.samples for _, tally in folded.each_stack()) == folded.samples
    for _ in range(50):
        folded = read(draw.randbytes(3000))
        assert folded.samples == 0
        assert folded.odd_lines > 0


def test_names_like_headings_and_lines_without_end() -> None:
    folded = read(sample("1/1 [0] 1.1: x", 7, 5, "f") + sample("new\nline", 8, 6, "g"))
    processes = {stack.process for stack, _ in folded.each_stack()}
    assert processes == {"1/1 [0] 1.1: x", "line"}
    assert folded.odd_lines == 1, "the first half of a name with a line's end in it"
    endless = b"x" * (3 * perf_script.LINE_BYTES_MOST)
    for piece in (len(endless), 1000):
        reader = ScriptReader(ALWAYS, {})
        for at in range(0, len(endless), piece):
            reader.feed(endless[at : at + piece])
        reader.feed(b"\n" + sample("p", 1, 1, "f"))
        folded = reader.finish()
        assert (folded.odd_lines, folded.samples) == (1, 1)
    exiting = sample("p", 7, 1, "f").replace(b"7/7", b"-1/-1")
    assert read(exiting).samples == 1, "perf knows no number of one that is ending"


def test_tables_are_bounded_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_script, "STACKS_MOST", 3)
    monkeypatch.setattr(perf_script, "NAMES_MOST", 20)
    monkeypatch.setattr(perf_script, "SERIES_MOST", 5)
    monkeypatch.setattr(perf_script, "THREADS_MOST", 6)
    monkeypatch.setattr(perf_script, "DEPTH_MOST", 4)
    many = [sample(f"p{n}", n, n * SECOND, f"f{n}", "main") for n in range(1, 31)]
    folded = read(b"".join(many))
    assert folded.samples == sum(tally.samples for _, tally in folded.each_stack()) == 30
    assert folded.left_out == {"stacks": 27, "names": 30 - 18, "series": 25, "threads": 24}
    other = [stack for stack, _ in folded.each_stack() if stack.process == OTHER]
    assert [stack.frames for stack in other] == [(perf_script.OTHER_STACKS,)]
    deep = read(sample("p", 1, 1, *(f"f{n}" for n in range(6))))
    ((stack, _),) = deep.each_stack()
    assert (len(stack.frames), deep.cut_stacks) == (4, 1)
    long = read(sample("p", 1, 1, "f" * 1000))
    ((stack, _),) = long.each_stack()
    assert len(stack.frames[0]) == perf_script.NAME_LENGTH_MOST
