"""The nine tables on MariaDB: filled by LOAD DATA in the order of their keys, checked."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab.workloads.tpcc import conditions, rows
from nfslab.workloads.tpcc.mariadb.files import definition, procedures, text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nfslab.databases.mariadb.database import MariadbSession

AS_THEY_ARE: Final = ""
COLUMNS: Final = {
    "customer": "(c_id, c_d_id, c_w_id, c_first, c_middle, c_last, c_street_1, c_street_2, c_city, "
    "c_state, c_zip, c_phone, @since, c_credit, c_credit_lim, c_discount, c_balance, "
    "c_ytd_payment, c_payment_cnt, c_delivery_cnt, c_data) SET c_since = LEFT(@since, 19)",
    "history": "(h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, @date, h_amount, h_data) "
    "SET h_date = LEFT(@date, 19)",
    "orders": "(o_id, o_d_id, o_w_id, o_c_id, @entry, @carrier, o_ol_cnt, o_all_local) "
    "SET o_entry_d = LEFT(@entry, 19), o_carrier_id = NULLIF(@carrier, '')",
    "order_line": "(ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, @delivery, "
    "ol_quantity, ol_amount, ol_dist_info) SET ol_delivery_d = NULLIF(LEFT(@delivery, 19), '')",
}
"""Of tables with dates (without their zone, UTC) or missing values."""


@dataclass(frozen=True, slots=True)
class MariadbTpccTables:
    """Of so many warehouses; a warehouse has some 500,000 rows."""

    warehouses: int
    seed: int = 1

    def record(self) -> dict[str, Any]:
        """Everything that determines the tables, what makes the rows included."""
        made_by = hashlib.sha256()
        for module in (rows.__file__, __file__):
            with open(module, "rb") as file:
                made_by.update(file.read())
        found = {"tables": "tpcc", "rows": made_by.hexdigest(), "definition": definition()}
        return found | asdict(self)

    def load(self, session: MariadbSession) -> None:
        """Make and fill them; RunFailed, also when a condition of clause 3.3.2 does not hold."""
        for statement in _statements("schema.sql"):
            session.rows(statement)
        parts = [("item", 0)]
        parts += [(t, w) for w in range(1, self.warehouses + 1) for t in rows.TABLES if t != "item"]
        # The next part's rows are made while the server has this one's.
        with ThreadPoolExecutor(1) as pool:
            made = [pool.submit(rows.csv, *part, self.seed) for part in parts[:1]]
            for number, (table, _) in enumerate(parts, 1):
                lines = made.pop().result()
                made += [pool.submit(rows.csv, *part, self.seed) for part in parts[number:][:1]]
                into = f"{table} FIELDS TERMINATED BY ',' ESCAPED BY ''"
                session.load_lines(f"{into} {COLUMNS.get(table, AS_THEY_ARE)}", lines)
                session.say(f"load: {number} of {len(parts)} parts of tables")
        session.say("load: keys")
        for statement in (*_statements("keys.sql"), *procedures()):
            session.rows(statement)
        session.rows(f"ANALYZE TABLE {', '.join(rows.TABLES)}")
        session.say("load: consistency conditions")
        conditions.require(conditions.violations(session, "mariadb", loaded=True))


def _statements(name: str) -> Iterator[str]:
    lines = text(name).splitlines()
    joined = "\n".join(line for line in lines if not line.startswith("--"))
    return (statement for part in joined.split(";") if (statement := part.strip()))
