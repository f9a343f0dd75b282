"""Everything a reader has to know before believing a figure, worst first.

Sources: the validity checks of every counted run, runs that failed or are missing or
cannot be read, durability, a machine or mount that changed between runs, page cache and
collectors that did not do what was asked, odd values. Each kind is one warning that names
all its runs: a hundred runs with the same problem are one sentence, not a hundred.
"""

from __future__ import annotations

import re
import statistics
from collections import Counter
from typing import TYPE_CHECKING, Any

from nfslab.display.numbers import counted as count
from nfslab.display.numbers import quantity
from nfslab.evidence.call_counts.counts import call_counts, past_rpc
from nfslab.report.conditions import collectors
from nfslab.report.model import Warning
from nfslab.results.selection import point_label, scalar_paths
from nfslab.statistics.two_modes import two_modes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from nfslab.report.model import PointResult, SetupInfo, Severity
    from nfslab.results.outcomes import Outcomes, Setup
    from nfslab.results.records import CatalogueLine, CheckRecord, RunRecord

MAX_CHANGES = 20
OF_MACHINES = ("machine.", "client.")
"""Beginnings of parameters that say which machines a run is made by."""
"""Changed facts of the machine that are spelled out in one warning."""
BROKEN = ("unavailable", "failed")
"""A collector's status in a run that it should have watched and did not."""
MAX_MESSAGES = 3
"""Different messages of one check that are quoted."""
COSTLY_CPU_SHARE = 0.05
"""A collector that uses more of one CPU than this is said to disturb what it watches."""

_NUMBERS = re.compile(r"\d+(?:\.\d+)?")
_ORDER = {"violation": 0, "warning": 1, "note": 2}


def warnings_of(
    outcomes: Outcomes,
    records: Mapping[str, RunRecord],
    points: Sequence[PointResult],
    machines: Sequence[SetupInfo],
    levels: Sequence[set[str]],
) -> list[Warning]:
    """All warnings of the experiment, the worst first."""
    counted = [records[line.run_id] for line in outcomes.counted]
    found = [
        *_checks(counted),
        *_not_there(outcomes),
        *_repetitions(outcomes, points),
        *_durability(outcomes, levels),
        *_machine(outcomes),
        *_disks(outcomes),
        *_build(machines),
        *_places(outcomes),
        *_page_cache(counted),
        *collector_warnings(counted),
        *call_warnings(counted),
        *_odd_values(outcomes),
        *_modes(outcomes, points),
        *_attempts(outcomes),
        *_order(outcomes),
    ]
    return sorted(found, key=lambda warning: _ORDER[warning.severity])


def _checks(counted: Iterable[RunRecord]) -> list[Warning]:
    """One warning for each check and verdict, with an example of what it said."""
    groups: dict[tuple[str, str], list[tuple[RunRecord, CheckRecord]]] = {}
    total = 0
    for record in counted:
        total += 1
        for check in record.checks:
            if check.verdict != "ok":
                groups.setdefault((check.name, check.verdict), []).append((record, check))
    found = []
    severities: dict[str, Severity] = {"violation": "violation", "warning": "warning"}
    for (name, verdict), entries in groups.items():
        # One example of each kind of message: most differ in their numbers only.
        examples = {_NUMBERS.sub("0", check.message): check.message for _, check in entries}
        said = "; ".join(list(examples.values())[:MAX_MESSAGES])
        if len(examples) > MAX_MESSAGES:
            said += f"; and {count(len(examples) - MAX_MESSAGES, 'more kind')}"
        runs = list(dict.fromkeys(record.run_id for record, _ in entries))
        text = f"{name}: {verdict} in {len(runs)} of {count(total, 'run')}: {said}"
        found.append(Warning(severities.get(verdict, "note"), name, text, runs))
    return found


