"""Every kind of mistake is told with its line and with what would be right.

The lines asserted here were counted in the texts by hand (or by searching the text), never
taken from the reader.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from nfslab.errors import UsageError
from nfslab.experiment.explain import validate
from nfslab.experiment.problems import InvalidExperiment
from nfslab.experiment.reading import read_experiment
from pydantic import BaseModel

if TYPE_CHECKING:
    from collections.abc import Callable

    Write = Callable[..., Path]


def problems_of(path: Path, *settings: str) -> dict[str, str]:
    """ "line or option: what" -> fix, of a file that must not validate."""
    with pytest.raises(InvalidExperiment) as caught:
        read_experiment(path, settings)
    return {f"{p.where.removeprefix(f'{path}:')}: {p.what}": p.fix for p in caught.value.problems}


def line_of(path: Path, text: str) -> int:
    """The number of the one line that holds `text`."""
    (number,) = (n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)
    return number


def test_a_good_file_is_read(experiment_file: Write) -> None:
    experiment = read_experiment(experiment_file())
    assert [point.label() for point in experiment.points] == [
        "data=one clients=1",
        "data=one clients=2",
        "data=one clients=4",
        "data=two clients=1",
        "data=two clients=2",
        "data=two clients=4",
    ]
    assert experiment.warnings == []
    first = experiment.points[0]
    assert first.settings == {"workload.data": "one", "workload.clients": 1}
    # Defaults are filled in, and what an axis sets names its axis in the whole file.
    assert first.setup.resolved()["workload"]["size"] == 1 << 20
    assert experiment.resolved["workload"]["clients"] == {"axis": "clients"}
    assert experiment.resolved["limits"]["run_s"] == 1800.0


def test_every_problem_is_told_at_once_and_in_order(tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_text(
        "[experiment]\n"  # 1
        'name = "Bad Name"\n'  # 2
        "reptitions = 3\n"  # 3
        'collectors = ["wacher"]\n'  # 4
        "[limits]\n"  # 5
        'run_s = "10 parsecs"\n'  # 6
        "[targets.disk]\n"  # 7
        'kind = "foldr"\n'  # 8
        "[targets.other]\n"  # 9
        'kind = "folder"\n'  # 10
        "path = 7\n"  # 11
        "[workload]\n"  # 12
        'kind = "formula"\n'  # 13
        'data = "othr"\n'  # 14
        "clients = true\n"  # 15
        "[[axes]]\n"  # 16
        'parameter = "workload.cliens"\n'  # 17
        "values = [1]\n"  # 18
        "[wrkload]\n"  # 19
        "x = 1\n"  # 20
    )
    problems = problems_of(path)
    lines = [int(key.partition(":")[0]) for key in problems]
    assert lines == sorted(lines) == [2, 3, 4, 6, 8, 11, 15, 17, 19]
    by_line = dict(zip(lines, problems.items(), strict=True))
    assert "'repetitions'?" in by_line[3][1]
    assert "'watcher'?" in by_line[4][1]
    assert "'folder'?" in by_line[8][1]
    assert "not a text" in by_line[11][0]
    assert "not a whole number" in by_line[15][0]
    assert "clients = 8" in by_line[15][1]
    assert "'workload.clients'?" in by_line[17][1]
    assert "'workload'?" in by_line[19][1]


def test_a_role_that_names_no_target(experiment_file: Write) -> None:
    path = experiment_file(('values = ["one", "two"]', 'values = ["one", "tow"]'))
    problems = problems_of(path)
    ((key, fix),) = problems.items()
    assert key.startswith(f"{line_of(path, 'tow')}: axis data: ")
    assert "'two'?" in fix


def test_an_axis_value_that_its_parameter_refuses(experiment_file: Write) -> None:
    path = experiment_file(("values = [1, 2, 4]", "values = [\n  1,\n  2000,\n]"))
    ((key, fix),) = problems_of(path).items()
    assert key.startswith(f"{line_of(path, '2000')}: axis clients: clients = 2000 ")
    assert fix == "at most 64"


def test_a_combination_that_cannot_be_names_its_first_point(experiment_file: Write) -> None:
    path = experiment_file(('data = "one"', 'data = "one"\nstyle = "fancy"'))
    ((key, _),) = problems_of(path).items()
    assert key.startswith(f"{line_of(path, '[workload]')}: ")
    assert "fancy" in key
    assert 'data="one", clients=1' in key


def test_an_excluded_combination_is_none(experiment_file: Write) -> None:
    path = experiment_file(('data = "one"', 'data = "one"\nstyle = "fancy"'))
    path.write_text(path.read_text() + "[[exclude]]\nclients = 1\n")
    assert len(read_experiment(path).points) == 4


@pytest.mark.parametrize(
    ("axis", "what"),
    [
        ("values = [1]", "either parameter or parameters"),
        ('parameter = "workload.size"\nvalues = []', "at least 1"),
        ('parameter = "workload.size"\nvalues = [1, 2, 1]', "stands twice"),
        ('parameter = "workload.size"\nvalues = [1]\nlabels = ["a", "b"]', "2 labels for 1"),
        ('parameter = "workload.size"\nvalues = [1, 2]\nlabels = ["a", "a"]', "stands twice"),
        ('parameter = "workload.clients"\nname = "c"\nvalues = [1]', "set by axis 'clients'"),
        ('parameter = "workload.size"\nname = "clients"\nvalues = [1]', "a second axis named"),
        ('parameter = "targets.one.kind"\nvalues = ["folder"]', "cannot be an axis"),
        ('parameters = ["workload.size", "workload.fail"]\nvalues = [[1, ""]]', "needs a name"),
        (
            'name = "z"\nparameters = ["workload.size", "workload.log"]\n'
            'values = [[1, "one"], [2]]',
            "where 2 parameters are set together",
        ),
        ('parameter = "workload.size"\nvalues = [1]\nlable = 3', "unknown parameter 'lable'"),
    ],
)
def test_wrong_axes(experiment_file: Write, axis: str, what: str) -> None:
    path = experiment_file()
    first = len(path.read_text().splitlines()) + 1
    path.write_text(path.read_text() + f"[[axes]]\n{axis}\n")
    problems = problems_of(path)
    assert [key for key in problems if what in key], problems
    assert all(int(key.partition(":")[0]) >= first for key in problems)


@pytest.mark.parametrize(
    ("rule", "what", "fix"),
    [
        ("client = 1", "neither an axis nor a parameter", "did you mean 'clients'?"),
        ("clients = 3", "is no level of axis 'clients'", "levels: 1, 2, 4"),
        ('data = "tow"', "is no level of axis 'data'", "'two'?"),
        ("clients = true", "is no level", "levels"),
        ('"workload.size" = 5', "the rule matches nothing", "make the parameter an axis"),
        ("", "would leave out all", ""),
    ],
)
def test_wrong_exclude_rules(experiment_file: Write, rule: str, what: str, fix: str) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + f"[[exclude]]\n{rule}\n")
    ((key, said),) = problems_of(path).items()
    assert what in key
    assert fix in said


def test_excluding_everything_is_told(experiment_file: Write) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + "[[exclude]]\nclients = [1, 2, 4]\n")
    assert any("no configuration is left" in key for key in problems_of(path))


@pytest.mark.parametrize(
    ("slip", "what"),
    [
        ('data = "on"', '[workload] data = "on" is no target of this file'),
        ("clients = 0", "[workload] clients = 0 is too small"),
    ],
)
def test_what_an_axis_replaces_is_checked_too(experiment_file: Write, slip: str, what: str) -> None:
    """Nobody sees a slip that no point has: another parameter may have been meant."""
    path = experiment_file(('data = "one"', f'{slip}\nsize = "1M"'))
    assert set(problems_of(path)) == {f"{line_of(path, slip)}: {what}"}


def test_a_rule_that_has_nothing_left_to_exclude_is_a_warning(experiment_file: Write) -> None:
    path = experiment_file()
    path.write_text(
        path.read_text() + '[[exclude]]\nclients = 1\n[[exclude]]\nclients = 1\ndata = "two"\n'
    )
    assert len(read_experiment(path).points) == 4
    path.write_text(path.read_text() + "[targets.spare]\nkind = 'folder'\n")
    (warning,) = read_experiment(path).warnings
    assert "'spare'" in warning.what


def test_too_many_points_are_refused_before_they_are_made(experiment_file: Write) -> None:
    path = experiment_file()
    many = ", ".join(str(n) for n in range(1, 999))
    path.write_text(
        path.read_text()
        + f'[[axes]]\nparameter = "workload.size"\nvalues = [{many}]\n'
        + f'[[axes]]\nparameter = "workload.estimate"\nvalues = [{many}]\n'
    )
    ((key, _),) = problems_of(path).items()
    assert f"{6 * 998 * 998} configurations" in key


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("[experiment]\nname = x\n", 2, "Invalid value"),
        ("[experiment\n", 1, "Expected ']'"),
        ('[experiment]\nname = "a"\nname = "b"\n', 3, "Cannot overwrite"),
        ("[experiment]\nname = 2001-01-01\n", 2, "a date"),
        ("a = [1,\n", 2, ""),
    ],
)
def test_malformed_toml_names_the_line(tmp_path: Path, text: str, line: int, what: str) -> None:
    path = tmp_path / "broken.toml"
    path.write_text(text)
    with pytest.raises(UsageError) as caught:
        read_experiment(path)
    assert caught.value.what.startswith(f"{path}:{line}: ")
    assert what.lower() in str(caught.value).lower()
    assert caught.value.exit_code == 2


def test_files_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        read_experiment(tmp_path / "missing.toml")
    with pytest.raises(UsageError, match="is a folder"):
        read_experiment(tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"[experiment]\nname = '\xff'\n")
    with pytest.raises(UsageError, match=r":2: not valid UTF-8"):
        read_experiment(binary)
    empty = tmp_path / "empty.toml"
    empty.write_text("")
    assert len(problems_of(empty)) == 3  # the sections that must be there


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("targets", 'targets = "disk"\n[experiment]\nname="x"\n[workload]\nkind="formula"\n'),
        ("workload", 'workload = 1\n[experiment]\nname="x"\n[targets.a]\nkind="folder"\n'),
        ("axes", "axes = 3\n"),
        ("exclude", "exclude = 3\n"),
        ("limits", "limits = 3\n"),
        ("collectors", "collectors = 3\n"),
        ("experiment", "experiment = 3\n"),
        ("reference", "reference = 3\n"),
        ("client", "client = 3\n"),
    ],
)
def test_sections_of_the_wrong_shape(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / "shape.toml"
    path.write_text(text)
    assert any(f"{name} is not a" in key for key in problems_of(path))


def test_set_changes_one_call(experiment_file: Write) -> None:
    path = experiment_file()
    changed = read_experiment(
        path,
        [
            "workload.size=8k",
            "axes.clients=[3]",
            "limits.run_s=5m",
            'workload.settings."a.b"="x y"',
            "experiment.title=two words",
        ],
    )
    assert [point.factors["clients"] for point in changed.points] == [3, 3]
    resolved = changed.points[0].setup.resolved()
    assert resolved["workload"]["size"] == 8192
    assert resolved["limits"]["run_s"] == 300.0
    assert resolved["workload"]["settings"] == {"a.b": "x y"}
    assert changed.section.title == "two words"
    assert read_experiment(path).identity != changed.identity


@pytest.mark.parametrize(
    ("setting", "what"),
    [
        ("workload.size", "no value"),
        ("=3", "no value"),
        ("wrkload.size=1", "'workload'?"),
        ("workload=1", "name a parameter"),
        ("axes.client=[1]", "did you mean axes.clients?"),
        ("workload.size=[1", "not a valid TOML value"),
        ("workload.size.x.y=1", ""),
        ("a b=1", "not a valid key"),
    ],
)
def test_wrong_options_name_the_option(experiment_file: Write, setting: str, what: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_experiment(experiment_file(), [setting])
    assert "--set" in str(caught.value)
    assert what in str(caught.value)


def test_a_wrong_value_of_an_option_is_the_options(experiment_file: Write) -> None:
    path = experiment_file()
    assert next(iter(problems_of(path, "workload.size=lots"))).startswith("--set workload.size")
    keys = problems_of(path, "workload.clients=2")
    ((key, fix),) = keys.items()
    assert re.match(r"--set workload.clients: .*'clients'", key)
    assert "axes.clients" in fix
    with pytest.raises(InvalidExperiment, match="--repetitions: repetitions = 0"):
        read_experiment(path, repetitions=0)


def test_values_never_become_several_keys(experiment_file: Write) -> None:
    """A line break in a value must not smuggle a second key into the file."""
    with pytest.raises(UsageError, match="one value is expected"):
        read_experiment(experiment_file(), ["workload.size=1\nfail='defect'"])


def test_relative_paths_belong_to_the_file(
    experiment_file: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    places = f'path = "{tmp_path / "places"}"'
    path = experiment_file(
        (
            f'[targets.one]\nkind = "folder"\n{places}',
            '[targets.one]\nkind = "folder"\npath = "places"',
        )
    )
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    monkeypatch.setenv("HOME", str(tmp_path))

    def place(*settings: str) -> str:
        target = read_experiment(path, settings).points[0].setup.targets["one"]
        return str(target.parameters.model_dump()["path"])

    assert place() == str(tmp_path / "places")
    assert place("targets.one.path=x") == str(elsewhere / "x")
    assert place("targets.one.path=~/y") == str(tmp_path / "y")


def test_points_that_do_not_differ_are_told(experiment_file: Write) -> None:
    path = experiment_file()
    path.write_text(
        path.read_text() + '[[axes]]\nparameter = "targets.two.chunk"\nvalues = ["4k", "8k"]\n'
    )
    (warning,) = read_experiment(path).warnings
    assert warning.what.startswith("3 configurations repeat others")


def test_axis_records_hold_what_was_written_and_what_was_understood(
    experiment_file: Write,
) -> None:
    path = experiment_file()
    path.write_text(
        path.read_text()
        + '[[axes]]\nparameter = "workload.size"\nvalues = ["8k", "1M"]\nscale = "linear"\n'
        + '[[axes]]\nparameter = "limits.run_s"\nvalues = ["10m", 900]\n'
        + '[[axes]]\nname = "z"\nparameters = ["workload.fail", "workload.log"]\n'
        + 'values = [["", "one"], ["defect", "two"]]\n'
    )
    data, clients, size, run_s, zipped = read_experiment(path).axis_records
    assert (data.numeric, clients.numeric, size.numeric, zipped.numeric) == (
        False,
        True,
        True,
        False,
    )
    assert (size.levels, size.values, size.unit) == (["8k", "1M"], [[8192], [1048576]], "bytes")
    assert (run_s.values, run_s.unit) == ([[600.0], [900.0]], "s")
    assert (size.model_extra or {})["scale"] == "linear"
    assert zipped.levels == [" / one", "defect / two"]
    assert zipped.parameters == ["workload.fail", "workload.log"]


def test_an_example_is_one_that_the_parameter_takes() -> None:
    """`argv = [1, 2]` was offered for a list of texts, and would have been the next mistake."""

    class Words(BaseModel):
        words: list[str]
        more: tuple[str, ...] = ()
        numbers: list[int] = []

    told: dict[str, str] = {}
    given = {"more": "dd", "numbers": "1"}
    assert validate(Words, given, lambda path, _what, fix: told.update({path[-1]: fix})) is None
    assert told == {
        "words": 'add: words = ["..."]',
        "more": 'for example: more = ["..."]',
        "numbers": "for example: numbers = [1, 2]",
    }


if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

GOOD = """
[reference]
table = "sfs_heavy_load_1999"
metric = { achieved_ops_per_s = "rate_per_s" }
match = { server_threads = "clients", clients = "workload.size" }
"""


def test_a_good_reference(experiment_file: Callable[..., Path]) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + GOOD)
    assert read_experiment(path).reference["table"] == "sfs_heavy_load_1999"


@pytest.mark.parametrize(
    ("old", "new", "what", "fix"),
    [
        ("load_1999", "load_99", "no published table", "did you mean 'sfs_heavy_load_1999'?"),
        ("achieved_ops", "achievd_ops", "no column 'achievd_ops_per_s'", "'achieved_ops_per_s'"),
        ("server_threads", "server_thread", "no column", "did you mean 'server_threads'?"),
        ('"clients"', '"client"', "neither an axis nor a parameter", "axes: data, clients"),
        ("table =", "tabel =", "unknown parameter 'tabel'", "did you mean 'table'?"),
    ],
)
def test_wrong_references(
    experiment_file: Callable[..., Path], old: str, new: str, what: str, fix: str
) -> None:
    path = experiment_file()
    path.write_text(path.read_text() + GOOD.replace(old, new))
    with pytest.raises(InvalidExperiment) as caught:
        read_experiment(path)
    told = [p for p in caught.value.problems if what in p.what]
    assert told, caught.value
    assert fix in told[0].fix
