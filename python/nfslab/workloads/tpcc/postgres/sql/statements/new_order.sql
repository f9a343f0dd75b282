\set all_local CASE WHEN {% for n in range(1, 16) %}(:s{{ n }} = :w OR :lines < {{ n }}){{ " AND " if not loop.last }}{% endfor %} THEN 1 ELSE 0 END
BEGIN;
SELECT w_tax FROM warehouse WHERE w_id = :w \gset
UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = :w AND d_id = :d
    RETURNING d_tax, d_next_o_id - 1 AS o \gset
SELECT c_discount, c_last, c_credit FROM customer
    WHERE c_w_id = :w AND c_d_id = :d AND c_id = :c \gset
INSERT INTO orders VALUES (:o, :d, :w, :c, now(), NULL, :lines, :all_local);
INSERT INTO new_order VALUES (:o, :d, :w);
{% for n in range(1, 16) %}
{% if n > 5 %}
\if :lines >= {{ n }}
{% endif %}
\set item CASE WHEN :unused = {{ n }} THEN 0 ELSE :i{{ n }} END
SELECT count(*) AS found, max(i_price) AS price, max(i_name) AS name, max(i_data) AS data
    FROM item WHERE i_id = :item \gset
\if :found > 0
\set remote CASE WHEN :s{{ n }} = :w THEN 0 ELSE 1 END
UPDATE stock SET
    s_quantity = s_quantity - :q{{ n }} + CASE WHEN s_quantity >= :q{{ n }} + 10 THEN 0 ELSE 91 END,
    s_ytd = s_ytd + :q{{ n }}, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + :remote
    WHERE s_w_id = :s{{ n }} AND s_i_id = :item
    RETURNING (ARRAY[s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07,
        s_dist_08, s_dist_09, s_dist_10])[:d] AS info \gset
INSERT INTO order_line VALUES (
    :o, :d, :w, {{ n }}, :item, :s{{ n }}, NULL, :q{{ n }}, :q{{ n }}::int * :price::numeric, :info);
\endif
{% if n > 5 %}
\endif
{% endif %}
{% endfor %}
\if :unused > 0
ROLLBACK;
\else
COMMIT;
\endif