def _not_there(outcomes: Outcomes) -> list[Warning]:
    """Runs that are planned and in no figure."""
    catalogue, record = outcomes.catalogue, outcomes.record
    planned = len(record.points) * record.repetitions
    found = []
    if catalogue.damaged:
        reasons = "; ".join(f"{run}: {why}" for run, why in list(catalogue.damaged.items())[:5])
        text = f"{count(len(catalogue.damaged), 'run')} cannot be read, in no figure: {reasons}"
        found.append(Warning("violation", "damaged", text, list(catalogue.damaged)))
    failed = [line for line in outcomes.newest if line.status == "failed"]
    if failed:
        counts = Counter(line.reason.split("\n")[0] or "no reason recorded" for line in failed)
        listed = "; ".join(f"{reason} ({n})" for reason, n in counts.most_common(5))
        text = f"{len(failed)} of {planned} planned runs failed, in no figure: {listed}"
        found.append(Warning("warning", "failed", text, [line.run_id for line in failed]))
    missing = outcomes.missing()
    if missing:
        text = (
            f"{len(missing)} of {planned} planned runs missing: "
            "running the experiment again makes them"
        )
        found.append(Warning("warning", "missing", text))
    if catalogue.partial:
        text = (
            f"{count(len(catalogue.partial), 'run')} begun and not finished (under way, or cut off)"
        )
        found.append(Warning("note", "partial", text, catalogue.partial))
    strange = [line.run_id for line in catalogue.lines if line.point_id not in outcomes.index_of]
    if strange:
        text = f"{count(len(strange), 'run')} of configurations that are not planned, in no figure"
        found.append(Warning("warning", "unplanned", text, strange))
    if record.excluded:
        text = (
            f"{count(record.excluded, 'combination')} of the axes excluded by the experiment file"
        )
        found.append(Warning("note", "excluded", text))
    skipped = (record.model_extra or {}).get("skipped")
    if isinstance(skipped, list) and skipped:
        why = Counter(
            str(reason)
            for entry in skipped
            if isinstance(entry, dict)
            for reason in entry.get("reasons", [])
        )
        left_out = count(len(skipped), "configuration")
        text = f"{left_out} left out, not possible: {_counted(why, 'configuration')}"
        found.append(Warning("warning", "skipped", text))
    return found


def _repetitions(outcomes: Outcomes, points: Sequence[PointResult]) -> list[Warning]:
    """Too few values to say anything about their spread."""
    single = [point for point in points if point.ok == 1]
    if not single:
        return []
    some = f"at {count(len(single), 'configuration')}"
    where = "at every configuration" if len(single) == len(points) else some
    text = f"one run {where}: the significance of its differences is unknown"
    ids = {point.point_id for point in single}
    runs = [line.run_id for line in outcomes.counted if line.point_id in ids]
    return [Warning("warning", "one_run", text, runs)]


def _durability(outcomes: Outcomes, levels: Sequence[set[str]]) -> list[Warning]:
    """Volatile or unknown throughout, or not the same within one point."""
    found = []
    mixed = [index for index, seen in enumerate(levels) if len(seen) > 1]
    if mixed:
        named = "; ".join(point_label(outcomes.points[index]) for index in mixed[:5])
        of = count(len(mixed), "configuration")
        text = f"durability was not the same in all runs of {of}: {named}"
        found.append(Warning("violation", "durability", text))
    everywhere = set().union(*levels) if levels else set()
    if everywhere == {"volatile"}:
        text = "all runs were on volatile storage: a confirmed write may be lost with the power"
        found.append(Warning("warning", "durability", text))
    elif everywhere == {"unknown"}:
        text = "whether an fsync reached stable storage is not known for any run"
        found.append(Warning("note", "durability", text))
    return found


def _machine(outcomes: Outcomes) -> list[Warning]:
    """What of the machine was not the same in all runs, but for what an axis set of it."""
    by_machine: dict[str, list[tuple[dict[str, Any], int]]] = {}
    for setup in outcomes.setups:
        facts = scalar_paths(setup.machine)
        for asked, runs in Counter(_machine_asked(outcomes, line) for line in setup.lines).items():
            by_machine.setdefault(asked, []).append((facts, runs))
    changes = []
    for stated in by_machine.values():
        for path in sorted({path for facts, _ in stated for path in facts}):
            seen: Counter[str] = Counter()
            for facts, runs in stated:
                seen[str(facts.get(path, "not stated"))] += runs
            if len(seen) > 1:
                changes.append(f"{path}: {_counted(seen)}")
    return [_changed("the machine", changes)] if changes else []


def _machine_asked(outcomes: Outcomes, line: CatalogueLine) -> str:
    """What axes set of machines at a run's point: a kernel."""
    if line.point_id not in outcomes.index_of:
        return ""
    settings = outcomes.points[outcomes.index_of[line.point_id]].settings
    return repr([(name, value) for name, value in settings.items() if name.startswith(OF_MACHINES)])


def _changed(what: str, changes: Sequence[str]) -> Warning:
    more = f"; {len(changes) - MAX_CHANGES} more" if len(changes) > MAX_CHANGES else ""
    listed = "; ".join(changes[:MAX_CHANGES]) + more
    return Warning("warning", "machine", f"{what} was not the same for all runs: {listed}")


def _disks(outcomes: Outcomes) -> list[Warning]:
    """Facts of one disk that changed; that points use different disks is no change."""
    changes: dict[str, set[str]] = {}
    for setup in outcomes.setups:
        for path, value in scalar_paths(setup.disks).items():
            changes.setdefault(path, set()).add(str(value))
    apart = [
        f"{path}: {' / '.join(sorted(values))}"
        for path, values in sorted(changes.items())
        if len(values) > 1
    ]
    return [_changed("a disk", apart)] if apart else []


