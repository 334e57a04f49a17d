-- A line whose sharers form a doubly linked list, in the manner of SCI: memory knows the head, each
-- processor its neighbours. A processor attaches before the old head; the head writes by purging
-- the others one by one; any processor detaches by joining its neighbours. Lines are locked while a
-- processor changes the list: a transaction of several steps each.
const Processors: 2;
type
  Processor: scalarset(Processors);
  Nobody: enum {nobody};
  Pointer: union {Processor, Nobody};
  State: enum {invalid, only, head, middle, tail, attaching, detaching, purging};
var
  state: array [Processor] of State;
  next: array [Processor] of Pointer;   -- towards the tail
  prev: array [Processor] of Pointer;   -- towards the head
  first: Pointer;                       -- memory's pointer
  busy: Pointer;                        -- processor that changes the list
  dirty: boolean;

function position(p: Processor): State;
begin
  if prev[p] = nobody then
    if next[p] = nobody then return only end;
    return head;
  elsif next[p] = nobody then return tail;
  end;
  return middle;
end;

procedure join(a: Pointer; b: Pointer);
begin
  for p: Processor do
    if a = p then next[p] := b; if state[p] != detaching then state[p] := position(p) end end;
  end;
  for p: Processor do
    if b = p then prev[p] := a; if state[p] != detaching then state[p] := position(p) end end;
  end;
end;

startstate "nobody has the line"
  for p: Processor do state[p] := invalid; next[p] := nobody; prev[p] := nobody end;
  first := nobody; busy := nobody; dirty := false;
end;

ruleset p: Processor do
  rule "ask memory for the line" state[p] = invalid & busy = nobody ==>
  begin
    busy := p; state[p] := attaching;
    next[p] := first; first := p; dirty := false;
  end;
  rule "attach before the old head" state[p] = attaching ==>
  begin
    state[p] := position(p);
    for q: Processor do if next[p] = q then join(p, q) end end;
    busy := nobody;
  end;
  rule "begin to leave" state[p] != invalid & busy = nobody ==>
  begin busy := p; state[p] := detaching end;
  rule "leave" state[p] = detaching ==>
  begin
    if first = p then first := next[p] end;
    join(prev[p], next[p]);
    state[p] := invalid; next[p] := nobody; prev[p] := nobody; busy := nobody;
    if first = nobody then dirty := false end;
  end;
  rule "begin to write" (state[p] = head | state[p] = only) & busy = nobody ==>
  begin busy := p; state[p] := purging end;
  rule "purge the next" state[p] = purging & next[p] != nobody ==>
  var after: Pointer;
  begin
    after := nobody;
    for q: Processor do
      if next[p] = q then
        after := next[q];
        state[q] := invalid; next[q] := nobody; prev[q] := nobody;
      end;
    end;
    next[p] := after;
    for q: Processor do if after = q then prev[q] := p end end;
  end;
  rule "write" state[p] = purging & next[p] = nobody ==>
  begin state[p] := only; dirty := true; busy := nobody end;
end;

invariant "neighbours agree"
  busy = nobody -> forall p: Processor do forall q: Processor do
    next[p] = q -> prev[q] = p
  end end;
invariant "memory points to the head"
  busy = nobody -> forall p: Processor do
    (first = p) = (state[p] = head | state[p] = only)
  end;
invariant "a dirty line has one holder"
  dirty -> forall p: Processor do state[p] != head & state[p] != middle & state[p] != tail end;
