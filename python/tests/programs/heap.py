import clump, numpy as np
from clump import svm
w = clump.world()
a = svm.empty((w.size, 1000), "f8"); c = svm.empty(1, "i8"); l = svm.Lock()
a[w.rank] = w.rank
svm.barrier()
assert a.sum() == 1000 * sum(range(w.size))
for _ in range(5):
    with l: c[0] += 1
svm.barrier(); assert c[0] == 5 * w.size
svm.prefetch(a).tofile("/dev/null")
print("ok svm", w.rank)
