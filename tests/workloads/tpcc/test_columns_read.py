"""docs/tpcc.md lists which columns that clause 2.4.2.2 of TPC-C has read are not read."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TPCC = ROOT / "python/nfslab/workloads/tpcc"
NEW_ORDER = {
    "W_TAX", "D_TAX", "D_NEXT_O_ID", "C_DISCOUNT", "C_LAST", "C_CREDIT", "I_PRICE", "I_NAME",
    "I_DATA", "S_QUANTITY", "S_DATA",
}  # fmt: skip


def unread_as_documented(begins: str, ends: str) -> set[str]:
    text = " ".join((ROOT / "docs/tpcc.md").read_text().split())
    (said,) = re.findall(re.escape(begins) + r"(.*?)" + re.escape(ends), text, re.DOTALL)
    return set(re.findall(r"[A-Z]_[A-Z_]+", said))


@pytest.mark.parametrize(
    "file", ["postgres/sql/procedures.sql", "mariadb/procedures/new_order.sql"]
)
def test_a_new_order_reads_all_but_what_the_documentation_lists(file: str) -> None:
    text = (TPCC / file).read_text().partition("CREATE PROCEDURE tpcc_new_order")[2]
    body = text.partition("CREATE ")[0].upper()
    unread = {name for name in NEW_ORDER if not re.search(rf"\b{name}\b", body)}
    assert unread == unread_as_documented("A new order reads no", "(clause 2.4.2.2)")


def test_so_it_does_as_statements() -> None:
    body = (TPCC / "postgres/sql/statements/new_order.sql").read_text().upper()
    unread = {name for name in NEW_ORDER if not re.search(rf"\b{name}\b", body)}
    assert unread == unread_as_documented('as `"statements"` no', ".") == {"S_DATA"}
