-- The customer in the middle of those with a last name, by first name (clause 2.5.2.2); null: there
-- is none. The name is of clause 4.3.2.3: three syllables, one for each digit of its number.
CREATE FUNCTION tpcc_customer_of_name(home INT, district_id INT, number INT)
RETURNS INT READS SQL DATA
BEGIN
    DECLARE name VARCHAR(16) DEFAULT CONCAT(
        ELT(number DIV 100 + 1,
            'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'),
        ELT(number DIV 10 % 10 + 1,
            'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'),
        ELT(number % 10 + 1,
            'BAR', 'OUGHT', 'ABLE', 'PRI', 'PRES', 'ESE', 'ANTI', 'CALLY', 'ATION', 'EING'));
    DECLARE before_it INT;
    DECLARE chosen INT;
    SELECT (COUNT(*) + 1) DIV 2 - 1 INTO before_it FROM customer
        WHERE c_w_id = home AND c_d_id = district_id AND c_last = name;
    IF before_it < 0 THEN
        RETURN NULL;
    END IF;
    SELECT c_id INTO chosen FROM customer
        WHERE c_w_id = home AND c_d_id = district_id AND c_last = name
        ORDER BY c_first LIMIT before_it, 1;
    RETURN chosen;
END
