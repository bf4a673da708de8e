-- Plain requests in the words of acquire.lua and release.lua. The counter, and how many ms it
-- outlives its token, are the same for the whole call.

-- all_keys returns the KEYS of a single claim.
local function all_keys(lock, counter)
  local tag = '{' .. lock .. '}:'
  return { lock, tag .. 'q', tag .. 's', tag .. 'w', tag .. 'h', tag .. 'i', tag .. 'f', tag .. 'r', counter }
end

local function of_acquire(outlives, owner, ttl, notes, wanted, rest)
  local wait, patience, claim, waited, before, number, part, inbox =
    string.match(rest, '^(%d) (%d+) (%d+) (%d+) (%d+) (%d+) (%d) (.*)$')
  return {
    owner, outlives == '0' and '1' or '0', outlives, 'x', ttl, wait, patience, claim, inbox, '0', notes, waited, before, number,
    wanted, part,
  }
end

local function of_release(outlives, mine)
  local owner, token = string.match(mine, '^([^:]*):(%d*)')
  return { owner, outlives == '0' and '1' or '0', outlives, 'x', token == '' and '0' or token }
end
