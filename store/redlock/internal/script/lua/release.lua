-- Release: takes a vote back. A waiter that gives up sends it, too.
--
-- KEYS  1 lock, 2 line, 3 turn, 4 forced: hash of owner -> "token:reason"
-- ARGV  1 owner, 2 token; "": any, 3 the ticket of a waiter that gives up; "": none, 4 ms of a turn,
--       5 the round of the vote; "": any
-- Reply {1, 1 if a waiter was called}: the vote was the owner's; {0} if not; {0, reason} if a
--      ForceRelease took it

local owner, token, ticket, round = ARGV[1], ARGV[2], ARGV[3], ARGV[5]
local value = read(KEYS[1])
local mine = owns(value, owner)
if mine then
  local has, of = string.match(value, '^(%d+):.*:(%d+)$', #owner + 2)
  mine = (token == '' or token == has) and (round == '' or round == of)
end
if mine then
  redis.call('DEL', KEYS[1])
end
local turn = false
if ticket ~= '' then
  redis.call('LREM', KEYS[2], 0, ticket)
  turn = redis.call('GET', KEYS[3]) == owner
  if turn then
    redis.call('DEL', KEYS[3])
  end
end
local called = 0
if mine or turn and not value then
  called = call(KEYS[2], KEYS[3], ARGV[4])
end
if mine then
  return { 1, called }
end
return { 0, robbed(KEYS[4], owner, token) }
