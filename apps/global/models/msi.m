-- A directory protocol with states M, S and I: caches and a home over an unordered network.
const Caches: 2; Messages: 3;
type
  Cache: scalarset(Caches);
  Home: enum {home};
  Agent: union {Cache, Home};
  State: enum {I, S, M, IS, IM, MI};
  Kind: enum {get_s, get_m, put_m, data, invalidate, done, recall, written, ack};
  Message: record
    kind: Kind;
    from: Agent;
  end;
var
  cache: array [Cache] of State;
  directory: record
    state: enum {idle, shared, owned, recalling, invalidating};
    owner: Cache;
    asker: Cache;
    exclusive: boolean;
    sharers: multiset [Caches] of Cache;
    missing: 0..Caches;
  end;
  net: array [Agent] of multiset [Messages] of Message;

function room(a: Agent): boolean;
begin return multisetcount(m: net[a], true) < Messages end;

procedure send(target: Agent; from: Agent; kind: Kind);
var m: Message;
begin
  m.kind := kind; m.from := from;
  multisetadd(m, net[target]);
end;

function shares(c: Cache): boolean;
begin return multisetcount(s: directory.sharers, directory.sharers[s] = c) > 0 end;

procedure grant(c: Cache);
begin
  if directory.exclusive then
    directory.state := owned; directory.owner := c;
    multisetremovepred(s: directory.sharers, true);
  else
    directory.state := shared; undefine directory.owner;
    if !shares(c) then multisetadd(c, directory.sharers) end;
  end;
  send(c, home, data);
  undefine directory.asker; directory.exclusive := false;
end;

startstate
  for c: Cache do cache[c] := I end;
  directory.state := idle; directory.exclusive := false; directory.missing := 0;
end;

ruleset c: Cache do
  rule "read" cache[c] = I & room(home) ==> begin cache[c] := IS; send(home, c, get_s) end;
  rule "write" (cache[c] = I | cache[c] = S) & room(home) ==>
  begin cache[c] := IM; send(home, c, get_m) end;
  rule "write back" cache[c] = M & room(home) ==> begin cache[c] := MI; send(home, c, put_m) end;

  choose m: net[c] do
    alias message: net[c][m] do
      -- Recalls and invalidations wait for data that they overtook.
      rule "cache receives"
        room(home) & (message.kind = recall -> cache[c] = M | cache[c] = MI)
        & (message.kind = invalidate -> cache[c] = S | cache[c] = IM) ==>
      begin
        switch message.kind
        case data:
          if cache[c] = IS then cache[c] := S else assert cache[c] = IM "data for nobody"; cache[c] := M end;
        case invalidate:
          if cache[c] = S then cache[c] := I end;
          send(home, c, done);
        case recall:
          -- A write-back that is on the way serves as the answer.
          if cache[c] = M then send(home, c, written) end;
          cache[c] := I;
        case ack:
          assert cache[c] = MI "ack for nobody"; cache[c] := I;
        else error "no message for caches";
        end;
        multisetremove(m, net[c]);
      end;
    end;
  end;
end;

choose m: net[home] do
  rule "home receives a request"
    (net[home][m].kind = get_s | net[home][m].kind = get_m)
    & (directory.state = idle | directory.state = shared | directory.state = owned)
    & forall c: Cache do room(c) end ==>
  var who: Cache;
  begin
    for c: Cache do if net[home][m].from = c then who := c end end;
    directory.asker := who;
    directory.exclusive := net[home][m].kind = get_m;
    multisetremove(m, net[home]);
    if directory.state = owned then
      directory.state := recalling; send(directory.owner, home, recall)
    elsif directory.exclusive & multisetcount(s: directory.sharers, directory.sharers[s] != who) > 0 then
      directory.state := invalidating;
      directory.missing := multisetcount(s: directory.sharers, directory.sharers[s] != who);
      for c: Cache do if c != who & shares(c) then send(c, home, invalidate) end end;
      multisetremovepred(s: directory.sharers, true);
    else grant(who) end;
  end;

  rule "home receives data" net[home][m].kind = written & room(directory.asker) ==>
  begin
    assert directory.state = recalling "data for nobody";
    multisetremove(m, net[home]);
    undefine directory.owner; grant(directory.asker);
  end;

  rule "home receives a write-back"
    net[home][m].kind = put_m & forall c: Cache do multisetcount(n: net[c], true) < Messages - 1 end ==>
  var who: Cache;
  begin
    for c: Cache do if net[home][m].from = c then who := c end end;
    multisetremove(m, net[home]);
    undefine directory.owner;
    -- The recall that is on the way serves as the acknowledgement.
    if directory.state = recalling then grant(directory.asker)
    else send(who, home, ack); directory.state := idle end;
  end;

  rule "home learns of a dropped copy" net[home][m].kind = done & forall c: Cache do room(c) end ==>
  begin
    assert directory.state = invalidating "nobody has to drop a copy";
    multisetremove(m, net[home]);
    directory.missing := directory.missing - 1;
    if directory.missing = 0 then grant(directory.asker) end;
  end;
end;

invariant "one writer"
  forall a: Cache do forall b: Cache do
    a != b & cache[a] = M -> cache[b] != M & cache[b] != S
  end end;
