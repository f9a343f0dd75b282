"""Readings of /proc/self/mountstats written from known numbers, in the kernel's form."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

COUNT = st.integers(0, 1 << 40)
V3 = ("NULL", "GETATTR", "SETATTR", "LOOKUP", "ACCESS", "READ", "WRITE", "READDIR", "COMMIT")
WIDTHS = {"udp": (7, 10), "tcp": (10, 13), "rdma": (20, 25, 27), "local": (9, 12)}
"""How many numbers a transport has, by statvers and kernel; before the oldest it had fewer."""


@dataclass
class Written:
    """One NFS mount of a reading."""

    point: str = "/m"
    source: str = "nas:/export"
    statvers: str = "1.1"
    age: int = 1
    events: list[int] = field(default_factory=lambda: [0] * 27)
    bytes: list[int] = field(default_factory=lambda: [0] * 8)
    transports: list[tuple[str, list[int]]] = field(default_factory=lambda: [("tcp", [0] * 13)])
    operations: dict[str, list[int]] = field(default_factory=dict)

    def text(self) -> str:
        """As nfs_show_stats of fs/nfs/super.c writes it."""
        point = self.point.replace("\\", "\\134").replace(" ", "\\040")
        lines = [
            f"device {self.source} mounted on {point} with fstype nfs statvers={self.statvers}",
            "\topts:\trw,vers=3,rsize=65536,wsize=65536,hard,proto=tcp,timeo=600,retrans=2,sec=sys",
            f"\tage:\t{self.age}",
            "\tcaps:\tcaps=0x3fc7,wtmult=512,dtsize=65536,bsize=0,namlen=255",
            "\tsec:\tflavor=1,pseudoflavor=1",
            "\tevents:\t" + " ".join(map(str, self.events)) + " ",
            "\tbytes:\t" + " ".join(map(str, self.bytes)) + " ",
            f"\tRPC iostats version: {self.statvers}  p/v: 100003/3 (nfs)",
            *(f"\txprt:\t{kind} {' '.join(map(str, n))}" for kind, n in self.transports),
            "\tper-op statistics",
            *(f"\t{name:>12}: {' '.join(map(str, n))}" for name, n in self.operations.items()),
            "",
        ]
        return "\n".join(lines) + "\n"


@st.composite
def pairs(draw: st.DrawFn, most: int = 4) -> tuple[Written, Written]:
    """Two readings of one mount, all counters of the second at least as large."""
    kind = draw(st.sampled_from(["tcp", "udp", "rdma", "local"]))
    width = draw(st.sampled_from(WIDTHS[kind]))
    numbers = draw(st.sampled_from([8, 9]))
    names = draw(st.lists(st.sampled_from(V3), min_size=1, unique=True))
    count = draw(st.integers(1, most))

    def row(width: int, earlier: list[int] | None) -> list[int]:
        more = draw(st.lists(COUNT, min_size=width, max_size=width))
        return more if earlier is None else [a + b for a, b in zip(more, earlier, strict=True)]

    def reading(earlier: Written | None) -> Written:
        return Written(
            age=draw(st.integers(0, 10**6)) + (earlier.age if earlier else 0),
            events=row(27, earlier and earlier.events),
            bytes=row(8, earlier and earlier.bytes),
            transports=[
                (kind, row(width, earlier and earlier.transports[number][1]))
                for number in range(count)
            ],
            operations={name: row(numbers, earlier and earlier.operations[name]) for name in names},
        )

    first = reading(None)
    return first, reading(first)