def _build(machines: Sequence[SetupInfo]) -> list[Warning]:
    """Figures of a debug build are slow for no reason of the storage's."""
    profiles = {str(scalar_paths(setup.machine).get("nfslab.core.profile")) for setup in machines}
    if profiles <= {"release", "None"}:
        return []
    text = "the core was a debug build: these figures are not to be published"
    return [Warning("violation", "build", text)]


def _places(outcomes: Outcomes) -> list[Warning]:
    """Options in effect that changed between runs of the same point."""
    by_point: dict[str, list[Setup]] = {}
    for setup in outcomes.setups:
        for point_id in {line.point_id for line in setup.lines}:
            by_point.setdefault(point_id, []).append(setup)
    changes: dict[str, set[str]] = {}
    runs: dict[str, None] = {}
    for point_id, setups in by_point.items():
        stated = [scalar_paths(setup.places) for setup in setups]
        for path in sorted({path for one in stated for path in one}):
            values = {str(one.get(path, "not stated")) for one in stated}
            if len(values) > 1:
                changes.setdefault(path, set()).update(values)
                for setup in setups:
                    runs |= dict.fromkeys(
                        line.run_id for line in setup.lines if line.point_id == point_id
                    )
    if not changes:
        return []
    listed = "; ".join(
        f"{path}: {' / '.join(sorted(values))}" for path, values in list(changes.items())[:5]
    )
    text = f"places changed between runs of the same point: {listed}"
    return [Warning("warning", "places", text, list(runs))]


def _page_cache(counted: Sequence[RunRecord]) -> list[Warning]:
    """The page cache was dropped before some runs and not before others, or never."""
    states = Counter(str(r.page_cache["dropped"]) for r in counted if "dropped" in r.page_cache)
    asked = [r for r in counted if (r.parameters.get("limits") or {}).get("drop_page_cache")]
    not_done = [r for r in asked if r.page_cache.get("dropped") == "no"]
    if len(states) > 1:
        text = f"the page cache was not dropped in the same way before all runs: {_counted(states)}"
        return [Warning("warning", "page_cache", text, [r.run_id for r in not_done])]
    if not_done:
        reason = str(not_done[0].page_cache.get("reason") or "no reason recorded")
        text = f"the page cache was not dropped before the runs: {reason}"
        return [Warning("note", "page_cache", text, [r.run_id for r in not_done])]
    return []


def collector_warnings(counted: Sequence[RunRecord]) -> list[Warning]:
    """Collectors that did not work, or that cost enough to disturb."""
    found = []
    for name, entry in collectors(counted).items():
        bad = entry["unavailable"] + entry["failed"]
        partly = entry["incomplete"]
        if not bad and not partly and not entry["ok"]:
            why = "; ".join(entry["reasons"][:MAX_MESSAGES])
            text = f"collector {name} had nothing to watch in any run: {why}"
            found.append(Warning("note", "collector", text))
        if bad:
            why = "; ".join(entry["reasons"][:MAX_MESSAGES]) or "no reason recorded"
            text = f"collector {name} did not work in {bad} of {count(len(counted), 'run')}: {why}"
            runs = [
                record.run_id
                for record in counted
                if any(e.collector == name and e.status in BROKEN for e in record.evidence)
            ]
            severity: Severity = "warning" if entry["failed"] else "note"
            found.append(Warning(severity, "collector", text, runs))
        if partly:
            why = "; ".join(entry["reasons"][:MAX_MESSAGES])
            runs_said = count(len(counted), "run")
            text = f"collector {name} is incomplete in {partly} of {runs_said}: {why}"
            found.append(Warning("warning", "collector", text))
        share = entry["cpu_share"]
        if share is not None and share > COSTLY_CPU_SHARE:
            text = f"collector {name} used {share:.0%} of one CPU: it may have slowed the runs"
            found.append(Warning("warning", "collector", text))
    return found


def call_warnings(counted: Sequence[RunRecord]) -> list[Warning]:
    """Collectors that counted fewer NFS calls than others that watched the same."""
    lacking: dict[str, dict[str, list[str]]] = {}
    for record in counted:
        found = call_counts(record)
        for one in found.missing if found else ():
            lacking.setdefault(one.collector, {}).setdefault(record.run_id, []).append(one.said)
    return [
        Warning(
            "warning",
            "calls",
            f"collector {name} is incomplete in {len(runs)} of {count(len(counted), 'run')}: it "
            f"counted {', '.join(next(iter(runs.values()))[:MAX_MESSAGES])} that others counted",
            list(runs),
        )
        for name, runs in lacking.items()
    ] + _past_rpc(counted)


