/* Groups of tasks in C++20: coroutines of one thread that take turns while their reads and remote
 * calls are under way. Written by hand.
 *
 * A group combines the requests of many tasks: it waits only when no task can run, once for all.
 * Whatever waits otherwise blocks all tasks of the thread: barriers, all_store_sync, atomics that
 * fetch, element::read, future::wait.
 */
#ifndef CLUMP_TASK_GROUP_HPP
#define CLUMP_TASK_GROUP_HPP

#include "clump/standard.hpp"

#include "clump/pgas.hpp"
#include "clump/remote.hpp"
#include "clump/task.hpp"

#include <cstdint>
#include <list>
#include <span>
#include <thread>

namespace clump {

class task_group;

namespace detail {

/* A coroutine that waits for its group, and the error of what it waits for. */
struct waiter : hook {
    promise_base *coroutine = nullptr;
    std::optional<clump::error> failed;

    result<void> outcome() {
        if (failed) return std::move(*failed);
        return {};
    }
};

template <class T> struct flat {
    using type = result<T>;
};
template <class T> struct flat<result<T>> {
    using type = result<T>;
};

} // namespace detail

/* Counters of a group since it was made. */
struct task_counts {
    /* Gets that tasks have begun. */
    uint64_t gets = 0;
    /* Waits of the group for gets and updates, each for all tasks that waited. */
    uint64_t syncs = 0;
};

/* Tasks of one thread that run side by side. The pgas and the remote calls must outlive it. A group
 * that is destroyed destroys its tasks, wherever they are; their reads are waited for. */
class task_group : detail::ready_queue {
  public:
    explicit task_group(pgas &gas) : gas_(&gas) {}
    /* Functions of `calls` run also while tasks only yield. */
    task_group(pgas &gas, remote_calls &calls) : gas_(&gas), calls_(&calls) {}
    task_group(const task_group &) = delete;
    task_group &operator=(const task_group &) = delete;
    ~task_group() { destroy_tasks(); }

    /* Adds a task, which run runs. Tasks and remote functions may call it. Throws failure if the
     * task was moved from. */
    void spawn(task<void> work) {
        work.check();
        roots_.emplace_front(std::move(work));
        root &it = roots_.front();
        it.at = roots_.begin();
        ready.push_back(detail::promise_base::begin(it.work, *this, it));
    }

    /* Runs all tasks until they have ended. Throws the first exception that has left one. Fails if
     * tasks wait for what cannot happen, which destroys them, and in a task of this group. Others
     * may call functions here afterwards: remote_calls::end waits for them. */
    result<void> run() {
        if (running_) return error{CLUMP_ERR_BUSY, "a task runs its own clump::task_group"};
        {
            const runner now(running_);
            while (!roots_.empty() && advance()) {}
        }
        const bool stuck = !roots_.empty();
        destroy_tasks();
        if (thrown_) std::rethrow_exception(std::exchange(thrown_, nullptr));
        if (stuck) return error{CLUMP_ERR_BUSY, "no task can run: all await what this clump::task_group does not get"};
        return {};
    }

    /* Runs tasks until none can run without waiting: what they have begun continues while the program
     * does something else. Returns true if all have ended. */
    bool run_ready() {
        if (running_) return false;
        const runner now(running_);
        while (!ready.empty()) advance();
        return roots_.empty();
    }

    /* Runs a task and all others; gives its result. */
    template <class T> typename detail::flat<T>::type run(task<T> work) {
        if constexpr (std::is_void_v<T>) {
            if (!running_) spawn(std::move(work));
            return run();
        } else {
            std::optional<T> value;
            if (!running_) spawn(store(std::move(work.check()), value));
            if (auto ran = run(); !ran) return ran.error();
            return std::move(*value);
        }
    }

    template <class T> class get_awaiter;
    class span_awaiter;
    class sync_awaiter;
    class yield_awaiter;
    template <class R> class future_awaiter;

    /* `co_await` gives result<T>: an element, read when no task can run any more, together with all
     * others that tasks wait for then. If one of those reads fails, all do. */
    template <class T> get_awaiter<T> get(const element<T> &from) { return get_awaiter<T>(*this, from.ptr()); }
    template <class T> get_awaiter<T> get(global_ptr<T> from) { return get_awaiter<T>(*this, from); }
    /* Reads as many elements as `to` has; `co_await` gives result<void>. */
    template <class T> span_awaiter get(global_ptr<T> from, std::span<T> to);
    /* `co_await` gives result<void>: all puts and updates that this thread has begun have happened.
     * An error of one is the error of all tasks that wait. */
    sync_awaiter synced();
    /* `co_await` gives result<void>: other tasks, and the network, have had their turn. */
    yield_awaiter yield();

