-- Order-Status (clause 2.6), 4 % of the transactions; a statement for each step.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d random(1, 10)
\set by_name CASE WHEN random(1, 100) <= 60 THEN 1 ELSE 0 END
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
BEGIN;
\if :by_name
SELECT tpcc_customer_of_name(:w, :d, tpcc_last_name(:name)) AS c \gset
\endif
SELECT c_balance, c_first, c_middle, c_last FROM customer
    WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c \gset
SELECT o_id AS o, o_entry_d, o_carrier_id FROM orders
    WHERE o_w_id = :w AND o_d_id = :d AND o_c_id = :c ORDER BY o_id DESC LIMIT 1 \gset
SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d FROM order_line
    WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id = :o;
COMMIT;
