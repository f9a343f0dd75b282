-- New-Order (clause 2.4), 45 % of the transactions; a statement for each step.
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
\set all_local CASE WHEN (:s1 = :w OR :lines < 1) AND (:s2 = :w OR :lines < 2) AND (:s3 = :w OR :lines < 3) AND (:s4 = :w OR :lines < 4) AND (:s5 = :w OR :lines < 5) AND (:s6 = :w OR :lines < 6) AND (:s7 = :w OR :lines < 7) AND (:s8 = :w OR :lines < 8) AND (:s9 = :w OR :lines < 9) AND (:s10 = :w OR :lines < 10) AND (:s11 = :w OR :lines < 11) AND (:s12 = :w OR :lines < 12) AND (:s13 = :w OR :lines < 13) AND (:s14 = :w OR :lines < 14) AND (:s15 = :w OR :lines < 15) THEN 1 ELSE 0 END
BEGIN;
SELECT w_tax FROM warehouse WHERE w_id = :w \gset
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d
    RETURNING d_tax, d_next_o_id - 1 AS o \gset
SELECT c_discount, c_last, c_credit FROM customer
    WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c \gset
INSERT INTO orders VALUES (:o, :d, :w, :c, now(), NULL, :lines, :all_local);
INSERT INTO new_order VALUES (:o, :d, :w);
\set item CASE WHEN :unused = 1 THEN 0 ELSE :i1 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s1 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q1 + CASE WHEN s_quantity >= :q1 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q1, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s1 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 1, :item, :s1, NULL, :q1, :q1::int * :price::numeric, :info);
\endif
\set item CASE WHEN :unused = 2 THEN 0 ELSE :i2 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s2 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q2 + CASE WHEN s_quantity >= :q2 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q2, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s2 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 2, :item, :s2, NULL, :q2, :q2::int * :price::numeric, :info);
\endif
\set item CASE WHEN :unused = 3 THEN 0 ELSE :i3 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s3 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q3 + CASE WHEN s_quantity >= :q3 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q3, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s3 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 3, :item, :s3, NULL, :q3, :q3::int * :price::numeric, :info);
\endif
\set item CASE WHEN :unused = 4 THEN 0 ELSE :i4 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s4 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q4 + CASE WHEN s_quantity >= :q4 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q4, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s4 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 4, :item, :s4, NULL, :q4, :q4::int * :price::numeric, :info);
\endif
\set item CASE WHEN :unused = 5 THEN 0 ELSE :i5 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s5 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q5 + CASE WHEN s_quantity >= :q5 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q5, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s5 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 5, :item, :s5, NULL, :q5, :q5::int * :price::numeric, :info);
\endif
\if :lines >= 6
\set item CASE WHEN :unused = 6 THEN 0 ELSE :i6 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s6 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q6 + CASE WHEN s_quantity >= :q6 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q6, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s6 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 6, :item, :s6, NULL, :q6, :q6::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 7
\set item CASE WHEN :unused = 7 THEN 0 ELSE :i7 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s7 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q7 + CASE WHEN s_quantity >= :q7 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q7, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s7 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 7, :item, :s7, NULL, :q7, :q7::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 8
\set item CASE WHEN :unused = 8 THEN 0 ELSE :i8 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s8 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q8 + CASE WHEN s_quantity >= :q8 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q8, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s8 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 8, :item, :s8, NULL, :q8, :q8::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 9
\set item CASE WHEN :unused = 9 THEN 0 ELSE :i9 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s9 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q9 + CASE WHEN s_quantity >= :q9 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q9, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s9 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 9, :item, :s9, NULL, :q9, :q9::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 10
\set item CASE WHEN :unused = 10 THEN 0 ELSE :i10 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s10 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q10 + CASE WHEN s_quantity >= :q10 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q10, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s10 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 10, :item, :s10, NULL, :q10, :q10::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 11
\set item CASE WHEN :unused = 11 THEN 0 ELSE :i11 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s11 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q11 + CASE WHEN s_quantity >= :q11 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q11, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s11 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 11, :item, :s11, NULL, :q11, :q11::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 12
\set item CASE WHEN :unused = 12 THEN 0 ELSE :i12 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s12 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q12 + CASE WHEN s_quantity >= :q12 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q12, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s12 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 12, :item, :s12, NULL, :q12, :q12::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 13
\set item CASE WHEN :unused = 13 THEN 0 ELSE :i13 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s13 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q13 + CASE WHEN s_quantity >= :q13 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q13, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s13 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 13, :item, :s13, NULL, :q13, :q13::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 14
\set item CASE WHEN :unused = 14 THEN 0 ELSE :i14 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s14 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q14 + CASE WHEN s_quantity >= :q14 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q14, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s14 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 14, :item, :s14, NULL, :q14, :q14::int * :price::numeric, :info);
\endif
\endif
\if :lines >= 15
\set item CASE WHEN :unused = 15 THEN 0 ELSE :i15 END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s15 = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q15 + CASE WHEN s_quantity >= :q15 + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q15, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s15 AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, 15, :item, :s15, NULL, :q15, :q15::int * :price::numeric, :info);
\endif
\endif
\if :unused > 0
ROLLBACK;
\else
COMMIT;
\endif
