"""Names of PostgreSQL's files: each file on disk against what the server says of its number."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest
from nfslab.databases.postgres.relations import FORKS, Relation, RelationNames
from nfslab.workloads.pgbench.parameters import PgbenchParameters
from nfslab.workloads.pgbench.workload import PgbenchWorkload

from tests.waiting import until
from tests.workloads.run_context import run_of, scratch_folder

KINDS = {
    "r": "table", "i": "index", "S": "sequence", "t": "TOAST table", "m": "materialised view",
}  # fmt: skip
MADE = """
CREATE TABLE docs (id serial PRIMARY KEY, body text);
INSERT INTO docs (body) SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 900);
CREATE MATERIALIZED VIEW seen AS SELECT id FROM docs;
CREATE SCHEMA "Odd One";
CREATE TABLE "Odd One"."a.b" (x int);
CREATE TABLE parted (x int) PARTITION BY RANGE (x);
CREATE TABLE parted_low PARTITION OF parted FOR VALUES FROM (0) TO (10);
CREATE INDEX parted_x ON parted (x);
INSERT INTO parted VALUES (1);
CREATE TEMPORARY TABLE passing (x int);
VACUUM docs, parted_low
"""


@pytest.fixture(scope="module")
def server() -> Iterator[Any]:
    """A PostgreSQL with pgbench's tables."""
    work = PgbenchWorkload(
        PgbenchParameters(data="disk", transactions=10, settings={"autovacuum": "off"})
    )
    if not work.check().ok:
        pytest.skip(work.check().reason)
    with scratch_folder() as root, run_of(work, root, name="named") as run:
        work.prepare(run.context)
        yield run.context.services.postgres


def until_left(connection: psycopg.Connection[Any], database: str) -> None:
    """The server itself waits 5 s for the processes of connections that were closed."""
    left = "SELECT count(*) FROM pg_stat_activity WHERE datname = %s"
    until(lambda: connection.execute(left, (database,)).fetchone() == (0,))


@pytest.fixture
def made(server: Any) -> Iterator[psycopg.Connection[Any]]:
    """A database of its own with one relation of every kind."""
    with psycopg.connect(server.conninfo, autocommit=True) as outside:
        until_left(outside, "template1")  # names were read there, too
        outside.execute('CREATE DATABASE "Shop.1"')
        with psycopg.connect(server.conninfo, dbname="Shop.1", autocommit=True) as connection:
            for statement in MADE.split(";\n"):
                connection.execute(statement)
            connection.execute("CHECKPOINT")
            yield connection
        until_left(outside, "Shop.1")
        outside.execute('DROP DATABASE "Shop.1"')


def files_of(paths: list[str], plain: str = "PostgreSQL tables and indexes") -> pa.Table:
    return pa.table({"file_id": list(range(len(paths))), "path": paths,
                     "class": [plain] * len(paths)})  # fmt: skip


@pytest.mark.system
def test_every_file_on_disk_has_the_name_that_its_number_has(
    server: Any, made: psycopg.Connection[Any]
) -> None:
    """pg_filenode_relation is another way to ask: from the number to the relation."""
    names = RelationNames(server.conninfo)
    names.read()
    assert names.notes == []
    row = made.execute("SELECT oid FROM pg_database WHERE datname = 'Shop.1'").fetchone()
    assert row is not None
    folder = Path(server.data_directory) / "base" / str(row[0])
    seen = 0
    for path in folder.iterdir():
        match = re.fullmatch(r"(\d+)(?:_(\w+))?(?:\.\d+)?", path.name)
        if match is None:
            assert names.find(str(path)) is None, path
            continue
        truth = made.execute(
            "SELECT c.oid, c.relkind, quote_ident(n.nspname), quote_ident(c.relname) FROM pg_class"
            " c JOIN pg_namespace n ON n.oid = c.relnamespace"
            " WHERE c.oid = pg_filenode_relation(0, %s)",
            (int(match[1]),),
        ).fetchone()
        assert truth is not None
        found = names.find(str(path))
        assert found is not None, path
        relation, fork = found
        assert (relation.oid, relation.kind, fork) == (truth[0], KINDS[truth[1]], match[2] or "")
        assert relation.name == f'"Shop.1".{truth[2]}.{truth[3]}'
        seen += 1
    assert seen > 300


