-- Seal: writes the token of a grant into a vote, and gives it its full TTL once more.
--
-- It names its round. When it arrives late, the owner may have the vote again, with a greater token,
-- because another owner had the lease in between. The token of the earlier round would be one that
-- falls.
--
-- KEYS  1 lock, 2 counter
-- ARGV  1 owner, 2 TTL in ms, 3 token, 4 how many tokens behind it are reserved, 5 ms that the
--       counter outlives its last token, 6 the round
-- Reply 1; 0 if the vote is not the owner's, or of another round

local owner, ttl, token, reserved, round = ARGV[1], ARGV[2], ARGV[3], ARGV[4], ARGV[6]
local value = read(KEYS[1])
if not owns(value, owner) then
  return 0
end
local since, notes, of = string.match(value, '^%d+:%d+(:%d+:)%d+(:.*:)(%d+)$', #owner + 2)
if of ~= round then
  return 0
end
local time, last = redis.call('TIME'), tonumber(token) + tonumber(reserved)
local now = time[1] * 1000000 + time[2]
if (tonumber(redis.call('GET', KEYS[2])) or 0) < last then
  redis.call('SET', KEYS[2], digits(last), 'PX', digits(ARGV[5] + math.max(0, math.floor((last - now) / 1000))))
end
redis.call('SET', KEYS[1], owner .. ':' .. token .. ':' .. reserved .. since .. ttl .. notes .. round, 'PX', ttl)
return 1
