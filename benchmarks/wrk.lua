-- Sends the requests of a file in turn, each with a text of its own. One thread drives one connection, so the
-- requests of a client follow one another. Arguments: the file, and a prefix of six characters for this run.
local mark = "\1"
local clients = 0

function setup(thread)
  thread:set("client", clients)
  clients = clients + 1
end

function init(arguments)
  local file = assert(io.open(arguments[1], "rb"))
  local text = file:read("*a")
  file:close()
  prefix = arguments[2] .. string.format("%02d", client)
  requests, turn, number = {}, 0, 0
  for wire in (text .. mark):gmatch("(.-)" .. mark) do
    local parts = {}
    wire = wire:gsub("~~", string.format("%02d", client)) .. "@@"
    for part in wire:gmatch("(.-)@@") do parts[#parts + 1] = part end
    requests[#requests + 1] = parts
  end
  -- wrk asks the first client once only to check what it gives; that call takes the last turn.
  if client == 0 then turn = #requests - 1 end
end

function request()
  turn = turn % #requests + 1
  if turn == 1 then number = number + 1 end
  return table.concat(requests[turn], prefix .. string.format("%06d", number))
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"microseconds":%d,"refused":%d,"failed":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
