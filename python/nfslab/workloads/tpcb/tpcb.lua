-- The transaction of pgbench's tpcb-like, for sysbench: on PostgreSQL, MariaDB and SQLite.
--
-- Statements are prepared once a connection; BEGIN and COMMIT are statements, too. A transaction
-- that the database gives up (deadlock, lock timeout, serialisation error, busy) is rolled back and
-- tried again with the same numbers, MAX_TRIES times in all; then it has failed.
--
-- Log: a file for each client, rows of four 64-bit numbers of this machine's byte order:
-- completed (CLOCK_MONOTONIC, ns), latency (ns; of all tries), retries, 1 if it failed.

local ffi = require("ffi")

ffi.cdef[[
typedef struct { long s; long ns; } nfslab_timespec;
int clock_gettime(int, nfslab_timespec *);
void *realloc(void *, size_t);
typedef struct { int64_t completed_ns, latency_ns, retries, failed; } nfslab_row;
]]

local ACCOUNTS, TELLERS = 100000, 10  -- of a branch
local DELTA = 5000
local ROWS_AT_FIRST, ROWS_MOST = 65536, 64 * 1024 * 1024
local CLOCK_MONOTONIC = 1

sysbench.cmdline.options = {
   scale = { "Branches", 1 },
   max_tries = { "Tries of a transaction", 10 },
   log = { "Rows of each client go to LOG.CLIENT; empty: to no file", "" },
   sqlite = { "Database of SQLite; empty: --db-driver", "" },
   sqlite_driver = { "Where sqlite.lua is", "" },
   pragmas = { "name=value;...", "" },
   busy_timeout = { "Milliseconds that SQLite waits for a lock", 10000 },
}

local clock = ffi.new("nfslab_timespec[1]")

local function now_ns()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
   return clock[0].s * 1000000000LL + clock[0].ns
end

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
local numbers, rows, room, count = {}, nil, 0, 0

-- A statement of `step`, and what puts the numbers into it.
local function prepared(step)
   local statement = connection:prepare(step[1])
   local names = { unpack(step, 2) }
   if sysbench.opt.sqlite ~= "" then
      return { statement = statement, fill = function()
         for position, name in ipairs(names) do
            statement:bind(position, numbers[name])
         end
      end }
   end
   local bound = {}
   for position, _ in ipairs(names) do
      bound[position] = statement:bind_create(sysbench.sql.type.INT)
   end
   statement:bind_param(unpack(bound))
   return { statement = statement, fill = function()
      for position, name in ipairs(names) do
         bound[position]:set(numbers[name])
      end
   end }
end

local function grow()
   room = math.max(ROWS_AT_FIRST, 2 * room)
   rows = room <= ROWS_MOST and ffi.C.realloc(rows, room * ffi.sizeof("nfslab_row")) or nil
   if rows == nil then
      error(("no room for more than %d transactions of a client: shorten the run"):format(count))
   end
   rows = ffi.cast("nfslab_row *", rows)
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
   grow()
end

local function transaction()
   begin:execute()
   for place = 1, #steps do
      steps[place].fill()
      steps[place].statement:execute()
   end
   commit:execute()
end

-- True where it is to be tried again; any other error ends sysbench.
local function given_up(problem)
   if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
      error(problem, 0)
   end
   -- MariaDB has not rolled back after a lock timeout; there may be nothing left to roll back.
   pcall(connection.query, connection, "ROLLBACK")
end

function event()
   local uniform = sysbench.rand.uniform
   local scale = sysbench.opt.scale
   numbers.aid = uniform(1, ACCOUNTS * scale)
   numbers.bid = uniform(1, scale)
   numbers.tid = uniform(1, TELLERS * scale)
   numbers.delta = uniform(0, 2 * DELTA) - DELTA
   local began_ns, retries, done = now_ns(), 0, false
   while true do
      local problem
      done, problem = pcall(transaction)
      if done then
         break
      end
      given_up(problem)
      if retries + 1 >= sysbench.opt.max_tries then
         break
      end
      retries = retries + 1
   end
   if count == room then
      grow()
   end
   local row = rows[count]
   row.completed_ns = now_ns()
   row.latency_ns = row.completed_ns - began_ns
   row.retries, row.failed = retries, done and 0 or 1
   count = count + 1
end

function thread_done(client)
   -- A connection with open statements would not be closed.
   begin:close()
   commit:close()
   for _, step in ipairs(steps) do
      step.statement:close()
   end
   connection:disconnect()
   if sysbench.opt.log ~= "" then
      local file = assert(io.open(("%s.%d"):format(sysbench.opt.log, client), "wb"))
      assert(file:write(ffi.string(rows, count * ffi.sizeof("nfslab_row"))))
      assert(file:close())
   end
end
