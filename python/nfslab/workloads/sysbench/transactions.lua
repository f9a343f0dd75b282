-- What scripts of ours for sysbench share: a transaction is tried again when the database gives it
-- up (deadlock, lock timeout, serialisation error, busy), and is logged.
--
--    local transactions = dofile(...)          each of sysbench's threads has its own
--    sysbench.cmdline.options = transactions.options({ ... })
--    thread_init: transactions.begin()    event: transactions.run(...)    thread_done: .finish(client)
--
-- What is tried again has the same numbers, MAX_TRIES times in all; then it has failed.
--
-- Log: a file for each client, rows of five 64-bit numbers of this machine's byte order:
-- completed (CLOCK_MONOTONIC, ns), latency (ns; of all tries), retries, how it ended, and which of
-- the script's transactions it was (from 0).

local ffi = require("ffi")

ffi.cdef[[
typedef struct { long s; long ns; } nfslab_timespec;
int clock_gettime(int, nfslab_timespec *);
void *realloc(void *, size_t);
typedef struct { int64_t completed_ns, latency_ns, retries, ended, script; } nfslab_row;
]]

local ROWS_AT_FIRST, ROWS_MOST = 65536, 64 * 1024 * 1024
local CLOCK_MONOTONIC = 1

local M = { COMMITTED = 0, FAILED = 1, ROLLED_BACK = 2 }  -- how it ended: rows.py has the same

local clock = ffi.new("nfslab_timespec[1]")
local rows, room, count = nil, 0, 0

function M.options(more)
   more.max_tries = { "Tries of a transaction", 10 }
   more.log = { "Rows of each client go to LOG.CLIENT; empty: to no file", "" }
   return more
end

local function now_ns()
   ffi.C.clock_gettime(CLOCK_MONOTONIC, clock)
   return clock[0].s * 1000000000LL + clock[0].ns
end

local function grow()
   room = math.max(ROWS_AT_FIRST, 2 * room)
   rows = room <= ROWS_MOST and ffi.C.realloc(rows, room * ffi.sizeof("nfslab_row")) or nil
   if rows == nil then
      error(("no room for more than %d transactions of a client: shorten the run"):format(count))
   end
   rows = ffi.cast("nfslab_row *", rows)
end

M.begin = grow

-- A statement whose numbers are bound anew each time: set them, execute it, close it.
function M.prepared(connection, sql, length)
   local statement = connection:prepare(sql)
   local bound = {}
   for position = 1, length do
      bound[position] = statement:bind_create(sysbench.sql.type.INT)
   end
   if length > 0 then
      statement:bind_param(unpack(bound))
   end
   return statement, bound
end

-- True where it is to be tried again; any other error ends sysbench.
local function given_up(connection, problem)
   if type(problem) ~= "table" or problem.errcode ~= sysbench.error.RESTART_EVENT then
      error(problem, 0)
   end
   -- MariaDB has not rolled back after a lock timeout; there may be nothing left to roll back.
   pcall(connection.query, connection, "ROLLBACK")
end

-- `ended`: how it ends, if it comes to its end.
function M.run(connection, script, transaction, ended)
   local began_ns, retries, done = now_ns(), 0, false
   while true do
      local problem
      done, problem = pcall(transaction)
      if done then
         break
      end
      given_up(connection, problem)
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
   row.retries, row.script = retries, script
   row.ended = done and ended or M.FAILED
   count = count + 1
end

function M.finish(client)
   if sysbench.opt.log ~= "" then
      local file = assert(io.open(("%s.%d"):format(sysbench.opt.log, client), "wb"))
      assert(file:write(ffi.string(rows, count * ffi.sizeof("nfslab_row"))))
      assert(file:close())
   end
end

return M
