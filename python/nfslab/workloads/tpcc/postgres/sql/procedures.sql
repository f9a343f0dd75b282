-- The five transactions (clause 2), each in one call. What a terminal only displays is read, and is
-- not sent. Rows that several transactions change are locked in one order, so that none waits for
-- itself in a circle: clause 2.4.2.2 leaves the order of an order's lines open.

-- A last name of clause 4.3.2.3: three syllables, one for each digit.
CREATE FUNCTION tpcc_last_name(number integer) RETURNS varchar(16)
LANGUAGE sql IMMUTABLE AS $$
    SELECT s[number / 100 + 1] || s[number / 10 % 10 + 1] || s[number % 10 + 1]
    FROM (SELECT ARRAY['BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION',
                       'EING'] AS s) AS syllables
$$;

-- New-Order (clause 2.4). `items`, `supplies` and `quantities` have the order's `lines`, and further
-- ones that are passed over; the item of line `unused` is not there, which rolls the order back.
CREATE PROCEDURE tpcc_new_order(
    home integer, district_id integer, customer_id integer, lines integer, unused integer,
    items integer[], supplies integer[], quantities integer[], INOUT total numeric)
LANGUAGE plpgsql AS $$
DECLARE
    order_id integer;
    district_tax numeric;
    warehouse_tax numeric;
    discount numeric;
    price numeric;
    info char(24);
    amount numeric;
    line integer;
    ordered integer[];
BEGIN
    SELECT w_tax INTO STRICT warehouse_tax FROM warehouse WHERE w_id = home;
    UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = home AND d_id = district_id
        RETURNING d_tax, d_next_o_id - 1 INTO STRICT district_tax, order_id;
    SELECT c_discount INTO STRICT discount FROM customer
        WHERE c_w_id = home AND c_d_id = district_id AND c_id = customer_id;
    INSERT INTO orders VALUES (
        order_id, district_id, home, customer_id, now(), NULL, lines,
        (home = ALL (supplies[1:lines]))::integer);
    INSERT INTO new_order VALUES (order_id, district_id, home);
    total := 0;
    SELECT array_agg(n ORDER BY n = unused, supplies[n], items[n]) INTO ordered
        FROM generate_series(1, lines) AS n;
    FOREACH line IN ARRAY ordered LOOP
        SELECT i_price INTO price FROM item
            WHERE i_id = CASE WHEN line = unused THEN 0 ELSE items[line] END;
        IF NOT FOUND THEN
            ROLLBACK;
            total := NULL;
            RETURN;
        END IF;
        UPDATE stock SET
            s_quantity = s_quantity - quantities[line]
                + CASE WHEN s_quantity >= quantities[line] + 10 THEN 0 ELSE 91 END,
            s_ytd = s_ytd + quantities[line],
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supplies[line] <> home)::integer
        WHERE s_w_id = supplies[line] AND s_i_id = items[line]
        RETURNING CASE district_id
            WHEN 1 THEN s_dist_01 WHEN 2 THEN s_dist_02 WHEN 3 THEN s_dist_03
            WHEN 4 THEN s_dist_04 WHEN 5 THEN s_dist_05 WHEN 6 THEN s_dist_06
            WHEN 7 THEN s_dist_07 WHEN 8 THEN s_dist_08 WHEN 9 THEN s_dist_09
            ELSE s_dist_10 END INTO STRICT info;
        amount := quantities[line] * price;
        INSERT INTO order_line VALUES (
            order_id, district_id, home, line, items[line], supplies[line], NULL,
            quantities[line], amount, info);
        total := total + amount;
    END LOOP;
    total := total * (1 - discount) * (1 + warehouse_tax + district_tax);
END
$$;

-- The customer in the middle of those with a last name, by first name (clause 2.5.2.2).
CREATE FUNCTION tpcc_customer_of_name(home integer, district_id integer, name varchar)
RETURNS integer LANGUAGE sql STABLE AS $$
    SELECT (array_agg(c_id ORDER BY c_first))[(count(*) + 1) / 2] FROM customer
    WHERE c_w_id = home AND c_d_id = district_id AND c_last = name
$$;

-- Payment (clause 2.5): by number, or by the number of a last name where `by_name` is not zero.
CREATE PROCEDURE tpcc_payment(
    home integer, district_id integer, customer_home integer, customer_district integer,
    customer_id integer, by_name integer, last_name integer, amount numeric)
