-- Lamport's bakery with numbers up to Limit: a process that would need a higher one waits.
const N: 2; Limit: 4;
type
  Process: 1..N;
  Number: 0..Limit;
  Point: enum {idle, choosing, waiting, critical};
var
  at: array [Process] of Point;
  number: array [Process] of Number;
  highest: array [Process] of Number;   -- seen while choosing
  next: array [Process] of 0..N;        -- process that is looked at

startstate
  for p: Process do
    at[p] := idle; number[p] := 0; highest[p] := 0; next[p] := 0;
  end;
end;

ruleset p: Process do
  rule "begin to choose" at[p] = idle ==> begin at[p] := choosing; next[p] := 1; highest[p] := 0 end;
  rule "look at a number" at[p] = choosing & next[p] != 0 ==>
  begin
    if number[next[p]] > highest[p] then highest[p] := number[next[p]] end;
    next[p] := next[p] = N ? 0 : next[p] + 1;
  end;
  rule "take a number" at[p] = choosing & next[p] = 0 & highest[p] < Limit ==>
  begin number[p] := highest[p] + 1; at[p] := waiting; next[p] := 1; highest[p] := 0 end;
  rule "give up" at[p] = choosing & next[p] = 0 & highest[p] = Limit ==>
  begin at[p] := idle; highest[p] := 0 end;
  rule "pass a process"
    at[p] = waiting & next[p] != 0
    & (next[p] = p
       | at[next[p]] != choosing
         & (number[next[p]] = 0 | number[p] < number[next[p]]
            | (number[p] = number[next[p]] & p < next[p]))) ==>
  begin next[p] := next[p] = N ? 0 : next[p] + 1 end;
  rule "enter" at[p] = waiting & next[p] = 0 ==> begin at[p] := critical end;
  rule "leave" at[p] = critical ==> begin number[p] := 0; at[p] := idle end;
end;

invariant "one in the critical section"
  forall p: Process do forall q: Process do
    p < q -> !(at[p] = critical & at[q] = critical)
  end end;
