// Shared virtual memory from C++: the layer of <clump/svm.hpp>.
#include <clump/svm.hpp>

#include <cstdio>
#include <array>
#include <mutex>

namespace svm = clump::svm;

struct queue {
    svm::mutex lock;
    svm::condition changed;
    svm::flag done;
    uint64_t items = 0, taken = 0;
    uint64_t *numbers = nullptr;
    std::pair<int, int> *made = nullptr;
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
    try {
        svm::heap wrong(cl, svm_options{1 << 20, 1 << 21, 0});
        EXPECT(false);
    } catch (const clump::failure &e) {
        EXPECT(e.status() == CLUMP_ERR_ARGUMENT);
    }
    svm::heap heap(cl, svm_options{1 << 30, 1 << 29, 2});
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
    // Rows in turn, by ranks; homes by a rule and by a table.
    const int nodes = cl.nnodes();
    auto rows = heap.matrix_all<uint32_t>(300, 700);
    auto ruled = heap.array_all<uint64_t>(5000, [&](size_t page) { return static_cast<int>(page) % nodes; });
    const std::array<int, 3> table{nodes - 1, 0, nodes - 1};
    auto tabled = heap.matrix_all<double>(100, 100, std::span<const int>(table));
    EXPECT(rows.rows() == 300 && rows.columns() == 700 && tabled.elements().size() == 10000);
    for (size_t at = me; at < 300; at += all)
        for (uint32_t &value : rows.row(at))
            value = static_cast<uint32_t>(at);
    for (size_t at = me; at < ruled.size(); at += all)
        ruled[at] = at;
    for (size_t at = me; at < 100; at += all)
        tabled(at, 99) = 0.5;
    heap.barrier();
    double halves = 0;
    for (size_t at = 0; at < 100; at++) {
        EXPECT(rows(3 * at, at) == 3 * at && rows.row(2 * at)[699] == 2 * at && ruled[50 * at] == 50 * at);
        halves += tabled(at, 99) + tabled(at, 98);
    }
    EXPECT(halves == 50);
    heap.barrier();
    // An object that one rank makes during the run, and another ends.
    if (me == 0) q.made = heap.make<std::pair<int, int>>(3, 4);
    heap.barrier();
    EXPECT(q.made->first == 3 && q.made->second == 4);
    heap.barrier();
    if (me == all - 1) heap.destroy(q.made);
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
