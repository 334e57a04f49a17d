/* Remote calls in C++20: functions that all ranks define, called at any rank, with futures. Written
 * by hand. */
#ifndef CLUMP_REMOTE_HPP
#define CLUMP_REMOTE_HPP

#include "clump/standard.hpp"

#if !defined(__cpp_rtti)
#error "clump/remote.hpp needs names of types: leave out -fno-rtti, or include other headers of clump"
#include <clump/needs-rtti> /* ends the compilation here */
#endif

#include "clump/pgas.hpp"

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

namespace clump {

/* A function that all ranks have defined: plain data. */
template <class R, class... A> struct remote_fn {
    int number = -1;
};

template <class T> class dist_object;

namespace detail {

template <class T> void append(std::vector<std::byte> &to, const T &value) {
    static_assert(std::is_trivially_copyable_v<T>, "arguments and results travel as they lie in memory");
    const auto *bytes = reinterpret_cast<const std::byte *>(&value);
    to.insert(to.end(), bytes, bytes + sizeof value);
}

template <class T> T taken(const std::byte *&from) {
    static_assert(std::is_trivially_copyable_v<T>, "arguments and results travel as they lie in memory");
    T value;
    std::memcpy(&value, from, sizeof value);
    from += sizeof value;
    return value;
}

/* Encoding of an argument: its bytes in memory. */
template <class A> struct on_wire {
    using sent = std::decay_t<A>;
    using given = std::decay_t<A>;
    static const sent &of(const sent &value) { return value; }
    static given take(clump_call *, const std::byte *&from) { return taken<sent>(from); }
};

/* An object that every rank has its own of travels as its number; the function gets its rank's. */
template <class T> struct on_wire<dist_object<T> &> {
    using sent = int;
    using given = dist_object<T> &;
    static sent of(const dist_object<T> &object) { return object.number(); }
    static given take(clump_call *call, const std::byte *&from) {
        return *static_cast<dist_object<T> *>(or_throw(clump_call_object(call, taken<int>(from))));
    }
};
template <class T> struct on_wire<const dist_object<T> &> : on_wire<dist_object<T> &> {};

struct remote_body {
    virtual ~remote_body() = default;
};

/* A function with its arguments' types, behind the pointer that C hands on. */
template <class R, class... A> struct typed_body : remote_body {
    std::function<R(A...)> run;
    explicit typed_body(std::function<R(A...)> of) : run(std::move(of)) {}

    static int call(clump_call *call, void *data, const void *arguments, size_t bytes) noexcept {
        if (bytes != (sizeof(typename on_wire<A>::sent) + ... + 0)) return CLUMP_ERR_ARGUMENT;
        try {
            [[maybe_unused]] const auto *from = static_cast<const std::byte *>(arguments);
            /* Braces evaluate from left to right. */
            std::tuple<typename on_wire<A>::given...> given{on_wire<A>::take(call, from)...};
            auto &body = *static_cast<typed_body *>(data);
            if constexpr (std::is_void_v<R>) {
                std::apply(body.run, std::move(given));
                return 0;
            } else {
                static_assert(std::is_trivially_copyable_v<R>, "results travel as they lie in memory");
                const R result = std::apply(body.run, std::move(given));
                return clump_call_result(call, &result, sizeof result);
            }
        } catch (const failure &failed) {
            return failed.status();
        } catch (...) {
            return CLUMP_ERR_HANDLER_FAILED;
        }
    }
};

} // namespace detail

/* The result of a call, which comes later. One that is destroyed is executed all the same. */
template <class R> class future {
  public:
    explicit future(clump_future *it) : it_(it) {}
    /* Polls. */
    result<bool> ready() const {
        const int done = clump_future_ready(it_.get());
        return detail::either(done < 0 ? done : 0, done == 1);
    }
    /* Once. */
    result<R> wait() {
        if constexpr (std::is_void_v<R>) {
            const int got = clump_future_wait(it_.release(), nullptr, 0);
            return detail::nothing(got < 0 ? got : 0);
        } else {
            R value;
            const int got = clump_future_wait(it_.release(), &value, sizeof value);
            return detail::either(got < 0 ? got : 0, value);
        }
    }
    clump_future *get() const noexcept { return it_.get(); }

  private:
    struct freed {
        void operator()(clump_future *it) const { (void)clump_future_free(it); }
    };
    std::unique_ptr<clump_future, freed> it_;
};

/* A thread's remote calls. Functions run at a rank while it polls or waits; they may not wait. */
class remote_calls {
  public:
    /* Collective. Throws failure. */
    explicit remote_calls(pgas &gas) : it_(detail::or_throw(clump_calls_open(gas.get()))) {}

