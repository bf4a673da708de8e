-- The scripts and the short ways of a batch share this code about waiters. It stands in
-- front of both.
--
-- A waiter's entry, in the hash of the waiters, is
--   "version expires claim mode permits since arrived number wanted notes inbox"
-- version   1. Processes of another release may write entries of another version. Nobody
--           here can tell what these want or how to reach them. They count until they
--           expire: the second word of an entry says when, in every version. They are
--           passed over until they ask.
-- expires   the end of the entry, in ms
-- claim     how many ms a lease is kept until its owner confirms or renews it
-- since     when it asked first
-- arrived   when it got in line; it puts the waiters of both queues in one order
-- number    of the question that made the entry; "0": no message is a grant to it
-- wanted    how many tokens it wants reserved for hand-offs
-- inbox     where to tell the owner's process that it is its turn; without one the
--           owner asks by itself, well within its claim time

local entry_version = '1'

-- write_entry returns the entry of a waiter. All fields except the inbox are in words.
local function write_entry(...)
  return entry_version .. ' ' .. table.concat({ ... }, ' ')
end

-- read_entry returns the fields behind the version as text. It returns nothing if there is no
-- entry, and if the entry has another version.
local function read_entry(entry)
  return string.match(entry or '', '^' .. entry_version .. ' (%d+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
end

-- contended is how many tokens are reserved at most while a process takes turns with others: its
-- engine makes no use of more.
local contended = 64

-- nobody_waits reports whether nobody waits for the key whose waiters' hash has that name, or for
-- any of several. Both queues are empty then: every owner in a queue has an entry, and the hash
-- lives at least as long as the queues.
local function nobody_waits(...)
  return redis.call('EXISTS', ...) == 0
end
