-- Caches of one line each, whose sharers form doubly linked lists, in the manner of SCI: requests
-- and answers between processors and memories are steps of their own, and whoever is busy says
-- "again". Memory knows the head of a line's list. A processor asks memory, and links itself before
-- the old head; it leaves by joining its neighbours, of which it locks the upper one meanwhile; the
-- head writes once it has purged all others.
const
  Processors: 2;
  Lines: 2;                       -- one memory each, with one line
type
  Processor: scalarset(Processors);
  Line: scalarset(Lines);
  Nobody: enum {nobody};
  Pointer: union {Processor, Nobody};
  Value: 0..1;
  Place: enum {out, only, head, mid, tail};
  -- What a processor has asked for: memory for the line, the old head to be before it, memory to
  -- take the line back, memory to name the next one head, the next one to be head, the one above
  -- to skip it and wait, the one below to know the one above, the one above to go on, the next one
  -- to be purged.
  Stage: enum {idle, ask, link, release, pass, tell, skip, join, resume, purge};
  Answer: enum {none, done, again};
var
  cache: array [Processor] of record
    place: Place;
    stage: Stage;
    answer: Answer;
    line: Line;
    value: Value;
    up, down: Pointer;
    waits: Pointer;               -- for one below that is leaving
  end;
  memory: array [Line] of record
    first: Pointer;
    value: Value;
    latest: Value;                -- as it was written last, by whoever
  end;

procedure forget(p: Processor);
begin
  undefine cache[p];
  cache[p].place := out; cache[p].stage := idle; cache[p].answer := none;
  cache[p].waits := nobody;
end;

procedure rest(p: Processor);
begin cache[p].stage := idle; cache[p].answer := none end;

procedure step(p: Processor; next: Stage);
begin cache[p].stage := next; cache[p].answer := none end;

procedure settle(p: Processor);
begin
  if cache[p].up = nobody then
    cache[p].place := cache[p].down = nobody ? only : head;
  else
    cache[p].place := cache[p].down = nobody ? tail : mid;
  end;
end;

-- True if q is in the list of a line, and not busy.
function free(q: Processor; l: Line): boolean;
begin
  return cache[q].place != out & cache[q].stage = idle & cache[q].waits = nobody
    & cache[q].line = l;
end;

procedure write(p: Processor);
begin
  alias l: memory[cache[p].line] do
    l.latest := 1 - l.latest;
    cache[p].value := l.latest;
  end;
end;

ruleset v: Value do
  startstate "no line is cached"
    for p: Processor do forget(p) end;
    for l: Line do memory[l].first := nobody; memory[l].value := v; memory[l].latest := v end;
  end;
end;

