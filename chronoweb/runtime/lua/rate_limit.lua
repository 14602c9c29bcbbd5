-- Count a request against a limit over a sliding window: the last window counts for the part of it that is still in sight.
-- KEYS[1]  hash: w = start of the current window (ms), n = counted in it, p = counted in the one before
-- ARGV[1]  limit    ARGV[2]  window, ms    ARGV[3]  how many to count (0 only looks)
-- Reply: {1 or 0 (let in), used, ms until the window ends, ms until one more would be let in}
local limit, window, count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local start = now - now % window
local kept = redis.call('HMGET', KEYS[1], 'w', 'n', 'p')
local w, n, p = tonumber(kept[1] or 0), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
if w ~= start then
  p = (w == start - window) and n or 0
  n = 0
end
local left = start + window - now
local used = n + p * left / window
if used + count > limit then
  local wait
  if n + count <= limit then
    wait = left - (limit - count - n) * window / p
  else
    wait = left + math.max(0, window - (limit - count) * window / n)
  end
  return {0, math.ceil(used), left, math.ceil(math.max(1, wait))}
end
if count > 0 then
  redis.call('HSET', KEYS[1], 'w', start, 'n', n + count, 'p', p)
  redis.call('PEXPIRE', KEYS[1], 2 * window)
end
return {1, math.ceil(used + count), left, 0}
