-- New-Order (clause 2.4). Of fifteen items, supplying warehouses and quantities the first
-- `line_count` are ordered. Item 0 is not there: it rolls the order back. A terminal gives its lines
-- in the order of their stock, so that two orders do not wait for each other in a circle: clause
-- 2.4.2.2 leaves it open.
CREATE PROCEDURE tpcc_new_order(
    home INT, district_id INT, customer_id INT, line_count INT,
    i1 INT, i2 INT, i3 INT, i4 INT, i5 INT, i6 INT, i7 INT, i8 INT,
    i9 INT, i10 INT, i11 INT, i12 INT, i13 INT, i14 INT, i15 INT,
    s1 INT, s2 INT, s3 INT, s4 INT, s5 INT, s6 INT, s7 INT, s8 INT,
    s9 INT, s10 INT, s11 INT, s12 INT, s13 INT, s14 INT, s15 INT,
    q1 INT, q2 INT, q3 INT, q4 INT, q5 INT, q6 INT, q7 INT, q8 INT,
    q9 INT, q10 INT, q11 INT, q12 INT, q13 INT, q14 INT, q15 INT)
MODIFIES SQL DATA
transaction: BEGIN
    DECLARE order_id, line, item_id, supply, wanted, in_stock, is_there INT;
    DECLARE all_local INT DEFAULT 1;
    DECLARE district_tax, warehouse_tax, discount DECIMAL(4, 4);
    DECLARE price DECIMAL(5, 2);
    DECLARE amount DECIMAL(6, 2);
    DECLARE total DECIMAL(20, 10) DEFAULT 0;
    DECLARE info CHAR(24);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    SELECT w_tax INTO warehouse_tax FROM warehouse WHERE w_id = home;
    SELECT d_tax, d_next_o_id INTO district_tax, order_id FROM district
        WHERE d_w_id = home AND d_id = district_id FOR UPDATE;
    UPDATE district SET d_next_o_id = order_id + 1 WHERE d_w_id = home AND d_id = district_id;
    SELECT c_discount INTO discount FROM customer
        WHERE c_w_id = home AND c_d_id = district_id AND c_id = customer_id;
    IF warehouse_tax IS NULL OR order_id IS NULL OR discount IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row that an order needs is not there';
    END IF;
    SET line = 1;
    WHILE line <= line_count DO
        IF home <> ELT(line, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15) THEN
            SET all_local = 0;
        END IF;
        SET line = line + 1;
    END WHILE;
    INSERT INTO orders VALUES (
        order_id, district_id, home, customer_id, NOW(), NULL, line_count, all_local);
    INSERT INTO new_order VALUES (order_id, district_id, home);
    SET line = 1;
    WHILE line <= line_count DO
        SET item_id = ELT(line, i1, i2, i3, i4, i5, i6, i7, i8, i9, i10, i11, i12, i13, i14, i15);
        SET supply = ELT(line, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15);
        SET wanted = ELT(line, q1, q2, q3, q4, q5, q6, q7, q8, q9, q10, q11, q12, q13, q14, q15);
        SELECT COUNT(*), MAX(i_price) INTO is_there, price FROM item WHERE i_id = item_id;
        IF is_there = 0 AND item_id = 0 THEN
            ROLLBACK;
            LEAVE transaction;
        END IF;
        SET in_stock = NULL;
        SELECT s_quantity, ELT(district_id, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05,
                               s_dist_06, s_dist_07, s_dist_08, s_dist_09, s_dist_10)
            INTO in_stock, info FROM stock WHERE s_w_id = supply AND s_i_id = item_id FOR UPDATE;
        IF is_there = 0 OR in_stock IS NULL THEN
            SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an item or its stock is not there';
        END IF;
        UPDATE stock SET
            s_quantity = in_stock - wanted + IF(in_stock >= wanted + 10, 0, 91),
            s_ytd = s_ytd + wanted,
            s_order_cnt = s_order_cnt + 1,
            s_remote_cnt = s_remote_cnt + (supply <> home)
        WHERE s_w_id = supply AND s_i_id = item_id;
        SET amount = wanted * price;
        INSERT INTO order_line VALUES (
            order_id, district_id, home, line, item_id, supply, NULL, wanted, amount, info);
        SET total = total + amount;
        SET line = line + 1;
    END WHILE;
    SET total = total * (1 - discount) * (1 + warehouse_tax + district_tax);
    COMMIT;
END