    task_counts counts() const noexcept { return counts_; }

  private:
    struct future_waiter : detail::waiter {
        clump_future *called = nullptr;
    };

    /* A task that no other one awaits. */
    struct root : detail::join_counter {
        task<void> work;
        std::list<root>::iterator at;
        explicit root(task<void> of) : work(std::move(of)) {}
    };

    /* Gets that are begun before they are waited for. The library itself reads after twice as many,
     * and would report an error to the last one only. */
    static constexpr size_t max_gets = size_t{1} << 14;
    /* Calls without a result that one pass over calls polls. */
    static constexpr size_t max_misses = 16;

    /* The time during which tasks run. */
    struct runner {
        bool &running;
        explicit runner(bool &of) : running(of) { running = true; }
        runner(const runner &) = delete;
        ~runner() { running = false; }
    };

    template <class T> static task<void> store(task<T> work, std::optional<T> &to) {
        to.emplace(co_await std::move(work));
    }

    /* Resumes a task, or waits until one is ready. Returns false if none will ever be. */
    bool advance() {
        detail::promise_base *next = ready.pop_front();
        if (next == nullptr) return wait();
        next->self.resume();
        while (detail::join_counter *one = ended.pop_front()) end(static_cast<root &>(*one));
        return true;
    }

    void end(root &it) {
        if (!thrown_) thrown_ = it.work.thrown();
        roots_.erase(it.at);
    }

    /* Waits once for each kind: no kind of waiting delays another for ever. */
    bool wait() {
        if (!synced_.empty()) sync();
        /* A single call is waited for without spinning, by the task that awaits it. */
        const bool spins = !ready.empty() || !yielded_.empty() || !futures_.single();
        if (spins) {
            poll_futures();
        } else {
            ready.push_back(*futures_.pop_front()->coroutine);
        }
        const bool idle = ready.empty();
        if (!yielded_.empty()) poll(idle);
        if (idle && !futures_.empty()) std::this_thread::yield();
        return !ready.empty() || !futures_.empty();
    }

    /* Waits for all gets and updates; `known` is an error of some of them, if there was one. */
    void sync(std::optional<error> known = {}) {
        detail::hook_list<detail::waiter> all;
        all.take(synced_);
        unsynced_gets_ = 0;
        counts_.syncs++;
        if (const auto done = gas_->sync(); !done) known = done.error();
        resume(all, known);
    }

    /* Polls calls in turn. A pass ends after a few without a result, however many there are. */
    void poll_futures() {
        const detail::waiter *first_missed = nullptr;
        size_t misses = 0;
        while (misses < max_misses && !futures_.empty() && futures_.front() != first_missed) {
            future_waiter &call = *futures_.pop_front();
            const int done = clump_future_ready(call.called);
            if (done == 0) {
                futures_.push_back(call);
                if (misses++ == 0) first_missed = &call;
                continue;
            }
            if (done < 0) call.failed = error::last();
            ready.push_back(*call.coroutine);
        }
    }

    /* Lets tasks that have yielded run again. What is collected is sent when nothing else happens. */
    void poll(bool idle) {
        detail::hook_list<detail::waiter> all;
        all.take(yielded_);
        std::optional<error> failed;
        const int polled = calls_ != nullptr ? clump_calls_poll(calls_->get()) : 0;
        if (polled < 0) failed = error::last();
        if (idle && clump_pgas_flush(gas_->get()) < 0) failed = error::last();
        resume(all, failed);
        if (idle) std::this_thread::yield();
    }

    void resume(detail::hook_list<detail::waiter> &all, const std::optional<error> &failed) {
        while (detail::waiter *one = all.pop_front()) {
            if (failed) one->failed = failed;
            ready.push_back(*one->coroutine);
        }
    }

    /* Keeps a coroutine until it has its turn. Returns false, and an error, if it is not of this
     * group. */
    bool suspend(detail::waiter &it, detail::promise_base &coroutine, detail::hook_list<detail::waiter> &in) {
        it.coroutine = &coroutine;
        if (coroutine.queue == this) return in.push_back(it), true;
        it.failed = error{CLUMP_ERR_ARGUMENT, "a task awaits what belongs to another clump::task_group"};
        return false;
    }

