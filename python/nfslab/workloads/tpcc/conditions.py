"""The consistency conditions of TPC-C (revision 5.11, clause 3.3.2), asked of the database.

Each query counts the rows at which its condition does not hold, those that are missing among them,
in SQL that every engine knows (MariaDB has no FULL JOIN). Condition 11 holds for the loaded tables
alone: a delivery changes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from nfslab.errors import RunFailed
from nfslab.workloads.tpcc.rows import DELIVERED

if TYPE_CHECKING:
    from nfslab.databases.base import Session

SNAPSHOT: Final = {
    "postgres": ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY",),
    "mariadb": (
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
    ),
}
"""By engine."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One of the twelve."""

    number: int
    holds: str
    violations: str
    """SQL: how many rows contradict it."""
    always: bool = True
    """Also after transactions."""


def _unequal(left: str, right: str, keys: str) -> str:
    """Rows by `keys` whose values differ, or that are on one side only."""
    return (
        f"SELECT count(*) FROM (SELECT {keys} FROM ({left} UNION ALL {right}) AS of_both "
        f"GROUP BY {keys} HAVING count(value) <> 2 OR min(value) <> max(value)) AS differing"
    )


CONDITIONS: Final = (
    Condition(
        1, "W_YTD = sum(D_YTD)",
        _unequal(
            "SELECT w_id AS w, w_ytd AS value FROM warehouse",
            "SELECT d_w_id AS w, sum(d_ytd) AS value FROM district GROUP BY 1",
            "w",
        ),
    ),
    Condition(
        2, "D_NEXT_O_ID - 1 = max(O_ID) = max(NO_O_ID)",
        "SELECT count(*) FROM district "
        "LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o FROM orders GROUP BY 1, 2) AS o "
        "ON (o_w_id, o_d_id) = (d_w_id, d_id) "
        "LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS n FROM new_order GROUP BY 1, 2) AS n "
        "ON (no_w_id, no_d_id) = (d_w_id, d_id) "
        "WHERE o IS NULL OR o <> d_next_o_id - 1 OR n <> d_next_o_id - 1",
    ),
    Condition(
        3, "max(NO_O_ID) - min(NO_O_ID) + 1 = rows of NEW-ORDER",
        "SELECT count(*) FROM (SELECT no_d_id FROM new_order GROUP BY no_w_id, no_d_id "
        "HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)) AS differing",
    ),
    Condition(
        4, "sum(O_OL_CNT) = rows of ORDER-LINE",
        _unequal(
            "SELECT o_w_id AS w, o_d_id AS d, sum(o_ol_cnt) AS value FROM orders GROUP BY 1, 2",
            "SELECT ol_w_id AS w, ol_d_id AS d, count(*) AS value FROM order_line GROUP BY 1, 2",
            "w, d",
        ),
    ),
    Condition(
        5, "O_CARRIER_ID is null where the order is in NEW-ORDER, and only there",
        "SELECT (SELECT count(*) FROM orders LEFT JOIN new_order "
        "ON (no_w_id, no_d_id, no_o_id) = (o_w_id, o_d_id, o_id) "
        "WHERE (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)) + "
        "(SELECT count(*) FROM new_order LEFT JOIN orders "
        "ON (o_w_id, o_d_id, o_id) = (no_w_id, no_d_id, no_o_id) WHERE o_id IS NULL)",
    ),
    Condition(
        6, "O_OL_CNT = rows of ORDER-LINE of the order",
        _unequal(
            "SELECT o_w_id AS w, o_d_id AS d, o_id AS o, o_ol_cnt AS value FROM orders",
            "SELECT ol_w_id AS w, ol_d_id AS d, ol_o_id AS o, count(*) AS value FROM order_line "
            "GROUP BY 1, 2, 3",
            "w, d, o",
        ),
    ),
    Condition(
        7, "OL_DELIVERY_D is null where O_CARRIER_ID is, and only there",
        "SELECT count(*) FROM order_line LEFT JOIN orders "
        "ON (o_w_id, o_d_id, o_id) = (ol_w_id, ol_d_id, ol_o_id) "
        "WHERE o_id IS NULL OR (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    ),
    Condition(
        8, "W_YTD = sum(H_AMOUNT)",
        _unequal(
            "SELECT w_id AS w, w_ytd AS value FROM warehouse",
            "SELECT h_w_id AS w, sum(h_amount) AS value FROM history GROUP BY 1",
            "w",
        ),
    ),
    Condition(
        9, "D_YTD = sum(H_AMOUNT)",
        _unequal(
            "SELECT d_w_id AS w, d_id AS d, d_ytd AS value FROM district",
            "SELECT h_w_id AS w, h_d_id AS d, sum(h_amount) AS value FROM history GROUP BY 1, 2",
            "w, d",
        ),
    ),
    Condition(
        10, "C_BALANCE = sum(OL_AMOUNT) of delivered orders - sum(H_AMOUNT)",
        _unequal(
            "SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance AS value FROM customer",
            "SELECT w, d, c, sum(value) AS value FROM ("
            "SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, ol_amount AS value FROM orders "
            "JOIN order_line ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) "
            "WHERE ol_delivery_d IS NOT NULL UNION ALL "
            "SELECT h_c_w_id, h_c_d_id, h_c_id, -h_amount FROM history) AS moved GROUP BY 1, 2, 3",
            "w, d, c",
        ),
    ),
    Condition(
        11, f"rows of ORDER - rows of NEW-ORDER = {DELIVERED} in each district",
        _unequal(
            f"SELECT d_w_id AS w, d_id AS d, {DELIVERED} AS value FROM district",
            "SELECT w, d, sum(value) AS value FROM ("
            "SELECT o_w_id AS w, o_d_id AS d, 1 AS value FROM orders UNION ALL "
            "SELECT no_w_id, no_d_id, -1 FROM new_order) AS counted GROUP BY 1, 2",
            "w, d",
        ),
        always=False,
    ),
    Condition(
        12, "C_BALANCE + C_YTD_PAYMENT = sum(OL_AMOUNT) of delivered orders",
        _unequal(
            "SELECT c_w_id AS w, c_d_id AS d, c_id AS c, c_balance + c_ytd_payment AS value "
            "FROM customer",
            "SELECT w, d, c, sum(value) AS value FROM ("
            "SELECT o_w_id AS w, o_d_id AS d, o_c_id AS c, ol_amount AS value FROM orders "
            "JOIN order_line ON (ol_w_id, ol_d_id, ol_o_id) = (o_w_id, o_d_id, o_id) "
            "WHERE ol_delivery_d IS NOT NULL UNION ALL "
            "SELECT c_w_id, c_d_id, c_id, 0 FROM customer) AS delivered GROUP BY 1, 2, 3",
            "w, d, c",
        ),
    ),
)  # fmt: skip


def violations(session: Session, engine: str, *, loaded: bool) -> dict[int, int]:
    """Condition -> rows that contradict it, of all that have to hold now; in one snapshot."""
    for statement in SNAPSHOT[engine]:
        session.rows(statement)
    found = {
        condition.number: int(session.rows(condition.violations)[0][0])
        for condition in CONDITIONS
        if loaded or condition.always
    }
    session.rows("COMMIT")
    return found


def told(found: dict[int, int]) -> str:
    """Those that do not hold, in words; empty: all hold."""
    holds = {condition.number: condition.holds for condition in CONDITIONS}
    return "; ".join(
        f"3.3.2.{number} ({holds[number]}): {rows} rows" for number, rows in found.items() if rows
    )


def require(found: dict[int, int]) -> None:
    """RunFailed where one does not hold of tables that were just loaded."""
    if broken := told(found):
        raise RunFailed(
            "the loaded tables are not those of TPC-C",
            why=broken,
            fix="see what storage the tables were loaded on: it has lost or changed rows",
        )
