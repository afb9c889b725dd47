-- Reads a record and, in the same step, how much of its retention is left by
-- the clock of this server.
--
-- KEYS[1]  name of the record
--
-- Returns {record, left}, left in milliseconds (-1: without end); {false, 0}
-- where there is nothing.

local record = redis.call('GET', KEYS[1])
if not record then
  return {false, 0}
end
return {record, redis.call('PTTL', KEYS[1])}
