/* Irregular programs in C++20: copies of objects, queues of tasks, locks, cost zones, channels.
 * Written by hand. */
#ifndef CLUMP_WORK_HPP
#define CLUMP_WORK_HPP

#include "clump/standard.hpp"

#include "clump/pgas.hpp"
#include "clump/work.h"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

namespace clump {

namespace detail {
/* A function that C calls: an exception of it is a failure there, and thrown again behind it. */
template <class F> struct thrown_through {
    F &run;
    std::exception_ptr thrown = nullptr;

    template <class... A> int operator()(A &&...arguments) noexcept {
        try {
            run(std::forward<A>(arguments)...);
            return 0;
        } catch (...) {
            if (thrown == nullptr) thrown = std::current_exception();
            return -1;
        }
    }
    int done(int status) const {
        if (thrown != nullptr) std::rethrow_exception(thrown);
        return status;
    }
};
} // namespace detail

/* Copies of objects of other nodes that do not change for a while. */
class object_cache {
  public:
    /* Copies of up to so many bytes. Throws failure. */
    object_cache(pgas &gas, size_t capacity) : it_(detail::or_throw(clump_cache_alloc(gas.get(), capacity))) {}

    /* Objects of one type. Throws failure. */
    template <class T> class object_class {
        static_assert(std::is_trivially_copyable_v<T>, "objects are copied as their bytes in memory");

      public:
        explicit object_class(object_cache &of)
            : of_(of.get()), class_(detail::count(clump_cache_class(of.get(), sizeof(T))).value()) {}
        /* The object, if it is there; else the next fetch requests it. */
        result<std::optional<T>> find(global_ptr<T> at) {
            T object;
            const int found = clump_cache_find(of_, class_, at.at, &object);
            return detail::either(found, found == 1 ? std::optional<T>(object) : std::nullopt);
        }
        /* Waits for the object. */
        result<T> get(global_ptr<T> at) {
            T object;
            const int done = clump_cache_get(of_, class_, at.at, &object);
            return detail::either(done, object);
        }
        result<clump_cache_counts> counts() const {
            clump_cache_counts counts{};
            const int done = clump_cache_count(of_, class_, &counts);
            return detail::either(done, counts);
        }

      private:
        clump_cache *of_;
        int class_;
    };

    result<void> fetch() { return detail::nothing(clump_cache_fetch(get())); }
    result<void> invalidate() { return detail::nothing(clump_cache_invalidate(get())); }
    clump_cache *get() const noexcept { return it_.get(); }

  private:
    detail::owned<clump_cache, clump_cache_free> it_;
};

/* Queues of tasks of all ranks, from which idle ranks steal. A task is a word. */
class task_queues {
  public:
    /* Collective. Throws failure. */
    task_queues(pgas &gas, size_t capacity) : it_(detail::or_throw(clump_queues_alloc(gas.get(), capacity))) {}
    result<void> push(std::span<const uint64_t> tasks) {
        return detail::nothing(clump_queues_push(it_.get(), tasks.data(), tasks.size()));
    }
    result<void> push(uint64_t task) { return push(std::span<const uint64_t>(&task, 1)); }
    /* Runs work(task) until no rank has tasks. Collective. Throws what `work` throws. */
    template <class F> result<void> run(F work) {
        detail::thrown_through<F> through{work};
        const auto call = [](clump_queues *, uint64_t task, void *data) {
            return (*static_cast<detail::thrown_through<F> *>(data))(task);
        };
        return detail::nothing(through.done(clump_queues_run(it_.get(), call, &through)));
    }
    result<clump_queue_counts> counts() const {
        clump_queue_counts counts{};
        const int done = clump_queues_count(it_.get(), &counts);
        return detail::either(done, counts);
    }

