-- lacks_memory reports whether the server has reached maxmemory. It uses a command that needs
-- memory and changes nothing: no member of a zset has an empty name. Call it before the first
-- write. After a write the server refuses nothing, and the answer is no.
local function lacks_memory(zset)
  local reply = redis.pcall('ZADD', zset, 'XX', 0, '')
  return type(reply) == 'table' and string.find(reply.err, 'OOM', 1, true) ~= nil
end

