-- Order-Status (clause 2.6), 4 % of the transactions.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d random(1, 10)
\set by_name CASE WHEN random(1, 100) <= 60 THEN 1 ELSE 0 END
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set name ((random(0, 255) | random(0, 999)) + :c_name) % 1000
SELECT tpcc_order_status(:w, :d, :c, :by_name, :name);
