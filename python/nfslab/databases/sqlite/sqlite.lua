-- SQLite for sysbench, which has no driver of it: the machine's library through LuaJIT's ffi.
-- A connection and its statements answer as sysbench's own do where tpcb.lua calls them.

local ffi = require("ffi")

ffi.cdef[[
typedef struct sqlite3 sqlite3;
typedef struct sqlite3_stmt sqlite3_stmt;
int sqlite3_open_v2(const char *, sqlite3 **, int, const char *);
int sqlite3_close_v2(sqlite3 *);
int sqlite3_busy_timeout(sqlite3 *, int);
int sqlite3_extended_errcode(sqlite3 *);
const char *sqlite3_errmsg(sqlite3 *);
int sqlite3_prepare_v2(sqlite3 *, const char *, int, sqlite3_stmt **, const char **);
int sqlite3_bind_int64(sqlite3_stmt *, int, int64_t);
int sqlite3_step(sqlite3_stmt *);
int sqlite3_reset(sqlite3_stmt *);
const char *sqlite3_column_text(sqlite3_stmt *, int);
int sqlite3_finalize(sqlite3_stmt *);
]]

local OK, BUSY, ROW, DONE = 0, 5, 100, 101
local OPEN_READWRITE, OPEN_NOMUTEX = 0x2, 0x8000  -- no connection is shared by threads

local library = ffi.load("libsqlite3.so.0")

local Connection, Statement = {}, {}
Connection.__index, Statement.__index = Connection, Statement

-- As sysbench raises it: a table where the transaction may be tried again, a text otherwise.
function Connection:fail(what)
   local code = library.sqlite3_extended_errcode(self.handle)
   local said = ffi.string(library.sqlite3_errmsg(self.handle))
   if bit.band(code, 0xff) == BUSY then
      error({ errcode = sysbench.error.RESTART_EVENT, sql_errno = code, sql_errmsg = said })
   end
   error(("SQLite, error %d: %s (%s)"):format(code, said, what))
end

function Connection:prepare(sql)
   local made = ffi.new("sqlite3_stmt *[1]")
   if library.sqlite3_prepare_v2(self.handle, sql, #sql, made, nil) ~= OK then
      self:fail(sql)
   end
   return setmetatable({ connection = self, handle = made[0], sql = sql }, Statement)
end

-- The first column of the first row, as text.
function Connection:query_row(sql)
   local statement = self:prepare(sql)
   local found = library.sqlite3_step(statement.handle)
   local text = found == ROW and library.sqlite3_column_text(statement.handle, 0) or nil
   text = text ~= nil and ffi.string(text) or nil
   if library.sqlite3_finalize(statement.handle) ~= OK then
      self:fail(sql)
   end
   return text
end

Connection.query = Connection.query_row

function Connection:disconnect()
   library.sqlite3_close_v2(self.handle)
end

function Statement:bind(position, value)
   library.sqlite3_bind_int64(self.handle, position, value)
end

function Statement:execute()
   repeat
      local found = library.sqlite3_step(self.handle)
   until found ~= ROW
   if library.sqlite3_reset(self.handle) ~= OK then
      self.connection:fail(self.sql)
   end
end

function Statement:close()
   library.sqlite3_finalize(self.handle)
end

-- A pragma that did not take effect is an error: the figures would be another mode's.
local function set(connection, name, wanted)
   connection:query_row(("PRAGMA %s = %s"):format(name, wanted))
   local found = connection:query_row("PRAGMA " .. name)
   if found ~= wanted then
      error(("PRAGMA %s is %s, not %s, as was asked for"):format(name, found, wanted))
   end
end

-- `pragmas`: "journal_mode=wal;synchronous=2".
local function connect(path, pragmas, busy_timeout_ms)
   local made = ffi.new("sqlite3 *[1]")
   local code = library.sqlite3_open_v2(path, made, OPEN_READWRITE + OPEN_NOMUTEX, nil)
   local connection = setmetatable({ handle = made[0] }, Connection)
   if code ~= OK then
      connection:fail(path)
   end
   library.sqlite3_busy_timeout(connection.handle, busy_timeout_ms)
   for name, wanted in pragmas:gmatch("([%w_]+)=([^;]+)") do
      set(connection, name, wanted)
   end
   return connection
end

return { connect = connect }