def _past_rpc(counted: Sequence[RunRecord]) -> list[Warning]:
    """Mounts whose reads and writes no collector of calls can see."""
    past = {record.run_id: past_rpc(record) for record in counted}
    runs = [run_id for run_id, targets in past.items() if targets]
    if not runs:
        return []
    named = ", ".join(sorted({target for targets in past.values() for target in targets}))
    text = (
        f"READ, WRITE and COMMIT of {named} went past RPC in {len(runs)} of "
        f"{count(len(counted), 'run')} (LOCALIO: the server is on the client's machine): the "
        "operations of mountstats, nfsd, rpc, nfs_server and captures have none of them; echo N > "
        "/sys/module/nfs/parameters/localio_enabled before the mount makes them calls"
    )
    return [Warning("warning", "localio", text, runs)]


def _odd_values(outcomes: Outcomes) -> list[Warning]:
    """Values that no mean can hold, negative ones, and missing ones; outliers as a note."""
    found = []
    total = len(outcomes.counted)
    for name, metric in outcomes.metrics.items():
        without = [line.run_id for line in outcomes.counted if name not in line.metrics]
        if without and metric.primary:
            text = f"{len(without)} of {total} runs have no {name}"
            found.append(Warning("warning", "no_value", text, without))
        if metric.better is None:
            continue
        not_finite: list[str] = []
        negative: list[str] = []
        standing_out: list[str] = []
        for index, summary in enumerate(outcomes.summaries(name)):
            if not (summary.not_finite or summary.negative or summary.outliers):
                continue
            runs = _runs_at(outcomes, index)
            not_finite += [runs[i] for i in summary.not_finite if runs[i] not in without]
            negative += [runs[i] for i in summary.negative]
            standing_out += [runs[i] for i in summary.outliers]
        if not_finite:
            text = f"{name} is not a finite number in {count(len(not_finite), 'run')}: left out"
            found.append(Warning("violation", "not_finite", text, not_finite))
        if negative:
            text = f"{name} is negative in {count(len(negative), 'run')} (kept)"
            found.append(Warning("warning", "negative", text, negative))
        if standing_out and name == outcomes.primary:
            text = f"{name} stands out in {count(len(standing_out), 'run')} (shown, never left out)"
            found.append(Warning("note", "outlier", text, standing_out))
    return found


def _modes(outcomes: Outcomes, points: Sequence[PointResult]) -> list[Warning]:
    """Points whose runs of the primary metric fall into two clusters, and which run is in which."""
    if outcomes.primary is None:
        return []
    unit = outcomes.metric(outcomes.primary).unit
    values = dict(
        zip(
            (line.run_id for line in outcomes.counted),
            outcomes.values(outcomes.primary),
            strict=True,
        )
    )
    found = []
    for point in points:
        runs = _runs_at(outcomes, point.index)
        modes = two_modes([values[run] for run in runs])
        if modes is None:
            continue
        said = []
        for mode in (False, True):
            mine = [run for run, higher in zip(runs, modes, strict=True) if higher == mode]
            middle = quantity(statistics.median(values[run] for run in mine), unit)
            said.append(f"{middle} ({', '.join(mine)})")
        text = (
            f"{outcomes.primary} has two modes at {point.label}: {' and '.join(said)}; its median "
            "is one of them by chance, and the interval holds less often than it says"
        )
        found.append(Warning("warning", "two_modes", text, runs))
    return found


def _attempts(outcomes: Outcomes) -> list[Warning]:
    superseded = outcomes.catalogue.superseded()
    if not superseded:
        return []
    text = f"{count(len(superseded), 'run')} made again; only the newest attempt counts"
    return [Warning("note", "attempts", text, [line.run_id for line in superseded])]


def _order(outcomes: Outcomes) -> list[Warning]:
    if outcomes.record.order != "fixed" or len(outcomes.points) < 2:
        return []
    text = "runs were made in a fixed order: what drifts with time cannot be told from the axes"
    return [Warning("note", "order", text)]


def _counted(seen: Counter[str], noun: str = "run") -> str:
    """Such as: 6.1 (16 runs), 6.2 (12 runs)."""
    return ", ".join(f"{value} ({count(n, noun)})" for value, n in seen.most_common(4))


def _runs_at(outcomes: Outcomes, index: int) -> list[str]:
    """Ids of the counted runs of a configuration, in the order in which they are summarised."""
    point_id = outcomes.points[index].point_id
    return [line.run_id for line in outcomes.counted if line.point_id == point_id]
