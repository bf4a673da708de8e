-- The last step of a set whose claims take several scripts: it gives all claims one token and a
-- full TTL. The token is the highest one of the steps before.
--
-- ARGV  5 TTL in ms
--       6 the token
--       7 notes
-- Reply 1: done; otherwise {index of a claim that has been lost meanwhile}.

begin(KEYS, ARGV)

local ttl, token, notes = ARGV[5], ARGV[6], ARGV[7]

for i, c in ipairs(claims) do
  look(c)
  if held(c, me) ~= c.mode then
    return { i - 1 }
  end
end
for _, c in ipairs(claims) do
  stamp(c, { owner = me, notes = notes }, token, ttl)
  raise_counter(c, tonumber(token))
end
return 1
