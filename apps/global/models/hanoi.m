-- Towers of Hanoi with Disks disks: 3^Disks states. Disk 1 is the smallest.
const Disks: 6;
type Disk: 1..Disks; Peg: enum {left, middle, right};
var on: array [Disk] of Peg;

function is_free(d: Disk; p: Peg): boolean;
begin
  for e: Disk do
    if e < d & on[e] = p then return false end;
  end;
  return true;
end;

startstate for d: Disk do on[d] := left end end;

ruleset d: Disk; p: Peg do
  rule "move" on[d] != p & is_free(d, on[d]) & is_free(d, p) ==> begin on[d] := p end;
end;
