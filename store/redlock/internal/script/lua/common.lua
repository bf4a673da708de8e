-- The code that the scripts share. It stands in front of each of them.
--
-- A lock's value is "owner:token:reserved:since:ttl:rule|trace:round". Any other value is a foreign
-- client's. The round is that of the request that got the vote last. A request that takes a vote back,
-- or seals it, names its round: it may arrive late, when the owner has the vote again.

-- owns compares up to the colon, which no owner contains: "ab" is not "abc".
local function owns(value, owner)
  return value and string.sub(value, 1, #owner + 1) == owner .. ':'
end

-- digits converts a number to text. Lua's own conversion turns 1763683200000000 into
-- 1.7636832e+15.
local function digits(n)
  return string.format('%.0f', n)
end

-- read returns the value of a lock, or false. A key of another type is nobody's lock.
local function read(lock)
  local value = redis.pcall('GET', lock)
  return type(value) == 'string' and value
end

-- robbed returns the reason if a ForceRelease took the lease of owner with that token; "": of any
-- token. A key of another type says nothing, and must not keep other leases from being renewed.
local function robbed(forced, owner, token)
  local said = redis.pcall('HGET', forced, owner)
  local taken, reason = string.match(type(said) == 'string' and said or '', '^(%d*):(.*)$')
  if taken and (token == '' or token == taken) then
    return reason
  end
end

-- call tells the first waiter in line that can be reached that it is its turn. Until that waiter
-- asks, but for ms at most, nobody else gets this node's vote. It returns 1 if there was such a
-- waiter.
local function call(line, turn, ms)
  for _ = 1, 100 do
    local ticket = redis.call('LPOP', line)
    if not ticket then
      return 0
    end
    local inbox, owner = string.match(ticket, '^(%S+) (%S+)$')
    local heard = redis.pcall('PUBLISH', inbox, owner)
    if type(heard) == 'number' and heard > 0 then
      redis.call('SET', turn, owner, 'PX', ms)
      return 1
    end
  end
  return 0
end