    /* Begins to read for a coroutine. Returns false, and an error, if that is refused. */
    bool begin_get(detail::waiter &it, detail::promise_base &coroutine, clump_gptr from, std::span<std::byte> to) {
        if (unsynced_gets_ >= max_gets) sync();
        if (!suspend(it, coroutine, synced_)) return false;
        if (clump_pgas_get(gas_->get(), to.data(), from, to.size()) < 0) {
            it.unlink();
            it.failed = error::last();
            /* Others may have been read in vain, unless this one was refused as such. */
            if (it.failed->status != CLUMP_ERR_ARGUMENT) sync(it.failed);
            return false;
        }
        counts_.gets++;
        unsynced_gets_++;
        return true;
    }

    void destroy_tasks() {
        while (!roots_.empty()) {
            std::list<root> first;
            first.splice(first.begin(), roots_, roots_.begin());
        }
    }

    pgas *gas_;
    remote_calls *calls_ = nullptr;
    detail::hook_list<detail::waiter> synced_, yielded_;
    detail::hook_list<future_waiter> futures_;
    std::list<root> roots_;
    std::exception_ptr thrown_;
    size_t unsynced_gets_ = 0;
    bool running_ = false;
    task_counts counts_;
};

/* Waits for elements that are read to where `to` is when the coroutine is suspended. */
class task_group::span_awaiter : detail::waiter {
  public:
    span_awaiter(task_group &group, clump_gptr from, std::span<std::byte> to) : group_(&group), from_(from), to_(to) {}
    span_awaiter(span_awaiter &&) = default;
    /* The library has the memory until it is read. */
    ~span_awaiter() {
        if (is_linked()) group_->sync();
    }
    bool await_ready() const noexcept { return false; }
    template <detail::task_promise P> bool await_suspend(std::coroutine_handle<P> waiting) {
        return group_->begin_get(*this, waiting.promise(), from_, to_);
    }
    result<void> await_resume() { return outcome(); }

  private:
    task_group *group_;
    clump_gptr from_;
    std::span<std::byte> to_;
};

/* Waits for an element, which is read to the coroutine's frame. */
template <class T> class task_group::get_awaiter : detail::waiter {
  public:
    get_awaiter(task_group &group, global_ptr<T> from) : group_(&group), from_(from) {}
    get_awaiter(get_awaiter &&) = default;
    ~get_awaiter() {
        if (is_linked()) group_->sync();
    }
    bool await_ready() const noexcept { return false; }
    template <detail::task_promise P> bool await_suspend(std::coroutine_handle<P> waiting) {
        return group_->begin_get(*this, waiting.promise(), from_.at, std::as_writable_bytes(std::span(&value_, 1)));
    }
    result<T> await_resume() {
        if (failed) return std::move(*failed);
        return value_;
    }

  private:
    task_group *group_;
    global_ptr<T> from_;
    T value_;
};

class task_group::sync_awaiter : detail::waiter {
  public:
    explicit sync_awaiter(task_group &group) : group_(&group) {}
    bool await_ready() const noexcept { return false; }
    template <detail::task_promise P> bool await_suspend(std::coroutine_handle<P> waiting) {
        return group_->suspend(*this, waiting.promise(), group_->synced_);
    }
    result<void> await_resume() { return outcome(); }

  private:
    task_group *group_;
};

class task_group::yield_awaiter : detail::waiter {
  public:
    explicit yield_awaiter(task_group &group) : group_(&group) {}
    bool await_ready() const noexcept { return false; }
    template <detail::task_promise P> bool await_suspend(std::coroutine_handle<P> waiting) {
        return group_->suspend(*this, waiting.promise(), group_->yielded_);
    }
    result<void> await_resume() { return outcome(); }

  private:
    task_group *group_;
};

template <class R> class task_group::future_awaiter : future_waiter {
  public:
    explicit future_awaiter(future<R> of) : future_(std::move(of)) {}
    bool await_ready() const noexcept { return false; }
    template <detail::task_promise P> void await_suspend(std::coroutine_handle<P> waiting) noexcept {
        coroutine = &waiting.promise();
        called = future_.get();
        static_cast<task_group *>(coroutine->queue)->futures_.push_back(*this);
    }
    result<R> await_resume() {
        if (failed) return std::move(*failed);
        return future_.wait();
    }

  private:
    future<R> future_;
};

template <class T> task_group::span_awaiter task_group::get(global_ptr<T> from, std::span<T> to) {
    return {*this, from.at, std::as_writable_bytes(to)};
}
inline task_group::sync_awaiter task_group::synced() { return sync_awaiter(*this); }
inline task_group::yield_awaiter task_group::yield() { return yield_awaiter(*this); }

/* The result of a remote call, for a task. */
template <class R> task_group::future_awaiter<R> operator co_await(future<R> &&of) {
    return task_group::future_awaiter<R>(std::move(of));
}

} // namespace clump

#endif /* CLUMP_TASK_GROUP_HPP */
