-- engine.lua: runs many Lua scripts in one process, for routes with mode = "rte". docs/reference/engine-protocol.md explains each step.
--   engine = { program = "lua5.4", arguments = ["/usr/local/lib/sluice/lua/engine.lua"] }
-- Lua has no setenv, stat or chdir: os.getenv() and the table `environment` have the variables of the request, a script is compiled again
-- when its text has changed, and the working directory is that of the first script.
for _, option in ipairs(arg) do
    io.stderr:write("engine.lua: unknown option ", option, "\n")
    os.exit(64)
end

local getenv, exit_process, stdout, locale, path, cpath = os.getenv, os.exit, io.stdout, os.setlocale(), package.path, package.cpath
local final, escape, close = getenv("CGIPLUSEOF"), getenv("CGIPLUSESC"), getenv("CGIPLUSEOT")
local requests = assert(io.open(getenv("CGIPLUSIN"), "rb"))
local BUFFER_BYTES, CHUNK_BYTES = 65536, 65536
local output, chunks, bytes, has_sent, variables, compiled = {}, {}, 0, false, {}, {}
stdout:setvbuf("no") -- one write(2) for each send()
io.stdin:setvbuf("no") -- nothing of a body stays in a buffer of this process

-- ---- Output: kept until the end of the script, 64 KiB or a flush ----

local function send(text)
    has_sent = has_sent or bytes > 0
    assert(stdout:write(table.concat(chunks), text))
    chunks, bytes = {}, 0
end

function output:write(...)
    for at = 1, select("#", ...) do
        local value = select(at, ...)
        local kind = math.type(value) and "number" or type(value)
        if kind ~= "string" and kind ~= "number" then error(("bad argument #%d to 'write' (string expected, got %s)"):format(at, kind), 2) end
        chunks[#chunks + 1] = value
        bytes = bytes + #tostring(value)
    end
    if bytes > BUFFER_BYTES then send("") end
    return self
end
function output:flush() send("") return self end
function output:setvbuf() return true end
function output:close() return true end

io.stdout, io.write = output, function(...) return output:write(...) end
io.output, io.flush = function() return output end, function() return output:flush() end
function print(...)
    local values = table.pack(...)
    for at = 1, values.n do values[at] = tostring(values[at]) end
    output:write(table.concat(values, "\t"), "\n")
end
function os.getenv(name) return name ~= "CGIPLUSEOF" and name ~= "CGIPLUSSOCK" and (variables[name] or getenv(name)) or nil end
local Exit = {}
function os.exit(code) error(setmetatable({ code = code == nil and 0 or code == true and 0 or tonumber(code) or 1 }, Exit), 0) end
getmetatable("").__metatable = false -- so that no script replaces the methods of all strings

-- ---- Requests: records of lines, or blocks after `!CGIPLUS: struct` ----

-- The variables of the next request; at end-of-file the process ends.
local function accept()
    local start = requests:read("l")
    while start and not start:match("^!!?%d*$") do start = requests:read("l") end -- answers that no script has read
    if not start then exit_process(0) end
    local read, block, at = {}, start:match("^!!(%d+)$"), 1
    block = block and requests:read(tonumber(block))
    while true do
        local entry
        if block then entry, at = string.unpack("<s2", block, at) else entry = requests:read("l") end
        if not entry then exit_process(1) end
        if entry == "" then return read end
        local name, value = entry:match("^([^=]*)=(.*)$")
        read[name] = block and value:sub(1, -2) or value -- without its NUL
    end
end

-- The body, in a file that is removed when it is closed, because Lua cannot limit standard input. nil if there is none.
local function body()
    local left = tonumber(variables.CONTENT_LENGTH) or 0
    local file = left == 0 and assert(io.open("/dev/null", "rb")) or assert(io.tmpfile())
    while left > 0 do
        local chunk = io.stdin:read(math.min(left, CHUNK_BYTES)) or error("the client has left within the body", 0)
        assert(file:write(chunk))
        left = left - #chunk
    end
    file:seek("set")
    return file
end

-- ---- Scripts ----

-- The script as a function with globals of its own. Assignments to `string.x` and the like stay in a table that only it sees.
local function load_script(name)
    local file = assert(io.open(name, "rb"))
    local text = file:read("a"):gsub("^#[^\n]*", "")
    file:close()
    if not compiled[name] or compiled[name].text ~= text then
        compiled[name] = { text = text, code = string.dump(assert(load(text, "@" .. name, "t"))) }
    end
    local globals = setmetatable({ environment = variables }, { __index = _G })
    globals._G = globals
    for _, library in ipairs({ "coroutine", "debug", "io", "math", "os", "string", "table", "utf8" }) do
        globals[library] = setmetatable({}, { __index = _G[library] })
    end
    return load(compiled[name].code, "@" .. name, "b", globals)
end

local function run()
    local input = body()
    io.input(input)
    rawset(io, "stdin", input)
    arg = { [0] = variables.SCRIPT_FILENAME }
    load_script(variables.SCRIPT_FILENAME)()
end

local real_stdin = io.stdin

-- One request. What a script leaves behind is reachable from this function's frame only, so that the collector finds it afterwards.
local function serve()
    io.stdin, has_sent = real_stdin, false
    -- In a coroutine of its own: a hook that a script sets (debug.sethook) ends with it.
    local ok, fault = coroutine.wrap(xpcall)(run, function(fault) return getmetatable(fault) == Exit and fault or debug.traceback(tostring(fault), 2) end)
    local code = ok and 0 or getmetatable(fault) == Exit and fault.code
    local has_reply = has_sent or bytes > 0
    if has_reply and code then return send(final) end
    fault = code and (code == 0 and "the script wrote no reply" or "exit status " .. code) or fault
    io.stderr:write(fault, "\n")
    chunks, bytes = {}, 0
    send(escape .. "\n!FAILED: " .. fault:match("[^\n]*"):gsub("%c", " ") .. "\n" .. close .. "\n" .. final)
end

local is_first = true
while true do
    variables = accept()
    if is_first then send(escape .. "\n!CGIPLUS: struct\n" .. close .. "\n") end
    is_first = false
    serve()
    -- What a script may have changed is put back. Files that it left open are closed by the collector.
    io.input():close()
    os.setlocale(locale)
    package.path, package.cpath = path, cpath
    collectgarbage("restart")
    collectgarbage()
end
