-- Stock-Level (clause 2.8), 4 % of the transactions; a statement for each step.
\set w CASE WHEN :fixed_homes THEN :client_id % :warehouses + 1 ELSE random(1, :warehouses) END
\set d CASE WHEN :fixed_homes THEN :client_id / :warehouses % 10 + 1 ELSE random(1, 10) END
\set threshold random(10, 20)
BEGIN;
SELECT d_next_o_id AS next FROM district WHERE d_w_id = :w AND d_id = :d \gset
SELECT count(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = :w AND s_i_id = ol_i_id
    WHERE ol_w_id = :w AND ol_d_id = :d AND ol_o_id >= :next - 20 AND ol_o_id < :next
        AND s_quantity < :threshold;
COMMIT;
