-- The transaction of pgbench's tpcb-like, for sysbench: on PostgreSQL, MariaDB and SQLite.
--
-- Statements are prepared once a connection; BEGIN and COMMIT are statements, too. What is tried
-- again, and the log: transactions.lua.

local HERE = debug.getinfo(1, "S").source:match("^@(.*/)")
local transactions = dofile(HERE .. "../sysbench/transactions.lua")

local ACCOUNTS, TELLERS = 100000, 10  -- of a branch
local DELTA = 5000

sysbench.cmdline.options = transactions.options {
   scale = { "Branches", 1 },
   sqlite = { "Database of SQLite; empty: --db-driver", "" },
   sqlite_driver = { "Where sqlite.lua is", "" },
   pragmas = { "name=value;...", "" },
   busy_timeout = { "Milliseconds that SQLite waits for a lock", 10000 },
}

-- {SQL, its numbers by name}; ? is a parameter.
local STEPS = {
   { "UPDATE pgbench_accounts SET abalance = abalance + ? WHERE aid = ?", "delta", "aid" },
   { "SELECT abalance FROM pgbench_accounts WHERE aid = ?", "aid" },
   { "UPDATE pgbench_tellers SET tbalance = tbalance + ? WHERE tid = ?", "delta", "tid" },
   { "UPDATE pgbench_branches SET bbalance = bbalance + ? WHERE bid = ?", "delta", "bid" },
   { "INSERT INTO pgbench_history (tid, bid, aid, delta, mtime) " ..
     "VALUES (?, ?, ?, ?, CURRENT_TIMESTAMP)", "tid", "bid", "aid", "delta" },
}

local connection, begin, commit, steps
local numbers = {}

-- A statement of `step`, and what puts the numbers into it.
local function prepared(step)
   local names = { unpack(step, 2) }
   if sysbench.opt.sqlite ~= "" then
      local statement = connection:prepare(step[1])
      return { statement = statement, fill = function()
         for position, name in ipairs(names) do
            statement:bind(position, numbers[name])
         end
      end }
   end
   local statement, bound = transactions.prepared(connection, step[1], #names)
   return { statement = statement, fill = function()
      for position, name in ipairs(names) do
         bound[position]:set(numbers[name])
      end
   end }
end

function thread_init(client)
   if sysbench.opt.sqlite ~= "" then
      local driver = dofile(sysbench.opt.sqlite_driver)
      connection =
         driver.connect(sysbench.opt.sqlite, sysbench.opt.pragmas, sysbench.opt.busy_timeout)
   else
      connection = sysbench.sql.driver():connect()
   end
   -- SQLite: a writer says at once that it is one, and cannot get into another's way later.
   begin = connection:prepare(sysbench.opt.sqlite ~= "" and "BEGIN IMMEDIATE" or "BEGIN")
   commit = connection:prepare("COMMIT")
   steps = {}
   for place, step in ipairs(STEPS) do
      steps[place] = prepared(step)
   end
   transactions.begin()
end

local function transaction()
   begin:execute()
   for place = 1, #steps do
      steps[place].fill()
      steps[place].statement:execute()
   end
   commit:execute()
end

function event()
   local uniform = sysbench.rand.uniform
   local scale = sysbench.opt.scale
   numbers.aid = uniform(1, ACCOUNTS * scale)
   numbers.bid = uniform(1, scale)
   numbers.tid = uniform(1, TELLERS * scale)
   numbers.delta = uniform(0, 2 * DELTA) - DELTA
   transactions.run(connection, 0, transaction, transactions.COMMITTED)
end

function thread_done(client)
   -- A connection with open statements would not be closed.
   begin:close()
   commit:close()
   for _, step in ipairs(steps) do
      step.statement:close()
   end
   connection:disconnect()
   transactions.finish(client)
end
