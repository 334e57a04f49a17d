-- German's cache coherence protocol, after the description of its transitions: a home node grants
-- shared and exclusive copies to clients, one message of each channel at a time.
const Nodes: 3;

type
  Node: scalarset(Nodes);
  State: enum {invalid, shared, exclusive};
  Message: enum {none, ask_shared, ask_exclusive, drop, dropped, grant_shared, grant_exclusive};

var
  cache: array [Node] of State;
  request: array [Node] of Message;   -- from clients to home
  order: array [Node] of Message;     -- from home to clients
  answer: array [Node] of Message;    -- from clients to home
  sharers: array [Node] of boolean;
  to_drop: array [Node] of boolean;
  granted: boolean;                   -- a client has an exclusive copy
  current: Message;                   -- what home is working on
  client: Node;                       -- and for whom

startstate "nobody has a copy"
  for n: Node do
    cache[n] := invalid; request[n] := none; order[n] := none; answer[n] := none;
    sharers[n] := false; to_drop[n] := false;
  end;
  granted := false; current := none; undefine client;
end;

ruleset n: Node do
  rule "client asks for a shared copy"
    request[n] = none & cache[n] = invalid ==>
  begin request[n] := ask_shared end;

  rule "client asks for an exclusive copy"
    request[n] = none & cache[n] != exclusive ==>
  begin request[n] := ask_exclusive end;

  rule "home takes a request"
    current = none & request[n] != none ==>
  begin
    current := request[n]; request[n] := none; client := n;
    for i: Node do to_drop[i] := sharers[i] end;
  end;

  rule "home orders a client to drop its copy"
    to_drop[n] & order[n] = none
    & (current = ask_exclusive | (current = ask_shared & granted)) ==>
  begin order[n] := drop; to_drop[n] := false end;

  rule "client drops its copy"
    order[n] = drop & answer[n] = none ==>
  begin order[n] := none; answer[n] := dropped; cache[n] := invalid end;

  rule "home learns of a dropped copy"
    answer[n] = dropped & current != none ==>
  begin answer[n] := none; sharers[n] := false; granted := false end;

  rule "client gets a shared copy"
    order[n] = grant_shared ==>
  begin order[n] := none; cache[n] := shared end;

  rule "client gets an exclusive copy"
    order[n] = grant_exclusive ==>
  begin order[n] := none; cache[n] := exclusive end;
end;

rule "home grants a shared copy"
  current = ask_shared & !granted & order[client] = none ==>
begin
  order[client] := grant_shared; sharers[client] := true;
  current := none; undefine client;
end;

rule "home grants an exclusive copy"
  current = ask_exclusive & order[client] = none & forall n: Node do !sharers[n] end ==>
begin
  order[client] := grant_exclusive; sharers[client] := true; granted := true;
  current := none; undefine client;
end;

invariant "an exclusive copy is the only copy"
  forall i: Node do forall j: Node do
    i != j & cache[i] = exclusive -> cache[j] = invalid
  end end;
