/* Tasks in C++20: coroutines that wait for one another, and for what a task_group gets. Written by
 * hand.
 *
 * Coroutines never resume one another: all are resumed by the loop of their group, so the stack
 * does not grow with the depth of calls, whether or not the compiler makes tail calls.
 *
 * GCC 12 miscompiles `co_await` in the condition of an `if`: give its result a name first.
 */
#ifndef CLUMP_TASK_HPP
#define CLUMP_TASK_HPP

#include "clump/standard.hpp"

#include "clump/result.hpp"

#include <concepts>
#include <coroutine>
#include <cstddef>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

namespace clump {

template <class T = void> class task;

namespace detail {

/* A place in at most one list, which it leaves when it is destroyed. */
class hook {
  public:
    hook() = default;
    /* What moves is in no list yet. */
    hook(hook &&) noexcept {}
    hook &operator=(hook &&) = delete;
    ~hook() { unlink(); }
    bool is_linked() const noexcept { return next_ != this; }
    void unlink() noexcept {
        prev_->next_ = next_;
        next_->prev_ = prev_;
        prev_ = next_ = this;
    }

  private:
    template <class T> friend class hook_list;
    void link_behind(hook &at) noexcept {
        unlink();
        prev_ = &at;
        next_ = at.next_;
        prev_->next_ = next_->prev_ = this;
    }
    hook *prev_ = this, *next_ = this;
};

/* A doubly linked list through the hooks of its elements, which it does not own. */
template <class T> class hook_list {
  public:
    bool empty() const noexcept { return !head_.is_linked(); }
    /* Returns true if there is one element. */
    bool single() const noexcept { return !empty() && head_.next_ == head_.prev_; }
    void push_front(T &it) noexcept { it.link_behind(head_); }
    void push_back(T &it) noexcept { it.link_behind(*head_.prev_); }
    /* Returns the first element; null if there is none. */
    T *front() const noexcept { return empty() ? nullptr : static_cast<T *>(head_.next_); }
    T *pop_front() noexcept {
        T *first = front();
        if (first != nullptr) first->unlink();
        return first;
    }
    /* Takes all elements of another list. */
    void take(hook_list &other) noexcept {
        if (other.empty()) return;
        head_.link_behind(other.head_);
        other.head_.unlink();
    }

  private:
    hook head_;
};

struct promise_base;

/* Tasks that a coroutine waits for together; those of a group have no such coroutine. */
struct join_counter : hook {
    promise_base *parent = nullptr;
    size_t left = 0;
};

/* What is to be resumed, in turn, and what of a group itself has ended. */
struct ready_queue {
    hook_list<promise_base> ready;
    hook_list<join_counter> ended;
};

/* The owner of a coroutine. Does not move once the coroutine is begun. */
class task_handle {
  public:
    explicit task_handle(promise_base &it) noexcept : it_(&it) {}
    task_handle(task_handle &&other) noexcept : it_(std::exchange(other.it_, nullptr)) {}
    task_handle &operator=(task_handle &&other) noexcept {
        if (this != &other) {
            destroy();
            it_ = std::exchange(other.it_, nullptr);
        }
        return *this;
    }
    ~task_handle() { destroy(); }
    /* Returns false for what was moved from, or awaited. */
    explicit operator bool() const noexcept { return it_ != nullptr; }
    /* The exception that has left it; null if there is none. */
    inline std::exception_ptr thrown() const noexcept;

  protected:
    promise_base *it_;

  private:
    friend struct promise_base;
    inline void destroy() noexcept;
};

/* What promises have whatever their results. Linked while its coroutine is ready. */
struct promise_base : hook {
    std::coroutine_handle<> self;
    std::exception_ptr thrown;
    /* Of the group that runs it; null before it is begun. */
    ready_queue *queue = nullptr;
    join_counter *joined = nullptr;
    task_handle *owner = nullptr;
    /* The first task that it waits for, and the next that its parent waits for. */
    promise_base *child = nullptr, *sibling = nullptr;

    /* Lets a task run in a group, and count when it has ended. */
    static promise_base &begin(task_handle &work, ready_queue &in, join_counter &counter) noexcept {
        promise_base &it = *work.it_;
        it.owner = &work;
        it.queue = &in;
        it.joined = &counter;
        counter.left++;
        return it;
    }
    /* Lets a task run next, and this coroutine wait for it. */
    void begin_child(task_handle &work, join_counter &counter) noexcept {
        promise_base &it = begin(work, *queue, counter);
        counter.parent = this;
        it.sibling = std::exchange(child, &it);
        queue->ready.push_front(it);
    }
    void end() noexcept {
        if (--joined->left > 0) return;
        if (joined->parent == nullptr) return queue->ended.push_back(*joined);
        joined->parent->child = nullptr;
        queue->ready.push_front(*joined->parent);
    }

