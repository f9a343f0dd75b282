"""`nfslab compare`: base against new, for people and for scripts."""

from __future__ import annotations

import dataclasses
import sys
from typing import TYPE_CHECKING, Any

import click

from nfslab.cli.arguments import print_json
from nfslab.display.numbers import p_value, quantity
from nfslab.display.terminal import printable, table
from nfslab.errors import UsageError

if TYPE_CHECKING:
    from nfslab.results.comparison import SelectionComparison
    from nfslab.results.thresholds import Judgement

MAX_POINTS_SHOWN = 200
"""Rows of a table; --json gives all. What is judged by --fail-if is judged at all points."""


@click.command(
    "compare",
    epilog="""\b
Examples:
  nfslab compare results/nightly-1a2b3c4d results/nightly-5e6f7a8b
  nfslab compare results/wal-1a2b3c4d:placement=together "results/wal-1a2b3c4d:placement=log apart"
  nfslab compare BASE NEW --fail-if "tps < -5%" --fail-if "latency_p99_ms > 10%"

\b
BASE and NEW are an experiment's folder, or a selection: DIR:factor=value,factor=value (an
axis by its name, or a parameter). They are paired by the axes that both sides have.

\b
--fail-if "METRIC < -N%" (or "METRIC > N%") fires at a configuration when the change in that
direction is shown, after correction for their number, and the estimated change is
beyond the limit. It is inconclusive where nothing is shown and a change as large as the limit
was not detectable (80 % power). Exit code: 1 when a condition fires; else 3 when one is
inconclusive (0 or 1 with --if-inconclusive pass or fail); else 0.
""",
)
@click.argument("base")
@click.argument("new")
@click.option("--metric", "metrics", multiple=True, help="Instead of the primary metric (again).")
@click.option(
    "--fail-if", "conditions", multiple=True, metavar="CONDITION", help='Such as "tps < -5%".'
)
@click.option(
    "--if-inconclusive",
    type=click.Choice(["pass", "fail"]),
    help="Exit with 0 or 1 instead of 3 where a condition is inconclusive.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    base: str,
    new: str,
    metrics: tuple[str, ...],
    conditions: tuple[str, ...],
    if_inconclusive: str | None,
    as_json: bool,
) -> None:
    """Compare the results NEW with the results BASE."""
    from nfslab.results.comparison import compare_selections
    from nfslab.results.selection import parse_two
    from nfslab.results.thresholds import MAX_CONDITIONS, exit_code, judge, parse_condition

    if len(conditions) > MAX_CONDITIONS:
        raise UsageError(
            f"more than {MAX_CONDITIONS} conditions",
            fix="compare twice, with some of them each time",
        )
    parsed = [parse_condition(text) for text in conditions]
    sides = parse_two(base, new)
    asked = [*metrics, *(condition.metric for condition in parsed)]
    comparison = compare_selections(*sides, asked or None)
    judgements = [j for condition in parsed for j in judge(condition, comparison)]
    code = exit_code(judgements, if_inconclusive)
    if as_json:
        _print_json(comparison, judgements, code)
    else:
        _print(comparison, judgements)
    if code:
        sys.exit(code)


def _print_json(comparison: SelectionComparison, judgements: list[Judgement], code: int) -> None:
    content: dict[str, Any] = comparison.as_dict()
    content["conditions"] = [dataclasses.asdict(judgement) for judgement in judgements]
    content["exit_code"] = code
    print_json(content)


def _print(comparison: SelectionComparison, judgements: list[Judgement]) -> None:
    for line in (comparison.emulated_line, comparison.durability_line):
        if line:
            click.echo(f"{printable(line)}\n")
    how = (
        "one experiment, paired by block"
        if comparison.paired_by_block
        else "two experiments, not paired: drift between them counts as a difference"
    )
    click.echo(f"baseline  {comparison.base_label}\nnew       {comparison.new_label}\n({how})")
    for metric in comparison.metrics:
        _print_metric(comparison, metric)
    for side, labels in (("baseline", comparison.base_only), ("new", comparison.new_only)):
        if labels:
            click.echo(f"\nonly in {side} ({len(labels)}): {'; '.join(labels[:10])}")
    _print_differences(comparison)
    for note in comparison.notes:
        click.echo(f"note: {note}")
    _print_judgements(judgements)


def _print_metric(comparison: SelectionComparison, metric: str) -> None:
    from nfslab.statistics.effect_text import change, change_interval, words

    unit = comparison.units[metric]
    header = ["configuration", "n", "baseline", "new", "new/baseline", "interval", "p (Holm)"]
    header += ["result"]
    shown = list(zip(comparison.points, comparison.results[metric], strict=True))
    rows = [
        [
            point.label,
            f"{result.n_base}, {result.n_new}",
            quantity(result.base, unit),
            quantity(result.new, unit),
            change(result),
            change_interval(result),
            p_value(result.p_adjusted),
            words(result),
        ]
        for point, result in shown[:MAX_POINTS_SHOWN]
    ]
    click.echo(f"\n{metric}")
    click.echo(table(header, rows, right=(2, 3, 4)))
    left = len(shown) - len(rows)
    if left:
        click.echo(f"({left} more configurations: --json has all)")
    notes = dict.fromkeys(note for _, result in shown for note in result.notes)
    for note in list(notes)[:10]:
        click.echo(f"note: {note}")


def _print_differences(comparison: SelectionComparison) -> None:
    for title, none, found in (
        (
            "what else differs",
            "no other parameter, option in effect, version or fact of the machine differs",
            comparison.differences,
        ),
        (
            "checks that are not ok",
            "no check of the compared runs is other than ok",
            comparison.checks,
        ),
    ):
        click.echo(f"\n{title if found else none}")
        if found:
            rows = [[item.what, item.base, item.new] for item in found]
            click.echo(table(["", "baseline", "new"], rows))


def _print_judgements(judgements: list[Judgement]) -> None:
    """Every condition that does not simply hold; those that hold in one line each."""
    holding: dict[str, int] = {}
    for judgement in judgements:
        if judgement.outcome == "holds" and len(judgements) > 20:
            holding[judgement.condition] = holding.get(judgement.condition, 0) + 1
            continue
        word = {"fires": "FAILS", "holds": "ok", "inconclusive": "INCONCLUSIVE"}
        click.echo(
            f"\n{word[judgement.outcome]}: {judgement.condition} at {judgement.point}: "
            f"{judgement.reason}",
            nl=False,
        )
    for condition, points in holding.items():
        click.echo(f"\nok: {condition} at {points} configurations", nl=False)
    if judgements:
        click.echo()
