-- Delivery (clause 2.7), not deferred: the oldest order of each of the ten districts, if there is one.
CREATE PROCEDURE tpcc_delivery(home INT, carrier INT)
MODIFIES SQL DATA
BEGIN
    DECLARE district_id INT DEFAULT 1;
    DECLARE order_id, chosen INT;
    DECLARE amount DECIMAL(12, 2);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    WHILE district_id <= 10 DO
        SET order_id = NULL;
        -- Another delivery has it locked: then this one waits, and takes the next one.
        SELECT no_o_id INTO order_id FROM new_order
            WHERE no_w_id = home AND no_d_id = district_id ORDER BY no_o_id LIMIT 1 FOR UPDATE;
        IF order_id IS NOT NULL THEN
            DELETE FROM new_order
                WHERE no_w_id = home AND no_d_id = district_id AND no_o_id = order_id;
            SET chosen = NULL;
            SELECT o_c_id INTO chosen FROM orders
                WHERE o_w_id = home AND o_d_id = district_id AND o_id = order_id FOR UPDATE;
            UPDATE orders SET o_carrier_id = carrier
                WHERE o_w_id = home AND o_d_id = district_id AND o_id = order_id;
            UPDATE order_line SET ol_delivery_d = NOW()
                WHERE ol_w_id = home AND ol_d_id = district_id AND ol_o_id = order_id;
            SELECT SUM(ol_amount) INTO amount FROM order_line
                WHERE ol_w_id = home AND ol_d_id = district_id AND ol_o_id = order_id;
            UPDATE customer SET c_balance = c_balance + amount, c_delivery_cnt = c_delivery_cnt + 1
                WHERE c_w_id = home AND c_d_id = district_id AND c_id = chosen;
            IF ROW_COUNT() <> 1 THEN
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'an order or its customer is not there';
            END IF;
        END IF;
        SET district_id = district_id + 1;
    END WHILE;
    COMMIT;
END
