CALL tpcc_payment(:w, :d, :cw, :cd, :c, :by_name, :name, :cents / 100.0);
