-- The last step of a set whose claims take several scripts: it gives all claims one token and a
-- full TTL. The token is the highest one of the steps before.
--
-- ARGV  5 TTL in ms
--       6 the token
--       7 notes
-- Reply 1: done; otherwise {index of a claim}: it has been lost meanwhile, or others hold it beside
--      me by tokens that may be this one. Then it has a new token, and the steps start again.

begin(KEYS, ARGV)

local ttl, token, notes = ARGV[5], ARGV[6], ARGV[7]

for i, c in ipairs(claims) do
  look(c)
  local mode, own = held(c, me)
  if mode ~= c.mode then
    return { i - 1 }
  end
  -- Where each lock has a counter, the token comes from another one. If this one has passed it
  -- since this claim was granted, another reader or permit holder may have the same token.
  if not single and own ~= token and tonumber(redis.call('GET', c.counter) or '0') >= tonumber(token) then
    stamp(c, me, notes, written((take_tokens(c.counter, counter_ttl, 1, 0, (clock())))), ttl)
    return { i - 1 }
  end
end
for _, c in ipairs(claims) do
  stamp(c, me, notes, token, ttl)
  raise_counter(c, tonumber(token))
end
return 1