    /* Defines a function. Collective: all ranks define the same, of the same types, in the same
     * order. Throws failure. */
    template <class F> auto define(const std::string &name, F function) {
        return define_typed(name, std::function(std::move(function)));
    }

    /* Begins to call a function at a rank. */
    template <class R, class... A>
    result<future<R>> call(remote_fn<R, A...> function, int rank, std::type_identity_t<A>... arguments) {
        const auto sent = packed<A...>(arguments...);
        clump_future *begun = clump_call_begin(it_.get(), rank, function.number, sent.data(), sent.size());
        if (begun == nullptr) return error::last();
        return future<R>(begun);
    }

    /* Calls a function at a rank, and does not wait for it: end does. */
    template <class R, class... A>
    result<void> send(remote_fn<R, A...> function, int rank, std::type_identity_t<A>... arguments) {
        const auto sent = packed<A...>(arguments...);
        return detail::nothing(clump_call_send(it_.get(), rank, function.number, sent.data(), sent.size()));
    }

    result<void> poll() { return detail::nothing(clump_calls_poll(it_.get())); }
    /* Returns once no call is under way anywhere. Collective. */
    result<void> end() { return detail::nothing(clump_calls_end(it_.get(), nullptr, nullptr)); }
    clump_calls *get() const noexcept { return it_.get(); }

  private:
    template <class R, class... A>
    remote_fn<R, A...> define_typed(const std::string &name, std::function<R(A...)> function) {
        using body = detail::typed_body<R, A...>;
        auto kept = std::make_unique<body>(std::move(function));
        /* Types are compared with the name. */
        const std::string signed_name = name + " " + typeid(R(A...)).name();
        const int number = clump_calls_register(it_.get(), signed_name.c_str(), &body::call, kept.get());
        bodies_.push_back(std::move(kept));
        return {detail::count(number).value()};
    }
    template <class... A>
    static std::vector<std::byte> packed(const std::remove_reference_t<A> &...arguments) {
        std::vector<std::byte> sent;
        (detail::append(sent, detail::on_wire<A>::of(arguments)), ...);
        return sent;
    }
    std::vector<std::unique_ptr<detail::remote_body>> bodies_;
    detail::owned<clump_calls, clump_calls_close> it_;
};

/* An object that every rank has its own of. A function that has a dist_object<T> & among its
 * arguments gets its rank's. Functions run in calls that poll or wait: none of them uses it while
 * this rank does, unless that polls. Its remote_calls must outlive it; meet in end before. */
template <class T> class dist_object {
  public:
    /* Makes this rank's of `value`. Collective: all ranks make objects of the same types in the same
     * order. Throws failure. */
    template <class... V>
    explicit dist_object(remote_calls &calls, V &&...value)
        : calls_(calls.get()), value_(std::forward<V>(value)...),
          number_(detail::count(clump_calls_object(calls_, typeid(T).name(), this)).value()) {}
    dist_object(const dist_object &) = delete;
    dist_object &operator=(const dist_object &) = delete;
    ~dist_object() { (void)clump_calls_object_free(calls_, number_); }

    /* This rank's. */
    T &operator*() noexcept { return value_; }
    const T &operator*() const noexcept { return value_; }
    T *operator->() noexcept { return &value_; }
    const T *operator->() const noexcept { return &value_; }
    /* Its number, which is the same on all ranks. */
    int number() const noexcept { return number_; }

  private:
    clump_calls *calls_;
    T value_;
    int number_;
};

} // namespace clump

#endif /* CLUMP_REMOTE_HPP */
