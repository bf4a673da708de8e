-- A group commit: the requests of many callers, one after the other, in one
-- call. ops, put in front of this, holds the scripts as functions of their own
-- KEYS and ARGV.
--
-- ARGV  per request: its script's place in ops, the number of its keys, that of
--       its arguments, and those arguments. The keys stand in KEYS, in order.
-- Reply one reply per request, in order. One that fails has its error there and
-- does not keep the others from being carried out.
--
-- What a script says about memory holds here for the requests up to the first
-- that writes: later ones may take a few hundred bytes more than the server is
-- allowed to use, which is better than to refuse what comes behind a renewal.

local replies = {}
local k, a = 0, 0
while a < #ARGV do
  local op, nkeys, nargs = tonumber(ARGV[a + 1]), tonumber(ARGV[a + 2]), tonumber(ARGV[a + 3])
  local keys = { unpack(KEYS, k + 1, k + nkeys) }
  local args = { unpack(ARGV, a + 4, a + 3 + nargs) }
  k = k + nkeys
  a = a + 3 + nargs
  local ok, reply = pcall(ops[op], keys, args)
  if not ok and type(reply) ~= 'table' then
    reply = { err = reply } -- as servers before 7.0 raise it
  end
  replies[#replies + 1] = reply
end
return replies
