// Shared virtual memory from C++: the layer of <clump/svm.hpp>.
#include <clump/svm.hpp>

#include <cstdio>
#include <mutex>

namespace svm = clump::svm;

struct queue {
    svm::mutex lock;
    svm::condition changed;
    svm::flag done;
    uint64_t items = 0, taken = 0;
    uint64_t *numbers = nullptr;
};

#define EXPECT(condition)                                                                                    \
    do {                                                                                                     \
        if (!(condition)) {                                                                                  \
            std::fprintf(stderr, "%d: not so: %s\n", __LINE__, #condition);                                  \
            return 3;                                                                                        \
        }                                                                                                    \
    } while (0)

int main(int argc, char **argv) {
    clump::world cl(argc, argv);
    svm::heap heap(cl);
    const auto me = static_cast<uint64_t>(heap.rank()), all = static_cast<uint64_t>(heap.nranks());
    auto &q = heap.root<queue>();
    auto shared = heap.array_all<uint64_t>(1000, svm::home::cyclic);
    for (size_t at = me; at < shared.size(); at += all)
        shared[at] = at;
    heap.barrier();
    uint64_t sum = 0;
    for (uint64_t value : shared)
        sum += value;
    EXPECT(sum == 999 * 1000 / 2);
    if (me == 0) {
        auto mine = heap.array<uint64_t>(5000);
        mine[4999] = 17;
        q.numbers = mine.data();
        q.done.set(1);
    }
    q.done.wait(1);
    EXPECT(q.numbers[4999] == 17);
    // Every rank puts an item, and takes one.
    {
        std::scoped_lock held(q.lock);
        q.items++;
        q.changed.notify_all();
    }
    {
        std::scoped_lock held(q.lock);
        q.changed.wait(q.lock, [&] { return q.items == all; });
        q.taken++;
        q.changed.notify_one();
    }
    heap.fence();
    heap.barrier();
    EXPECT(q.taken == all);
    if (me == 0) {
        heap.free(std::span<uint64_t>(q.numbers, 5000));
        std::puts("rank 0: shared virtual memory in C++ is right");
    }
    heap.barrier();
    return 0;
}