  private:
    detail::owned<clump_queues, clump_queues_free> it_;
};

/* An array of locks of all ranks. */
class lock_array {
  public:
    /* Collective. Throws failure. */
    lock_array(pgas &gas, size_t count, clump_lock_kind kind = CLUMP_LOCK_QUEUE)
        : it_(detail::or_throw(clump_locks_alloc(gas.get(), count, kind))) {}
    /* Runs work() under a lock. Throws what it throws. */
    template <class F> result<void> with(size_t index, F work) {
        detail::thrown_through<F> through{work};
        const auto call = [](void *data) { return (*static_cast<detail::thrown_through<F> *>(data))(); };
        return detail::nothing(through.done(clump_locks_with(it_.get(), index, call, &through)));
    }
    /* Attempts of this rank. */
    struct attempt_counts {
        uint64_t acquired = 0, failed = 0;
    };
    result<attempt_counts> attempts() const {
        attempt_counts counts;
        const int done = clump_locks_attempts(it_.get(), &counts.acquired, &counts.failed);
        return detail::either(done, counts);
    }

  private:
    detail::owned<clump_locks, clump_locks_free> it_;
};

/* Shares of work whose costs are known beforehand: objects in one order belong to the rank in whose
 * share the costs before them fall. */
class cost_zones {
  public:
    /* The sum of all costs, dealt to so many ranks. */
    cost_zones(uint64_t all, int ranks) : all_(all), ranks_(ranks) {}
    /* The costs of a rank: from the first to the second. */
    result<std::pair<uint64_t, uint64_t>> zone(int rank) const {
        std::pair<uint64_t, uint64_t> found{};
        const int done = clump_cost_zone(all_, ranks_, rank, &found.first, &found.second);
        return detail::either(done, found);
    }
    /* The rank of an object, given the costs of all objects before it. */
    result<int> owner(uint64_t before) const { return detail::count(clump_cost_owner(all_, ranks_, before)); }

  private:
    uint64_t all_;
    int ranks_;
};

/* Channels from each rank to each, of items of one type. */
template <class T> class channel {
    static_assert(std::is_trivially_copyable_v<T>, "items are sent as their bytes in memory");

  public:
    /* Room for so many items of each sender at each receiver. Collective. Throws failure. */
    channel(pgas &gas, size_t capacity) : it_(detail::or_throw(clump_channel_open(gas.get(), sizeof(T), capacity))) {}
    /* Runs receive(from, items) on what arrives meanwhile. Throws what it throws. */
    template <class F> result<void> send(int to, std::span<const T> items, F receive) {
        detail::thrown_through<F> through{receive};
        const int done = clump_channel_send(it_.get(), to, items.data(), items.size(), taker<F>(), &through);
        return detail::nothing(through.done(done));
    }
    template <class F> result<int> receive(F take) {
        detail::thrown_through<F> through{take};
        return detail::count(through.done(clump_channel_receive(it_.get(), taker<F>(), &through)));
    }
    /* Collective. */
    template <class F> result<void> finish(F receive) {
        detail::thrown_through<F> through{receive};
        return detail::nothing(through.done(clump_channel_finish(it_.get(), taker<F>(), &through)));
    }

    /* Runs work(), which may send and returns true while it has more to do, and receive(from, items)
     * on what arrives, until no rank has work and nothing is under way. Collective. Throws what they
     * throw. */
    template <class W, class F> result<void> run(W work, F receive) {
        struct running {
            detail::thrown_through<F> receiving;
            W &work;
        } both{{receive}, work};
        const auto call = [](void *data) {
            running &of = *static_cast<running *>(data);
            bool more = false;
            const auto again = [&] { more = of.work(); };
            detail::thrown_through<const decltype(again)> through{again};
            if (through() < 0) {
                if (of.receiving.thrown == nullptr) of.receiving.thrown = through.thrown;
                return -1;
            }
            return more ? 1 : 0;
        };
        const clump_receive take = [](void *data, int from, const void *items, size_t count) {
            const std::span<const T> all(static_cast<const T *>(items), count);
            return static_cast<running *>(data)->receiving(from, all);
        };
        return detail::nothing(both.receiving.done(clump_channel_run(it_.get(), call, take, &both)));
    }

  private:
    template <class F> static clump_receive taker() {
        return [](void *data, int from, const void *items, size_t count) {
            const std::span<const T> all(static_cast<const T *>(items), count);
            return (*static_cast<detail::thrown_through<F> *>(data))(from, all);
        };
    }
    detail::owned<clump_channel, clump_channel_close> it_;
};

} // namespace clump

#endif /* CLUMP_WORK_HPP */
