-- A counter of Bits bits whose bits flip one by one: 2^Bits states.
const Bits: 12;
type Bit: 0..Bits-1;
var bits: array [Bit] of boolean;

startstate "zero"
  for i: Bit do bits[i] := false end
end;

ruleset i: Bit do
  rule "flip" true ==> begin
    bits[i] := !bits[i]
  end
end;

invariant "defined" forall i: Bit do !isundefined(bits[i]) end;
