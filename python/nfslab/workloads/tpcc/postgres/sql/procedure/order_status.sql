SELECT tpcc_order_status(:w, :d, :c, :by_name, :name);
