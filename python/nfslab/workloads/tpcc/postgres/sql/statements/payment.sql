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
