-- Replaces a running record whose lease is over. One step, by the clock of this
-- server: a record is written with its whole retention before it, so its age is
-- retention minus what is left of it.
--
-- KEYS[1]  name of the record
-- ARGV[1]  owner token that the record must still have, 16 bytes
-- ARGV[2]  record to write instead, as bytes
-- ARGV[3]  its retention, in milliseconds
--
-- Returns {record, left}: what is there afterwards, and how much of its
-- retention is left, in milliseconds; {false, 0} where there is nothing.
-- Offsets are those of codec.go, plus one. Milliseconds of any retention are
-- exact in Lua's doubles up to 285,000 years.

local record = redis.call('GET', KEYS[1])
if not record then
  return {false, 0}
end
if #record < 56 or string.sub(record, 1, 4) ~= 'SLR\1' then
  return redis.error_reply('FOREIGN no record of this version')
end
local left = redis.call('PTTL', KEYS[1])
local in_flight = string.byte(record, 5) == 1
if in_flight and string.sub(record, 9, 24) == ARGV[1] then
  local lease = struct.unpack('>I4', record, 29)
  local retention = struct.unpack('>I8', record, 33)
  -- left is -1 where someone took the time limit away: then nothing is known.
  if left >= 0 and retention - left > lease then
    redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
    return {ARGV[2], tonumber(ARGV[3])}
  end
end
return {record, left}
