-- Seal: writes the token of a grant into a vote, and gives it its full TTL once more.
--
-- KEYS  1 lock, 2 counter
-- ARGV  1 owner, 2 TTL in ms, 3 token, 4 how many tokens behind it are reserved, 5 ms that the
--       counter outlives its last token
-- Reply {1, time in µs}; {0, time in µs} if the vote is not the owner's

local owner, ttl, token, reserved = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local value = read(KEYS[1])
if not owns(value, owner) then
  return { 0, now }
end
local last = tonumber(token) + tonumber(reserved)
if (tonumber(redis.call('GET', KEYS[2])) or 0) < last then
  redis.call('SET', KEYS[2], digits(last), 'PX', digits(ARGV[5] + math.max(0, math.floor((last - now) / 1000))))
end
local since, tail = string.match(value, '^%d+:%d+(:%d+:)%d+(:.*)$', #owner + 2)
redis.call('SET', KEYS[1], owner .. ':' .. token .. ':' .. reserved .. since .. ttl .. tail, 'PX', ttl)
return { 1, now }
