-- Payment (clause 2.5), 43 % of the transactions.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d random(1, 10)
\set remote random(1, 100) > 85 AND :warehouses > 1
\set cw CASE WHEN :remote THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set cd CASE WHEN :remote THEN random(1, 10) ELSE :d END
\set by_name CASE WHEN random(1, 100) <= 60 THEN 1 ELSE 0 END
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
\set cents random(100, 500000)
CALL tpcc_payment(:w, :d, :cw, :cd, :c, :by_name, :name, :cents / 100.0);
