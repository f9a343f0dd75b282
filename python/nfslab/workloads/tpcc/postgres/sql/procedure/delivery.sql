SELECT tpcc_delivery(:w, :carrier);