    struct final_awaiter {
        bool await_ready() const noexcept { return false; }
        template <class P> void await_suspend(std::coroutine_handle<P> ended) noexcept { ended.promise().end(); }
        void await_resume() const noexcept {}
    };
    std::suspend_always initial_suspend() const noexcept { return {}; }
    final_awaiter final_suspend() const noexcept { return {}; }
    void unhandled_exception() noexcept { thrown = std::current_exception(); }
};

std::exception_ptr task_handle::thrown() const noexcept { return it_->thrown; }

/* Destroys a coroutine after those that it waits for, which may refer to it. A loop, because the
 * stack has no room for as many frames as there may be coroutines. */
void task_handle::destroy() noexcept {
    for (promise_base *top = it_, *at = top; at != nullptr;) {
        while (at->child != nullptr) at = at->child;
        promise_base *parent = at == top ? nullptr : at->joined->parent;
        if (parent != nullptr) parent->child = at->sibling;
        if (at->owner != nullptr) at->owner->it_ = nullptr;
        at->self.destroy();
        at = parent;
    }
    it_ = nullptr;
}

template <class T> struct promise : promise_base {
    std::optional<T> value;

    task<T> get_return_object() noexcept;
    void return_value(T of) { value.emplace(std::move(of)); }
    T take() {
        if (thrown) std::rethrow_exception(thrown);
        return std::move(*value);
    }
};

template <> struct promise<void> : promise_base {
    inline task<void> get_return_object() noexcept;
    void return_void() const noexcept {}
    std::monostate take() const {
        if (thrown) std::rethrow_exception(thrown);
        return {};
    }
};

/* T, where a value must be. */
template <class T> using value_of = std::conditional_t<std::is_void_v<T>, std::monostate, T>;

template <class P>
concept task_promise = std::derived_from<P, promise_base>;

} // namespace detail

/* A coroutine that runs once it is awaited by another task, or given to a task_group. `co_await
 * std::move(task)` gives its result, or throws its exception. */
template <class T> class [[nodiscard]] task : public detail::task_handle {
    static_assert(std::is_void_v<T> || std::is_object_v<T>, "a task has a value, or void");

  public:
    using promise_type = detail::promise<T>;
    using detail::task_handle::task_handle;

    class awaiter : detail::join_counter {
      public:
        explicit awaiter(task work) noexcept : work_(std::move(work)) {}
        bool await_ready() const noexcept { return false; }
        template <detail::task_promise P> void await_suspend(std::coroutine_handle<P> waiting) noexcept {
            waiting.promise().begin_child(work_, *this);
        }
        T await_resume() { return static_cast<T>(work_.take()); }

      private:
        task work_;
    };
    awaiter operator co_await() && { return awaiter(std::move(check())); }

    /* Throws failure if it was moved from, or awaited. */
    task &check() {
        if (!*this) throw failure(error{CLUMP_ERR_HANDLE, "this clump::task was moved from or awaited before"});
        return *this;
    }
    /* The result of a task that has ended. */
    detail::value_of<T> take() { return static_cast<promise_type *>(it_)->take(); }
};

namespace detail {

template <class T> task<T> promise<T>::get_return_object() noexcept {
    self = std::coroutine_handle<promise>::from_promise(*this);
    return task<T>(*this);
}

task<void> promise<void>::get_return_object() noexcept {
    self = std::coroutine_handle<promise>::from_promise(*this);
    return task<void>(*this);
}

/* Waits for several tasks, which it owns. */
template <class... T> class join_awaiter : join_counter {
  public:
    explicit join_awaiter(task<T>... works) : works_(std::move(works.check())...) {}
    bool await_ready() const noexcept { return sizeof...(T) == 0; }
    template <task_promise P> void await_suspend(std::coroutine_handle<P> waiting) noexcept {
        begin(waiting.promise(), std::index_sequence_for<T...>{});
    }
    std::tuple<value_of<T>...> await_resume() {
        return std::apply([](auto &...work) { return std::tuple<value_of<T>...>{work.take()...}; }, works_);
    }

  private:
    /* The last first, because each is put before those that are ready. */
    template <size_t... I> void begin(promise_base &waiting, std::index_sequence<I...>) noexcept {
        (waiting.begin_child(std::get<sizeof...(T) - 1 - I>(works_), *this), ...);
    }
    std::tuple<task<T>...> works_;
};

template <class T> class join_all_awaiter : join_counter {
  public:
    explicit join_all_awaiter(std::vector<task<T>> works) : works_(std::move(works)) {
        for (auto &work : works_) work.check();
    }
    bool await_ready() const noexcept { return works_.empty(); }
    template <task_promise P> void await_suspend(std::coroutine_handle<P> waiting) noexcept {
        for (auto work = works_.rbegin(); work != works_.rend(); ++work) waiting.promise().begin_child(*work, *this);
    }
    std::vector<value_of<T>> await_resume() {
        std::vector<value_of<T>> all;
        all.reserve(works_.size());
        for (auto &work : works_) all.push_back(work.take());
        return all;
    }

  private:
    std::vector<task<T>> works_;
};

template <class A> decltype(auto) awaiter_of(A &&of) {
    if constexpr (requires { std::forward<A>(of).operator co_await(); }) {
        return std::forward<A>(of).operator co_await();
    } else if constexpr (requires { operator co_await(std::forward<A>(of)); }) {
        return operator co_await(std::forward<A>(of));
    } else {
        return std::forward<A>(of);
    }
}
template <class A> using awaited = decltype(awaiter_of(std::declval<A>()).await_resume());

/* What can be awaited, as a task. */
template <class T> task<T> as_task(task<T> it) { return it; }
template <class A> task<std::remove_cvref_t<awaited<A>>> as_task(A it) { co_return co_await std::move(it); }

template <class... T> task<std::tuple<value_of<T>...>> join(task<T>... works) {
    co_return co_await join_awaiter<T...>(std::move(works)...);
}

} // namespace detail

/* Runs tasks, and anything else that tasks await, side by side; gives a tuple of their results, with
 * std::monostate for void. If some throw, the exception of the first in order is thrown, once all
 * have ended. */
template <class... A> auto when_all(A... all) { return detail::join(detail::as_task(std::move(all))...); }

/* Runs tasks side by side, as the other when_all does; gives a vector. */
template <class T> task<std::vector<detail::value_of<T>>> when_all(std::vector<task<T>> all) {
    co_return co_await detail::join_all_awaiter<T>(std::move(all));
}

} // namespace clump

#endif /* CLUMP_TASK_HPP */
