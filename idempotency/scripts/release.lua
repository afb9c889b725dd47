-- Removes the record of a claim.
--
-- KEYS[1]  name of the record
-- ARGV[1]  owner token of the claim, 16 bytes
-- ARGV[2]  1: remove it if it has been answered; 0: if it has not
--
-- Returns 1 if there is no record now, removed by this call or gone before; 0 if
-- the record belongs to someone else or is not as said, and nothing was changed.
-- Offsets are those of codec.go, plus one.

local record = redis.call('GET', KEYS[1])
if not record then
  return 1
end
if #record < 56 or string.sub(record, 1, 4) ~= 'SLR\1' then
  return redis.error_reply('FOREIGN no record of this version')
end
local state = string.byte(record, 5)
local answered = state == 2 or state == 3
if string.sub(record, 9, 24) ~= ARGV[1] or answered ~= (ARGV[2] == '1') then
  return 0
end
redis.call('DEL', KEYS[1])
return 1
