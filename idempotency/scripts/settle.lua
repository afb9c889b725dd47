-- Writes what came of requests over the records that their claims left. Each
-- record fares by itself: an error about one changes nothing for the others.
--
-- KEYS[i]      name of the i-th record
-- ARGV[3*i-2]  owner token of its claim, 16 bytes
-- ARGV[3*i-1]  record to write, as bytes
-- ARGV[3*i]    its retention, in milliseconds
--
-- Returns a list. Its i-th element is 1 if the i-th record says so now: written
-- by this call or, where the reply of an earlier one was lost, by that; 0 if the
-- record belongs to someone else, and nothing was changed; an error otherwise.
-- Offsets are those of codec.go, plus one.

local function settle(name, token, next, retention)
  local record = redis.pcall('GET', name)
  if type(record) == 'table' then
    return record -- an error
  end
  if record then
    if #record < 56 or string.sub(record, 1, 4) ~= 'SLR\1' then
      return redis.error_reply('FOREIGN no record of this version')
    end
    local owner = string.sub(record, 9, 24)
    local state = string.byte(record, 5)
    local answered = state == 2 or state == 3
    if answered and owner == string.sub(next, 9, 24) then
      return 1
    end
    if answered or owner ~= token then
      return 0
    end
  end
  -- Where the store has lost the claim it is told the answer all the same:
  -- forgetting what happened could only repeat it.
  local written = redis.pcall('SET', name, next, 'PX', retention)
  if written.err then
    return written
  end
  return 1
end

local replies = {}
for i, name in ipairs(KEYS) do
  replies[i] = settle(name, ARGV[3 * i - 2], ARGV[3 * i - 1], ARGV[3 * i])
end
return replies
