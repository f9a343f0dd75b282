-- Delivery (clause 2.7, not deferred), 4 % of the transactions.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set carrier random(1, 10)
SELECT tpcc_delivery(:w, :carrier);