LANGUAGE plpgsql AS $$
DECLARE
    warehouse_name varchar;
    district_name varchar;
    chosen integer := customer_id;
BEGIN
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = home
        RETURNING w_name INTO STRICT warehouse_name;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = home AND d_id = district_id
        RETURNING d_name INTO STRICT district_name;
    IF by_name <> 0 THEN
        chosen := tpcc_customer_of_name(
            customer_home, customer_district, tpcc_last_name(last_name));
    END IF;
    UPDATE customer SET
        c_balance = c_balance - amount,
        c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = CASE WHEN c_credit = 'BC' THEN left(concat_ws(
            ' ', c_id, c_d_id, c_w_id, district_id, home, amount, c_data), 500) ELSE c_data END
    WHERE c_w_id = customer_home AND c_d_id = customer_district AND c_id = chosen;
    IF NOT FOUND THEN
        RAISE 'there is no customer % of district % of warehouse %',
            chosen, customer_district, customer_home;
    END IF;
    INSERT INTO history VALUES (
        chosen, customer_district, customer_home, district_id, home, now(), amount,
        warehouse_name || '    ' || district_name);
END
$$;

-- Order-Status (clause 2.6): how many lines the customer's last order has.
CREATE FUNCTION tpcc_order_status(
    home integer, district_id integer, customer_id integer, by_name integer, last_name integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    chosen integer := customer_id;
    found_customer record;
    last_order record;
    seen bigint;
BEGIN
    IF by_name <> 0 THEN
        chosen := tpcc_customer_of_name(home, district_id, tpcc_last_name(last_name));
    END IF;
    SELECT c_balance, c_first, c_middle, c_last INTO STRICT found_customer FROM customer
        WHERE c_w_id = home AND c_d_id = district_id AND c_id = chosen;
    SELECT o_id, o_entry_d, o_carrier_id INTO STRICT last_order FROM orders
        WHERE o_w_id = home AND o_d_id = district_id AND o_c_id = chosen
        ORDER BY o_id DESC LIMIT 1;
    SELECT count((ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d)) INTO seen
        FROM order_line
        WHERE ol_w_id = home AND ol_d_id = district_id AND ol_o_id = last_order.o_id;
    RETURN seen;
END
$$;

-- Delivery (clause 2.7), not deferred: how many of the ten districts had an order.
CREATE FUNCTION tpcc_delivery(home integer, carrier integer)
RETURNS integer LANGUAGE plpgsql AS $$
DECLARE
    order_id integer;
    chosen integer;
    amount numeric;
    delivered integer := 0;
BEGIN
    FOR district_id IN 1 .. 10 LOOP
        -- Another delivery may take the oldest one away while this one waits for it.
        LOOP
            SELECT no_o_id INTO order_id FROM new_order
                WHERE no_w_id = home AND no_d_id = district_id ORDER BY no_o_id LIMIT 1;
            EXIT WHEN NOT FOUND;
            DELETE FROM new_order
                WHERE no_w_id = home AND no_d_id = district_id AND no_o_id = order_id;
            EXIT WHEN FOUND;
        END LOOP;
        CONTINUE WHEN order_id IS NULL;
        UPDATE orders SET o_carrier_id = carrier
            WHERE o_w_id = home AND o_d_id = district_id AND o_id = order_id
            RETURNING o_c_id INTO STRICT chosen;
        WITH lines AS (
            UPDATE order_line SET ol_delivery_d = now()
            WHERE ol_w_id = home AND ol_d_id = district_id AND ol_o_id = order_id
            RETURNING ol_amount
        ) SELECT sum(ol_amount) INTO amount FROM lines;
        UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
            WHERE c_w_id = home AND c_d_id = district_id AND c_id = chosen;
        delivered := delivered + 1;
    END LOOP;
    RETURN delivered;
END
$$;

-- Stock-Level (clause 2.8): items of the district's last 20 orders of which little is left.
CREATE FUNCTION tpcc_stock_level(home integer, district_id integer, threshold integer)
RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    next_order integer;
    low bigint;
BEGIN
    SELECT d_next_o_id INTO STRICT next_order FROM district
        WHERE d_w_id = home AND d_id = district_id;
    SELECT count(DISTINCT s_i_id) INTO low FROM order_line
        JOIN stock ON s_w_id = home AND s_i_id = ol_i_id
        WHERE ol_w_id = home AND ol_d_id = district_id
            AND ol_o_id >= next_order - 20 AND ol_o_id < next_order AND s_quantity < threshold;
    RETURN low;
END
$$;
