-- Payment (clause 2.5): by number, or by the number of a last name where `by_name` is not zero.
CREATE PROCEDURE tpcc_payment(
    home INT, district_id INT, customer_home INT, customer_district INT, customer_id INT,
    by_name INT, last_name INT, cents INT)
MODIFIES SQL DATA
BEGIN
    DECLARE amount DECIMAL(6, 2) DEFAULT cents / 100;
    DECLARE warehouse_name, district_name VARCHAR(10);
    DECLARE chosen INT DEFAULT customer_id;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION;
    UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = home;
    SELECT w_name INTO warehouse_name FROM warehouse WHERE w_id = home;
    UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = home AND d_id = district_id;
    SELECT d_name INTO district_name FROM district WHERE d_w_id = home AND d_id = district_id;
    IF by_name <> 0 THEN
        SET chosen = tpcc_customer_of_name(customer_home, customer_district, last_name);
    END IF;
    UPDATE customer SET
        c_balance = c_balance - amount,
        c_ytd_payment = c_ytd_payment + amount,
        c_payment_cnt = c_payment_cnt + 1,
        c_data = IF(c_credit = 'BC', LEFT(CONCAT_WS(
            ' ', c_id, c_d_id, c_w_id, district_id, home, amount, c_data), 500), c_data)
    WHERE c_w_id = customer_home AND c_d_id = customer_district AND c_id = chosen;
    IF ROW_COUNT() <> 1 OR warehouse_name IS NULL OR district_name IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'a row that a payment needs is not there';
    END IF;
    INSERT INTO history VALUES (
        chosen, customer_district, customer_home, district_id, home, NOW(), amount,
        CONCAT(warehouse_name, '    ', district_name));
    COMMIT;
END