ruleset p: Processor do alias me: cache[p] do
  ruleset l: Line do
    rule "ask memory" me.place = out & me.stage = idle ==>
    begin me.line := l; step(p, ask) end;
  end;
  rule "memory names the old head" me.stage = ask & me.answer = none ==>
  begin
    alias m: memory[me.line] do
      me.up := nobody; me.down := m.first;
      if m.first = nobody then me.value := m.value end;
      m.first := p;
    end;
    me.answer := done;
  end;
  rule "alone" me.stage = ask & me.answer = done & me.down = nobody ==>
  begin settle(p); rest(p) end;
  rule "turn to the old head" me.stage = ask & me.answer = done & me.down != nobody ==>
  begin step(p, link) end;
  rule "the old head answers" me.stage = link & me.answer = none ==>
  begin
    me.answer := again;
    for q: Processor do
      if me.down = q then
        if free(q, me.line) & (cache[q].place = only | cache[q].place = head) then
          cache[q].up := p; settle(q); me.value := cache[q].value; me.answer := done;
        end;
      end;
    end;
  end;
  rule "linked" me.stage = link & me.answer = done ==> begin settle(p); rest(p) end;

  rule "give the line back" me.place = only & free(p, me.line) ==> begin step(p, release) end;
  rule "memory takes it" me.stage = release & me.answer = none ==>
  begin
    alias m: memory[me.line] do
      me.answer := again;
      if m.first = p then m.first := nobody; m.value := me.value; me.answer := done end;
    end;
  end;

  rule "resign as head" me.place = head & free(p, me.line) ==> begin step(p, pass) end;
  rule "memory names the next" me.stage = pass & me.answer = none ==>
  begin
    alias m: memory[me.line] do
      me.answer := again;
      if m.first = p then m.first := me.down; me.answer := done end;
    end;
  end;
  rule "turn to the next" me.stage = pass & me.answer = done ==> begin step(p, tell) end;
  rule "the next is head" me.stage = tell & me.answer = none ==>
  begin
    for q: Processor do if me.down = q then cache[q].up := nobody; settle(q) end end;
    me.answer := done;
  end;

  rule "leave the list" (me.place = mid | me.place = tail) & free(p, me.line) ==>
  begin step(p, skip) end;
  rule "the one above skips" me.stage = skip & me.answer = none ==>
  begin
    me.answer := again;
    for q: Processor do
      if me.up = q then
        if free(q, me.line) & cache[q].down = p then
          cache[q].down := me.down; cache[q].waits := p; settle(q); me.answer := done;
        end;
      end;
    end;
  end;
  rule "turn to the one below" me.stage = skip & me.answer = done & me.down != nobody ==>
  begin step(p, join) end;
  rule "the one below joins" me.stage = join & me.answer = none ==>
  begin
    for q: Processor do if me.down = q then cache[q].up := me.up; settle(q) end end;
    me.answer := done;
  end;
  rule "turn to the one above"
    me.answer = done & (me.stage = join | (me.stage = skip & me.down = nobody)) ==>
  begin step(p, resume) end;
  rule "the one above goes on" me.stage = resume & me.answer = none ==>
  begin
    for q: Processor do if me.up = q then cache[q].waits := nobody end end;
    me.answer := done;
  end;
  rule "gone"
    me.answer = done & (me.stage = release | me.stage = tell | me.stage = resume) ==>
  begin forget(p) end;

  rule "write alone" me.place = only & free(p, me.line) ==> begin write(p) end;
  rule "begin to purge" me.place = head & free(p, me.line) ==> begin step(p, purge) end;
  rule "the next is purged" me.stage = purge & me.answer = none ==>
  begin
    me.answer := again;
    for q: Processor do
      if me.answer = again & me.down = q then
        if free(q, me.line) then
          me.down := cache[q].down; forget(q); me.answer := done;
        end;
      end;
    end;
  end;
  rule "purge on" me.stage = purge & me.answer = done & me.down != nobody ==>
  begin step(p, purge) end;
  rule "all are purged" me.stage = purge & me.answer = done & me.down = nobody ==>
  begin settle(p); write(p); rest(p) end;

  -- A list whose first members are purged has lost its middle: that goes on to the end.
  rule "ask again" me.answer = again & (me.stage = link | me.stage = purge) ==>
  begin step(p, me.stage) end;
  rule "give up for now" me.answer = again & me.stage != link & me.stage != purge ==>
  begin rest(p) end;
end end;

invariant "copies are as written last"
  forall p: Processor do
    -- Who has been told that it may leave uses its copy no more.
    cache[p].place != out & (cache[p].stage = idle | cache[p].stage = purge | cache[p].answer != done)
    -> cache[p].value = memory[cache[p].line].latest
  end;
invariant "memory is as written last, if nobody has the line"
  forall l: Line do memory[l].first = nobody -> memory[l].value = memory[l].latest end;
invariant "neighbours agree at rest"
  (forall p: Processor do cache[p].stage = idle end) ->
  forall p: Processor; q: Processor do
    cache[p].place != out & cache[q].place != out & cache[p].line = cache[q].line ->
    (cache[p].down = q) = (cache[q].up = p)
  end;
invariant "memory knows the head at rest"
  (forall p: Processor do cache[p].stage = idle end) ->
  forall p: Processor do
    cache[p].place != out ->
    (cache[p].place = only | cache[p].place = head) = (memory[cache[p].line].first = p)
  end;
invariant "nobody waits at rest"
  (forall p: Processor do cache[p].stage = idle end) ->
  forall p: Processor do cache[p].waits = nobody end;
