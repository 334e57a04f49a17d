-- Peterson's mutual exclusion for N processes, by levels (filter lock).
const N: 2;
type
  Process: 1..N;
  Level: 0..N-1;
  Point: enum {idle, claim, wait, critical};
var
  at: array [Process] of Point;
  level: array [Process] of Level;
  want: array [Process] of Level;
  last: array [Level] of Process;

startstate
  for p: Process do at[p] := idle; level[p] := 0; want[p] := 0 end;
  for l: Level do last[l] := 1 end;
end;

ruleset p: Process do
  rule "begin" at[p] = idle ==> begin want[p] := 1; at[p] := claim end;
  rule "claim a level" at[p] = claim ==> begin
    level[p] := want[p]; last[want[p]] := p; at[p] := wait
  end;
  rule "pass a level"
    at[p] = wait & (last[level[p]] != p | forall q: Process do q != p -> level[q] < level[p] end) ==>
  begin
    if level[p] = N - 1 then at[p] := critical
    else want[p] := level[p] + 1; at[p] := claim end
  end;
  rule "leave" at[p] = critical ==> begin level[p] := 0; want[p] := 0; at[p] := idle end;
end;

invariant "one in the critical section"
  forall p: Process do forall q: Process do
    p != q -> !(at[p] = critical & at[q] = critical)
  end end;
