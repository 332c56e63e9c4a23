-- counter: globals are new for each request; a module is loaded once for each process, and keeps its values.
package.path = arg[0]:match("^.*/") .. "?.lua;" .. package.path
local count = require("count")
print("Content-Type: text/plain\nCache-Control: no-store\n")
print(count.next())
