-- States M, E, S and I of caches on a bus whose transactions are atomic; values are checked.
const Caches: 3; Values: 2;
type
  Cache: scalarset(Caches);
  Value: scalarset(Values);
  State: enum {I, S, E, M};
var
  cache: array [Cache] of record state: State; value: Value end;
  memory: Value;
  latest: Value;      -- what was written last

ruleset v: Value do
  startstate
    for c: Cache do cache[c].state := I; undefine cache[c].value end;
    memory := v; latest := v;
  end;
end;

procedure snoop(except: Cache; exclusive: boolean);
begin
  for c: Cache do
    if c != except then
      if cache[c].state = M then memory := cache[c].value end;
      if cache[c].state != I then
        if exclusive then cache[c].state := I; undefine cache[c].value
        else cache[c].state := S end;
      end;
    end;
  end;
end;

ruleset c: Cache do
  rule "read miss" cache[c].state = I ==>
  begin
    snoop(c, false);
    cache[c].state := exists d: Cache do d != c & cache[d].state != I end ? S : E;
    cache[c].value := memory;
  end;
  rule "write miss" cache[c].state = I ==>
  begin snoop(c, true); cache[c].value := memory; cache[c].state := M end;
  rule "upgrade" cache[c].state = S ==> begin snoop(c, true); cache[c].state := M end;
  rule "silent upgrade" cache[c].state = E ==> begin cache[c].state := M end;
  rule "evict" cache[c].state != I ==>
  begin
    if cache[c].state = M then memory := cache[c].value end;
    cache[c].state := I; undefine cache[c].value;
  end;
  ruleset v: Value do
    rule "write hit" cache[c].state = M ==> begin cache[c].value := v; latest := v end;
  end;
end;

invariant "an exclusive copy is the only copy"
  forall a: Cache do forall b: Cache do
    a != b & (cache[a].state = M | cache[a].state = E) -> cache[b].state = I
  end end;
invariant "copies are the latest value"
  forall c: Cache do cache[c].state != I -> cache[c].value = latest end;
invariant "memory is the latest value unless a copy is modified"
  memory = latest | exists c: Cache do cache[c].state = M end;
