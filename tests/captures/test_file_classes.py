"""The shipped classes of files, and what is said of a file of classes that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab.captures.file_classes import SHIPPED, read_file_classes
from nfslab.errors import UsageError


def test_shipped_classes_in_their_order() -> None:
    pairs = read_file_classes()
    text = SHIPPED.read_text()
    assert len(pairs) == text.count('"**/')
    assert pairs[0][0] == "removed while open"
    assert ("PostgreSQL WAL", "**/pg_wal/**") in pairs
    # Maps of tables are told apart before tables.
    names = list(dict.fromkeys(name for name, _ in pairs))
    maps = names.index("PostgreSQL free space and visibility maps")
    assert maps < names.index("PostgreSQL tables and indexes")
    assert all(pattern.startswith("**/") for _, pattern in pairs), "a tail would not match"
    # The shipped file is read without the validation that users' files get: it would pass.
    assert read_file_classes(SHIPPED) == pairs


@pytest.mark.parametrize(
    ("content", "word"),
    [
        ("[[class]\n", "not TOML"),
        ('[[class]]\nname = "a"\n', "patterns"),
        ('[[class]]\nname = "a"\npatterns = []\n', "patterns"),
        ('[[class]]\nname = "a"\npatterns = ["*"]\nmore = 1\n', "more"),
        ('classes = "a"\n', "class"),
    ],
)
def test_a_wrong_file_is_refused_in_words(tmp_path: Path, content: str, word: str) -> None:
    file = tmp_path / "classes.toml"
    file.write_text(content)
    with pytest.raises(UsageError) as caught:
        read_file_classes(file)
    assert word in f"{caught.value.what} {caught.value.why}"
    assert caught.value.fix


def test_own_classes(tmp_path: Path) -> None:
    file = tmp_path / "classes.toml"
    file.write_text('[[class]]\nname = "a"\npatterns = ["x", "y"]\n')
    assert read_file_classes(file) == [("a", "x"), ("a", "y")]
    with pytest.raises(UsageError, match="missing"):
        read_file_classes(tmp_path / "missing")
