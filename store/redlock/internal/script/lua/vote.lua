-- Vote: gives the lock to an owner on this node, if it is free here.
--
-- KEYS  1 lock, 2 counter: the last token given or reserved, 3 mark: since when the node votes,
--       4 turn: the waiter that was called last, 5 line: the tickets of those who wait
-- ARGV  1 owner
--       2 TTL in ms
--       3 the token that the owner would like, a time in µs; "0": none
--       4 how many tokens behind it to reserve at most
--       5 notes, "ttl:rule|trace"
--       6 the waiter's ticket, "inbox owner"; "": it does not wait here
--       7 "1": the waiter goes to the front of the line, because it was called and lost
--       8 ms that the counter outlives its last token
--       9 ms of the longest TTL of all leases; "0": the node never forgets
--      10 the round
--      11 the run id of this server, which the client learned on this connection
-- Reply {1, token, reserved, time in µs, 1 if others wait, 1 if the owner had it
--      before}: the vote is the owner's
--      {0, holder's value or "" if it is another's turn, ms left, time in µs, place in line}
--      {2, ms left, time in µs}: the node abstains

-- A free key is what most requests find. Nothing is defined before that case is done.
local owner, ticket = ARGV[1], ARGV[6]
local value, last, mark, turn = unpack(redis.call('MGET', KEYS[1], KEYS[2], KEYS[3], KEYS[4]))
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if not value and (not turn or turn == owner) then
  -- A node that was started anew may have lost the last votes that it gave. Their leases are over
  -- after the longest TTL; until then it gives no vote. A mark from the future means that the clock
  -- was set back.
  if ARGV[9] ~= '0' then
    local run, born = string.match(mark or '', '^(%x+):(%d+)$')
    born = tonumber(born)
    if run ~= ARGV[11] or born > now then
      born = now
      redis.call('SET', KEYS[3], ARGV[11] .. ':' .. string.format('%.0f', born))
    end
    local left = born + 1000 * ARGV[9] - now
    if left > 0 then
      return { 2, math.ceil(left / 1000), now }
    end
  end

  -- What is text already is not converted: that takes as long as half a command.
  local token, text, wanted, reserved = tonumber(ARGV[3]), ARGV[3], tonumber(ARGV[4]), ARGV[4]
  local most = math.max(token, now) + 1000 -- MaxLead of core/driver: what runs ahead of the clocks falls when the data is lost
  local floor = (tonumber(last) or 0) + 1
  if token < floor then
    token, text = floor, string.format('%.0f', floor)
  end
  if token + wanted > most then
    wanted = math.max(0, most - token)
    reserved = string.format('%.0f', wanted)
  end
  -- The counter comes first. If the lock can't be written, a number is left out, and no more.
  local outlives = token + wanted > now and string.format('%.0f', ARGV[8] + math.floor((token + wanted - now) / 1000)) or ARGV[8]
  redis.call('SET', KEYS[2], string.format('%.0f', token + wanted), 'PX', outlives)
  local since = time[1] .. string.sub('00000' .. time[2], -6, -4)
  local lease = owner .. ':' .. text .. ':' .. reserved .. ':' .. since .. ':' .. ARGV[5] .. ':' .. ARGV[10]
  if not redis.call('SET', KEYS[1], lease, 'PX', ARGV[2], 'NX') then
    return redis.error_reply('WRONGTYPE the key holds something that is not a lock')
  end
  if turn then
    redis.call('DEL', KEYS[4])
  end
  if ticket ~= '' then
    redis.call('LREM', KEYS[5], 0, ticket)
  end
  return { 1, token, wanted, now, redis.call('EXISTS', KEYS[5]), 0 }
end

if value and string.sub(value, 1, #owner + 1) == owner .. ':' then
  local head, token, reserved, notes = string.match(value, '^((%d+):(%d+):%d+:)%d+(:[^:]*):%d+$', #owner + 2)
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  -- A borrower may renew for the TTL that the owner asked for last.
  redis.call('SET', KEYS[1], owner .. ':' .. head .. ARGV[2] .. notes .. ':' .. ARGV[10], 'PX', ARGV[2])
  return { 1, tonumber(token), tonumber(reserved), now, redis.call('EXISTS', KEYS[5]), 1 }
end
