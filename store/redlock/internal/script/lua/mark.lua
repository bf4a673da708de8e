-- Mark: lets a new node vote at once.
--
-- KEYS  1 mark
-- ARGV  1 ms of the longest TTL; "": only look, 2 the run id of this server
-- Reply the mark as it was, or ""

local mark = redis.call('GET', KEYS[1]) or ''
if mark == '' and ARGV[1] ~= '' then
  local time = redis.call('TIME')
  redis.call('SET', KEYS[1], ARGV[2] .. ':' .. digits(time[1] * 1000000 + time[2] - 1000 * ARGV[1]))
end
return mark
