-- Stock-Level (clause 2.8): items of the district's last 20 orders of which little is left.
CREATE PROCEDURE tpcc_stock_level(home INT, district_id INT, threshold INT)
READS SQL DATA
BEGIN
    DECLARE next_order, low INT;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN ROLLBACK; RESIGNAL; END;

    START TRANSACTION READ ONLY;
    SELECT d_next_o_id INTO next_order FROM district
        WHERE d_w_id = home AND d_id = district_id;
    IF next_order IS NULL THEN
        SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'the district is not there';
    END IF;
    SELECT COUNT(DISTINCT s_i_id) INTO low FROM order_line
        JOIN stock ON s_w_id = home AND s_i_id = ol_i_id
        WHERE ol_w_id = home AND ol_d_id = district_id
            AND ol_o_id >= next_order - 20 AND ol_o_id < next_order AND s_quantity < threshold;
    COMMIT;
END
