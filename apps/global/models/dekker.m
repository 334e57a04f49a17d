-- Dekker's mutual exclusion for two processes.
type
  Process: 0..1;
  Point: enum {idle, test, yield, wait, critical};
var
  at: array [Process] of Point;
  wants: array [Process] of boolean;
  turn: Process;

function other(p: Process): Process; begin return 1 - p end;

ruleset first: Process do
  startstate
    for p: Process do at[p] := idle; wants[p] := false end;
    turn := first;
  end;
end;

ruleset p: Process do
  alias mine: wants[p]; point: at[p] do
    rule "claim" point = idle ==> begin mine := true; point := test end;
    rule "enter" point = test & !wants[other(p)] ==> begin point := critical end;
    rule "the other has the turn" point = test & wants[other(p)] & turn != p ==>
    begin mine := false; point := wait end;
    rule "turn has come" point = wait & turn = p ==> begin mine := true; point := test end;
    rule "leave" point = critical ==>
    begin turn := other(p); mine := false; point := idle end;
  end;
end;

invariant "one in the critical section" !(at[0] = critical & at[1] = critical);
