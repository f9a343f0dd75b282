-- The five transactions for sysbench on MariaDB: what a terminal draws, and one call of a procedure,
-- as a prepared statement. A procedure is one transaction: it begins and ends it by itself. What is
-- tried again, and the log: transactions.lua.

local HERE = debug.getinfo(1, "S").source:match("^@(.*/)")
local transactions = dofile(HERE .. "../../sysbench/transactions.lua")

sysbench.cmdline.options = transactions.options {
   warehouses = { "Warehouses", 1 },
   fixed_homes = { "1: a terminal's warehouse is its own; 0: another one each time", 1 },
   c_name = { "C of NURand for last names", 0 },
   c_customer = { "C of NURand for customers", 0 },
   c_item = { "C of NURand for items", 0 },
}

local LINES_MOST, ITEMS, CUSTOMERS, DISTRICTS = 15, 100000, 3000, 10

local terminal, connection, calls

local function random(least, most)
   return sysbench.rand.uniform(least, most)
end

-- Clause 2.1.6.
local function nurand(most_or, least, most, constant)
   local drawn = bit.bor(random(0, most_or), random(least, most))
   return (drawn + constant) % (most - least + 1) + least
end

local function home()
   local warehouses = sysbench.opt.warehouses
   return sysbench.opt.fixed_homes == 1 and terminal % warehouses + 1 or random(1, warehouses)
end

local function other(warehouse)
   local warehouses = sysbench.opt.warehouses
   return (warehouse - 1 + random(1, math.max(1, warehouses - 1))) % warehouses + 1
end

-- By a last name in 60 of 100: number, whether by name, the name's number.
local function customer()
   return nurand(1023, 1, CUSTOMERS, sysbench.opt.c_customer),
      random(1, 100) <= 60 and 1 or 0,
      nurand(255, 0, 999, sysbench.opt.c_name)
end

-- Each gives a procedure's arguments, and how the transaction is to end.
local function new_order()
   local warehouse = home()
   local district = random(1, DISTRICTS)
   local buyer = nurand(1023, 1, CUSTOMERS, sysbench.opt.c_customer)
   local count = random(5, LINES_MOST)
   local lines = {}
   for place = 1, count do
      lines[place] = {
         item = nurand(8191, 1, ITEMS, sysbench.opt.c_item),
         supply = random(1, 100) == 1 and other(warehouse) or warehouse,
         quantity = random(1, 10),
      }
   end
   -- One order in a hundred has an item that is not there, as its last line.
   local unused = random(1, 100) == 1
   if unused then
      lines[count].item = 0
   end
   table.sort(lines, function(a, b)
      if (a.item == 0) ~= (b.item == 0) then
         return b.item == 0
      end
      if a.supply ~= b.supply then
         return a.supply < b.supply
      end
      return a.item < b.item
   end)
   local numbers = { warehouse, district, buyer, count }
   for _, name in ipairs { "item", "supply", "quantity" } do
      for place = 1, LINES_MOST do
         numbers[#numbers + 1] = lines[place] and lines[place][name] or 0
      end
   end
   return numbers, unused and transactions.ROLLED_BACK or transactions.COMMITTED
end

local function payment()
   local warehouse = home()
   local district = random(1, DISTRICTS)
   local customer_home, customer_district = warehouse, district
   if random(1, 100) > 85 and sysbench.opt.warehouses > 1 then
      customer_home, customer_district = other(warehouse), random(1, DISTRICTS)
   end
   local number, by_name, name = customer()
   local cents = random(100, 500000)
   return { warehouse, district, customer_home, customer_district, number, by_name, name, cents },
      transactions.COMMITTED
end

local function order_status()
   return { home(), random(1, DISTRICTS), customer() }, transactions.COMMITTED
end

local function delivery()
   return { home(), random(1, 10) }, transactions.COMMITTED
end

local function stock_level()
   local warehouse, district = home(), random(1, DISTRICTS)
   if sysbench.opt.fixed_homes == 1 then
      district = math.floor(terminal / sysbench.opt.warehouses) % DISTRICTS + 1
   end
   return { warehouse, district, random(10, 20) }, transactions.COMMITTED
end

-- By their numbers in the log: share of all, per cent; what is drawn; how many numbers that is.
local KINDS = {
   { name = "new_order", share = 45, draw = new_order, length = 4 + 3 * LINES_MOST },
   { name = "payment", share = 43, draw = payment, length = 8 },
   { name = "order_status", share = 4, draw = order_status, length = 5 },
   { name = "delivery", share = 4, draw = delivery, length = 2 },
   { name = "stock_level", share = 4, draw = stock_level, length = 3 },
}

function thread_init(client)
   terminal = client
   connection = sysbench.sql.driver():connect()
   calls = {}
   for place, kind in ipairs(KINDS) do
      local marks = ("?, "):rep(kind.length - 1) .. "?"
      local statement, bound =
         transactions.prepared(connection, ("CALL tpcc_%s(%s)"):format(kind.name, marks), kind.length)
      calls[place] = { statement = statement, bound = bound }
   end
   transactions.begin()
end

function event()
   local drawn, place = random(1, 100), 1
   while drawn > KINDS[place].share do
      drawn, place = drawn - KINDS[place].share, place + 1
   end
   local numbers, ended = KINDS[place].draw()
   local call = calls[place]
   for position = 1, KINDS[place].length do
      call.bound[position]:set(numbers[position])
   end
   transactions.run(connection, place - 1, function() call.statement:execute() end, ended)
end

function thread_done(client)
   -- A connection with open statements would not be closed.
   for _, call in ipairs(calls) do
      call.statement:close()
   end
   connection:disconnect()
   transactions.finish(client)
end
