-- count: a module with a number, for counter.lua.
local number = 0
return {
    next = function()
        number = number + 1
        return number
    end,
}
