-- What the scripts and the short ways of a batch share about those who wait. It is put in
-- front of both.
--
-- A waiter's entry, in the hash of the waiters, is
--   "version expires claim mode permits since arrived number wanted notes inbox"
-- version is 1. Entries of another version come from processes of another release: nobody
-- here can tell what they want or how to reach them. They count until they expire, which is
-- the first field in every version, and are passed over until they look for themselves.
-- expires is until when the entry counts, in ms; claim for how many ms a lease is kept for
-- its owner until it comes to confirm or to renew it; since and arrived are when it asked
-- first and got in line: arrived puts the waiters of both queues in one order. number is
-- that of the question that made the entry; "0": a message is no grant to who asked it.
-- wanted is how many tokens it wants reserved for hand-offs.
-- inbox is where to tell the owner's process that it is its turn; without one it looks for
-- itself, well within its claim time.

local entry_version = '1'

-- write_entry is the entry of one who waits; all but the inbox are in words.
local function write_entry(...)
  return entry_version .. ' ' .. table.concat({ ... }, ' ')
end

-- read_entry gives the fields behind the version as text; nothing of an entry of another
-- version, or of none.
local function read_entry(entry)
  return string.match(entry or '', '^' .. entry_version .. ' (%d+) (%d+) (%a) (%d+) (%d+) (%d+) (%d+) (%d+) (%S*) (.*)$')
end

-- contended is how many tokens are reserved at most where a process takes turns with others:
-- its engine makes no use of more.
local contended = 64

-- nobody_waits says that nobody waits for the key whose waiters' hash has that name, or for
-- any of several. Both queues are empty then: whoever is in one has an entry, and the hash
-- lives at least as long as they do.
local function nobody_waits(...)
  return redis.call('EXISTS', ...) == 0
end
