-- Payment (clause 2.5), 43 % of the transactions; a statement for each step.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d random(1, 10)
\set remote random(1, 100) > 85 AND :warehouses > 1
\set cw CASE WHEN :remote THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set cd CASE WHEN :remote THEN random(1, 10) ELSE :d END
\set by_name CASE WHEN random(1, 100) <= 60 THEN 1 ELSE 0 END
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
\set cents random(100, 500000)
\set amount :cents / 100.0
BEGIN;
UPDATE warehouse SET w_ytd = w_ytd + :amount WHERE w_id = :w RETURNING w_name \gset
UPDATE district SET d_ytd = d_ytd + :amount WHERE d_w_id = :w AND d_id = :d
    RETURNING d_name \gset
\if :by_name
SELECT tpcc_customer_of_name(:cw, :cd, tpcc_last_name(:name)) AS c \gset
\endif
UPDATE customer SET
    c_balance = c_balance - :amount, c_ytd_payment = c_ytd_payment + :amount,
    c_payment_cnt = c_payment_cnt + 1,
    c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(
        ' ', c_id, c_d_id, c_w_id, :d::int, :w::int, :amount::numeric, c_data), 500)
        ELSE c_data END
    WHERE c_w_id = :cw AND c_d_id = :cd AND c_id = :c RETURNING c_credit \gset
INSERT INTO history VALUES (
    :c, :cd, :cw, :d, :w, now(), :amount, :w_name || '    ' || :d_name);
COMMIT;
