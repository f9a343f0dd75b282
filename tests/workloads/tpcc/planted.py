"""What contradicts each condition of clause 3.3.2 on any engine, and which ones it breaks."""

from __future__ import annotations

BROKEN = {
    1: ("UPDATE warehouse SET w_ytd = w_ytd + 1", {1, 8}),
    2: ("UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_id = 1", {2}),
    3: ("DELETE FROM new_order WHERE no_d_id = 1 AND no_o_id = 2500", {3, 5, 11}),
    4: ("DELETE FROM order_line WHERE (ol_d_id, ol_o_id, ol_number) = (1, 1, 1)", {4, 6}),
    5: ("UPDATE orders SET o_carrier_id = 1 WHERE (o_d_id, o_id) = (1, 3000)", {5, 7}),
    6: (
        "UPDATE order_line SET ol_o_id = 2, ol_number = 99 "
        "WHERE (ol_d_id, ol_o_id, ol_number) = (1, 1, 1)",
        {6},
    ),
    7: (
        "UPDATE order_line SET ol_delivery_d = now() "
        "WHERE (ol_d_id, ol_o_id, ol_number) = (1, 3000, 1)",
        {7, 10, 12},
    ),
    8: ("UPDATE history SET h_amount = 11 WHERE (h_d_id, h_c_id) = (1, 1)", {8, 9, 10}),
    9: ("UPDATE history SET h_d_id = 2 WHERE (h_d_id, h_c_id) = (1, 1)", {9}),
    10: (
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 "
        "WHERE (c_d_id, c_id) = (1, 1)",
        {10},
    ),
    11: ("DELETE FROM orders WHERE (o_d_id, o_id) = (1, 1)", {4, 6, 7, 11}),
    12: ("UPDATE customer SET c_ytd_payment = 11 WHERE (c_d_id, c_id) = (1, 1)", {12}),
}
