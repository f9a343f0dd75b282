"""The shipped classes of files, and what is said of a file of classes that is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from nfslab._core import classify_paths
from nfslab.errors import UsageError
from nfslab.storage.file_classes import SHIPPED, read_file_classes


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


OF_MARIADB = {
    "InnoDB redo log": ["ib_logfile0", "ib_logfile101", "#innodb_redo/#ib_redo7"],
    "InnoDB doublewrite": ["#ib_16384_0.dblwr", "#ib_16384_1.bdblwr"],
    # MariaDB's doublewrite buffer is in it.
    "InnoDB system tablespace": ["ibdata1", "ibdata2"],
    "MariaDB binary and relay logs": [
        "binlog.000001", "binlog.index", "binlog.state", "binlog.~rec~", "mysql-bin.000017",
        "mariadb-bin.state", "db1-bin.~rec~", "db1-relay-bin.000002", "db1-relay-bin.index",
    ],
    "InnoDB undo": ["undo001", "undo_001", "undo_003.ibu"],
    # ALTER TABLE makes a table anew under the last three names, and it stays.
    "InnoDB data": [
        "shop/orders.ibd", "shop/orders#P#p0.ibd", "mysql/innodb_table_stats.ibd",
        "shop/#sql-alter-6e8b-5.ibd", "shop/#sql-backup-6e8b-5.ibd", "shop/#sql-ib20.ibd",
    ],
    "MariaDB temporary": [
        "ibtmp1", "#innodb_temp/temp_1.ibt", "#sql-temptable-6e8b-5-1.MAI",
        "#sql-temptable-6e8b-5-1.MAD", "#sql_6e8b_0.MYD", "shop/#sql-alter-6e8b-5.frm",
    ],
    "Aria log": ["aria_log.00000001", "aria_log_control"],
    "Aria and MyISAM tables": ["mysql/user.MAD", "mysql/db.MAI", "shop/old.MYD", "shop/old.MYI"],
    "MariaDB other": [
        "ib_buffer_pool", "ib_buffer_pool.incomplete", "ddl_recovery.log", "tc.log",
        "ddl_recovery-backup.log", "multi-master.info", "master.info", "relay-log.info",
        "master-eu.info", "relay-log-eu.info", "mysql_upgrade_info", "mariadb_upgrade_info",
        "db1.lower-test", "shop/db.opt", "shop/orders.frm", "sys/session.frm~", "shop/pt.par",
        "shop/orders.TRG", "shop/orders.TRG~", "shop/new.TRN~", "shop/far.isl",
        "mysql/general_log.CSM", "mysql/general_log.CSV", "mysql/slow_log.CSV",
    ],
    "logs": ["db1.err", "db1-slow.log", "db1.log"],
    "temporary, without a name": ["#9978622"],
}  # fmt: skip


def test_files_of_mariadb_and_mysql() -> None:
    pairs = read_file_classes()
    for name, files in OF_MARIADB.items():
        for folder in ("/var/lib/mysql/", ".../"):
            paths = [folder + file for file in files]
            found = dict(zip(paths, classify_paths(paths, pairs), strict=True))
            assert found == dict.fromkeys(paths, name)


def test_what_only_looks_like_mariadbs_has_no_class_of_it() -> None:
    paths = ["/srv/DATA.CSV", "/etc/x.cfg", "/srv/#notes#", "/srv/app-binary", "/srv/undone"]
    assert classify_paths(paths, read_file_classes()) == [None] * len(paths)


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


def test_files_of_the_workload_web() -> None:
    pairs = read_file_classes()
    documents = ["/srv/file_set/dir00012/class3_9", ".../class0_1"]
    assert classify_paths(documents, pairs) == ["web document"] * 2
    others = ["/srv/file_set/dir00012/class4_1", "/srv/file_set/dir12/class0_0", "/var/log/a.log"]
    assert classify_paths(others, pairs) == [None, None, "logs"]
    logs = ["/mnt/x/web_logs/access.log", "/mnt/x/web_logs/posts.log"]
    assert classify_paths(logs, pairs) == ["web log", "web log of POSTs"]
