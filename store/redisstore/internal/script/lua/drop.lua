-- Forget: drops the record and the version, which is the last of KEYS. Reply: how many of them
-- there were.

begin(KEYS, ARGV)

return redis.call('DEL', claims[1].record, KEYS[#KEYS])
