-- Order-Status (clause 2.6): the lines of the customer's last order.
CREATE PROCEDURE tpcc_order_status(
    home INT, district_id INT, customer_id INT, by_name INT, last_name INT)
READS SQL DATA
BEGIN
    DECLARE chosen INT DEFAULT customer_id;
    DECLARE balance DECIMAL(12, 2);
    DECLARE first_name, name VARCHAR(16);
    DECLARE middle CHAR(2);
    DECLARE order_id, carrier, line_count, items, supplies, quantities INT;
    DECLARE entered, delivered DATETIME;
    DECLARE amounts DECIMAL(12, 2);
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION READ ONLY;
    IF by_name <> 0 THEN
        SET chosen = tpcc_customer_of_name(home, district_id, last_name);
    END IF;
    SELECT c_balance, c_first, c_middle, c_last INTO balance, first_name, middle, name
        FROM customer WHERE c_w_id = home AND c_d_id = district_id AND c_id = chosen;
    SELECT o_id, o_entry_d, o_carrier_id INTO order_id, entered, carrier FROM orders
        WHERE o_w_id = home AND o_d_id = district_id AND o_c_id = chosen
        ORDER BY o_id DESC LIMIT 1;
    IF balance IS NULL OR order_id IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the customer or the last order is not there';
    END IF;
    SELECT COUNT(*), MAX(ol_i_id), MAX(ol_supply_w_id), MAX(ol_quantity), MAX(ol_amount),
            MAX(ol_delivery_d)
        INTO line_count, items, supplies, quantities, amounts, delivered FROM order_line
        WHERE ol_w_id = home AND ol_d_id = district_id AND ol_o_id = order_id;
    COMMIT;
END
