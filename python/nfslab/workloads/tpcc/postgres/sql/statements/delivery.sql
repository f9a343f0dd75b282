BEGIN;
{% for district in range(1, 11) %}
SELECT coalesce(min(no_o_id), 0) AS o FROM new_order
    WHERE no_w_id = :w AND no_d_id = {{ district }} \gset
WITH gone AS (
    DELETE FROM new_order WHERE no_w_id = :w AND no_d_id = {{ district }} AND no_o_id = :o RETURNING no_o_id
) SELECT count(*) AS gone FROM gone \gset
\if :gone > 0
UPDATE orders SET o_carrier_id = :carrier WHERE o_w_id = :w AND o_d_id = {{ district }} AND o_id = :o
    RETURNING o_c_id AS c \gset
UPDATE order_line SET ol_delivery_d = now()
    WHERE ol_w_id = :w AND ol_d_id = {{ district }} AND ol_o_id = :o;
SELECT sum(ol_amount) AS amount FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = {{ district }} AND ol_o_id = :o \gset
UPDATE customer SET c_balance = c_balance + :amount, c_delivery_cnt = c_delivery_cnt + 1
    WHERE c_w_id = :w AND c_d_id = {{ district }} AND c_id = :c;
\endif
{% endfor %}
COMMIT;
