-- Sends the requests of a file in turn, each with a text of its own. One thread drives one connection, so the
-- requests of a client follow one another; `<<name>>` takes what the
-- answer before had under that name, and `##` counts from 10000001. Arguments: the file, and a prefix of six characters for this run.
local mark = "\1"
local clients = 0
-- As wide as what takes their place; wrk looks at a request before it sends the first.
captured = {id = string.rep("-", 12), attempt_id = string.rep("-", 36)}

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
    captures = captures or wire:find("<<", 1, true) ~= nil
    counts = counts or wire:find("##", 1, true) ~= nil
    wire = wire:gsub("~~", string.format("%02d", client)) .. "@@"
    for part in wire:gmatch("(.-)@@") do parts[#parts + 1] = part end
    requests[#requests + 1] = parts
  end
  -- Only then: looking into each answer costs the generator time.
  if captures then response = capture end
  -- wrk asks the first client once only to check what it gives; that call takes the last turn.
  if client == 0 then turn, number = #requests - 1, #requests == 1 and -1 or 0 end
end

function request()
  turn = turn % #requests + 1
  if turn == 1 then number = number + 1 end
  local wire = table.concat(requests[turn], prefix .. string.format("%06d", number))
  -- To look for it in a long request takes as long as to send that.
  if counts then wire = wire:gsub("##", string.format("%d", 10000000 + number), 1) end
  if not captures then return wire end
  return (wire:gsub("<<([a-z_]+)>>", captured))
end

-- What an answer names, as far as it names it, for the requests after it.
function capture(_, _, body)
  for _, name in ipairs({"id", "attempt_id"}) do
    captured[name] = body:match('"' .. name .. '":"([^"]*)"') or captured[name]
  end
end

function done(summary, latency, _)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests":%d,"microseconds":%d,"refused":%d,"failed":%d,"p50":%d,"p99":%d}\n',
    summary.requests, summary.duration, errors.status, errors.connect + errors.read + errors.write + errors.timeout,
    latency:percentile(50), latency:percentile(99)))
end
