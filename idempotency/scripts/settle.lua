-- Writes what came of a request over the record that its claim left.
--
-- KEYS[1]  name of the record
-- ARGV[1]  owner token of the claim, 16 bytes
-- ARGV[2]  record to write, as bytes
-- ARGV[3]  its retention, in milliseconds
--
-- Returns 1 if the record says so now: written by this call or, where the
-- reply of an earlier one was lost, by that; 0 if the record belongs to someone
-- else, and nothing was changed.
-- Offsets are those of codec.go, plus one.

local record = redis.call('GET', KEYS[1])
if record then
  if #record < 56 or string.sub(record, 1, 4) ~= 'SLR\1' then
    return redis.error_reply('FOREIGN no record of this version')
  end
  local owner = string.sub(record, 9, 24)
  local state = string.byte(record, 5)
  local answered = state == 2 or state == 3
  if answered and owner == string.sub(ARGV[2], 9, 24) then
    return 1
  end
  if answered or owner ~= ARGV[1] then
    return 0
  end
end
-- Where the store has lost the claim it is told the answer all the same:
-- forgetting what happened could only repeat it.
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
