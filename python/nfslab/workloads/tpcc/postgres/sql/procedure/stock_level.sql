SELECT tpcc_stock_level(:w, :d, :threshold);
