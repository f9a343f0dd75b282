-- New-Order (clause 2.4), 45 % of the transactions.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d random(1, 10)
\set c ((random(0, 1023) | random(1, 3000)) + :c_customer) % 3000 + 1
\set lines random(5, 15)
\set i1 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s1 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q1 random(1, 10)
\set i2 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s2 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q2 random(1, 10)
\set i3 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s3 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q3 random(1, 10)
\set i4 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s4 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q4 random(1, 10)
\set i5 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s5 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q5 random(1, 10)
\set i6 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s6 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q6 random(1, 10)
\set i7 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s7 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q7 random(1, 10)
\set i8 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s8 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q8 random(1, 10)
\set i9 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s9 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q9 random(1, 10)
\set i10 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s10 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q10 random(1, 10)
\set i11 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s11 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q11 random(1, 10)
\set i12 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s12 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q12 random(1, 10)
\set i13 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s13 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q13 random(1, 10)
\set i14 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s14 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q14 random(1, 10)
\set i15 ((random(0, 8191) | random(1, 100000)) + :c_item) % 100000 + 1
\set s15 CASE WHEN random(1, 100) = 1 THEN (:w - 1 + random(1, greatest(1, :warehouses - 1))) % :warehouses + 1 ELSE :w END
\set q15 random(1, 10)
-- One order in a hundred has an item that is not there, as its last line.
\set unused CASE WHEN random(1, 100) = 1 THEN :lines ELSE 0 END
CALL tpcc_new_order(:w, :d, :c, :lines, :unused,
    ARRAY[:i1, :i2, :i3, :i4, :i5, :i6, :i7, :i8, :i9, :i10, :i11, :i12, :i13, :i14, :i15]::int[],
    ARRAY[:s1, :s2, :s3, :s4, :s5, :s6, :s7, :s8, :s9, :s10, :s11, :s12, :s13, :s14, :s15]::int[],
    ARRAY[:q1, :q2, :q3, :q4, :q5, :q6, :q7, :q8, :q9, :q10, :q11, :q12, :q13, :q14, :q15]::int[], NULL);