@pytest.mark.system
def test_what_a_class_is_called(server: Any, made: psycopg.Connection[Any]) -> None:
    names = RelationNames(server.conninfo)
    names.read()
    classes = {}
    rows = made.execute(
        "SELECT c.relname, pg_relation_filepath(c.oid) FROM pg_class c "
        "WHERE relname IN ('docs', 'docs_pkey', 'docs_id_seq', 'seen', 'a.b', 'parted_low',"
        " 'parted_low_x_idx', 'pg_class', 'passing') OR oid = (SELECT reltoastrelid FROM pg_class"
        " WHERE relname = 'docs') OR oid = (SELECT indexrelid FROM pg_index WHERE indrelid ="
        " (SELECT reltoastrelid FROM pg_class WHERE relname = 'docs'))"
    ).fetchall()
    paths = [f"/any/where/{path}" for _, path in rows]
    for (name, _), named in zip(rows, names.named(files_of(paths))["class"].to_pylist(),
                                strict=True):  # fmt: skip
        classes[re.sub(r"\d+", "N", name)] = re.sub(r"toast_\d+", "toast_N", named)
    shop = '"Shop.1"'
    assert classes == {
        "docs": f"{shop}.public.docs (table)",
        "docs_pkey": f"{shop}.public.docs_pkey (index of docs)",
        "docs_id_seq": f"{shop}.public.docs_id_seq (sequence)",
        "seen": f"{shop}.public.seen (materialised view)",
        "a.b": f'{shop}."Odd One"."a.b" (table)',
        "parted_low": f"{shop}.public.parted_low (table)",
        "parted_low_x_idx": f"{shop}.public.parted_low_x_idx (index of parted_low)",
        "pg_class": f"{shop}.pg_catalog.pg_class (table)",
        "pg_toast_N": f"{shop}.pg_toast.pg_toast_N (TOAST table of public.docs)",
        "pg_toast_N_index": f"{shop}.pg_toast.pg_toast_N_index (index of TOAST of public.docs)",
        "passing": "PostgreSQL tables and indexes",  # as it was: a temporary one
    }


def path_of(connection: psycopg.Connection[Any], name: str) -> str:
    row = connection.execute("SELECT pg_relation_filepath(%s::regclass)", (name,)).fetchone()
    assert row is not None
    return f"/pg/{row[0]}"


@pytest.mark.system
def test_both_files_of_what_was_built_anew_and_what_came_and_went(
    server: Any, made: psycopg.Connection[Any]
) -> None:
    names = RelationNames(server.conninfo)
    names.read()
    before = path_of(made, "docs_pkey")
    made.execute("CREATE TABLE brief (x int)")
    brief = path_of(made, "brief")
    made.execute("DROP TABLE brief")
    made.execute("REINDEX INDEX docs_pkey")
    made.execute("ALTER INDEX docs_pkey RENAME TO docs_key")
    after = path_of(made, "docs_key")
    assert before != after
    heap = path_of(made, "docs")
    tables = {"files": files_of([before, after, brief, f"{heap}_vm", f"{heap}.1", "/pg/x"])}
    summary: dict[str, Any] = {"notes": ["one"]}
    names.name(tables, summary)
    shop = '"Shop.1".public'
    assert tables["files"]["class"].to_pylist() == [
        f"{shop}.docs_key (index of docs)",  # the file it had before, under its name of now
        f"{shop}.docs_key (index of docs)",
        "PostgreSQL tables and indexes",
        f"{shop}.docs (table, visibility map)",
        f"{shop}.docs (table)",
        "PostgreSQL tables and indexes",
    ]
    assert tables["files"]["fork"].to_pylist()[3:] == ["visibility map", "main", None]
    assert tables["files"]["relation_kind"].to_pylist()[:3] == ["index", "index", None]
    (first, note) = summary["notes"]
    assert first == "one"
    assert note.startswith("1 files of base/ belong to no relation")


def known(*relations: tuple[str, Relation, str]) -> RelationNames:
    names = RelationNames("")
    for entry in relations:
        names._enter(*entry)
    return names


