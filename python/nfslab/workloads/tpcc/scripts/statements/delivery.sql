-- Delivery (clause 2.7, not deferred), 4 % of the transactions; a statement for each step.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set carrier random(1, 10)
BEGIN;
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 1 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 1 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 1 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 1 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 1 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 1 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 2 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 2 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 2 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 2 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 2 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 2 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 3 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 3 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 3 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 3 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 3 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 3 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 4 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 4 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 4 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 4 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 4 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 4 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 5 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 5 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 5 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 5 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 5 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 5 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 6 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 6 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 6 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 6 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 6 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 6 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 7 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 7 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 7 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 7 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 7 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 7 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 8 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 8 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 8 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 8 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 8 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 8 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 9 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 9 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 9 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 9 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 9 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 9 AND c_id = :c;
\endif
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = 10 \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = 10 AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = 10 AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = 10 AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = 10 AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = 10 AND c_id = :c;
\endif
COMMIT;
