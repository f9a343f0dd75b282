-- Stock-Level (clause 2.8), 4 % of the transactions.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d CASE WHEN :fixed_homes THEN :client_id / :warehouses % 10 + 1 ELSE random(1, 10) END
\set threshold random(10, 20)
SELECT tpcc_stock_level(:w, :d, :threshold);