def test_tablespaces_that_number_alike_and_a_number_used_twice() -> None:
    fast, slow, again = (Relation(5, n, f"a.public.t{n}", "table") for n in (10, 11, 12))
    tail = "PG_15_202209061/5/16400"
    names = known((tail, fast, "/ssd/space"), (tail, slow, "/disk/space"),
                  ("base/5/1", fast, ""), ("base/5/1", again, ""))  # fmt: skip
    assert names.find(f"/ssd/space/{tail}") == (fast, "")
    assert names.find(f"/host/disk/space/{tail}_fsm.2") == (slow, "fsm")
    assert names.find(f"/elsewhere/{tail}") is None
    assert names.find("/pg/base/5/1") is None
    assert names.find("/pg/base/5/t3_1") is None
    assert names.find("/pg/database/5/1") is None
    assert set(FORKS) == {"", "fsm", "vm", "init"}


@pytest.mark.system
def test_a_tablespace_of_the_server(server: Any, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = Path(server.data_directory).parent / "space"
    folder.mkdir()
    owner = Path(server.data_directory).stat()
    os.chown(folder, owner.st_uid, owner.st_gid)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        connection.execute(f"CREATE TABLESPACE far LOCATION '{folder}'")
        connection.execute("CREATE TABLE away (x int) TABLESPACE far")
        connection.execute("INSERT INTO away VALUES (1)")
        connection.execute("CHECKPOINT")
        names = RelationNames(server.conninfo)
        names.read()
        found = [
            named[0].name for path in folder.rglob("*")
            if path.is_file() and (named := names.find(str(path))) is not None
        ]  # fmt: skip
        connection.execute("DROP TABLE away")
    assert found == ["postgres.public.away"]


@pytest.mark.system
def test_a_server_that_has_ended_leaves_the_names_that_were_read(server: Any) -> None:
    names = RelationNames(server.conninfo)
    names.read()
    with psycopg.connect(server.conninfo, dbname=server.database) as connection:
        accounts = path_of(connection, "pgbench_accounts")
    names.conninfo = "host='/nowhere' port=5432 dbname=postgres"
    tables = {"files": files_of([accounts])}
    summary: dict[str, Any] = {"notes": []}
    names.name(tables, summary)
    assert tables["files"]["relation"].to_pylist() == [f"{server.database}.public.pgbench_accounts"]
    assert summary["notes"][0].startswith("files made meanwhile have no names: ")


@pytest.mark.parametrize("conninfo", ["", "host='/nowhere' port=5432 dbname=postgres"])
def test_without_a_connection_the_classes_are_the_plain_ones(conninfo: str) -> None:
    names = RelationNames(conninfo)
    names.read()
    tables = {"files": files_of(["/pg/base/5/1"])}
    summary: dict[str, Any] = {"notes": []}
    names.name(tables, summary)
    assert tables["files"]["class"].to_pylist() == ["PostgreSQL tables and indexes"]
    assert tables["files"]["relation"].to_pylist() == [None]
    (note,) = summary["notes"]
    assert note.startswith("tables have no names: ")


@pytest.mark.system
def test_root_asks_as_the_servers_user(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`peer`: the role must be the name of whom the socket says one is."""
    if os.geteuid() != 0:
        pytest.skip("needs root, to become another user")
    from nfslab.machine.users import user_name

    folder = Path(server.data_directory)
    user = user_name(folder.stat().st_uid)
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        row = connection.execute("SHOW hba_file").fetchone()
        assert row is not None
        access = Path(row[0])
        allowed = access.read_text("utf-8")
        superuser = connection.execute("SELECT current_user").fetchone()
        connection.execute(f'CREATE ROLE "{user}" SUPERUSER LOGIN' if (user,) != superuser else "")
        access.write_text("local all all peer\n", "utf-8")
        connection.execute("SELECT pg_reload_conf()")
        try:
            conninfo = psycopg.conninfo.make_conninfo(server.conninfo, user=user)
            refused = RelationNames(conninfo)

            def in_force() -> bool:
                refused.read()
                return bool(refused.notes)

            until(in_force)
            asked = RelationNames(conninfo, folder)
            asked.read()
        finally:
            access.write_text(allowed, "utf-8")
            connection.execute("SELECT pg_reload_conf()")
    assert "tables have no names" in refused.notes[0]
    assert asked.notes == []
    assert os.geteuid() == 0
