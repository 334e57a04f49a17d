/* Active messages in C++20: lambdas as handlers, their arguments by type. Written by hand.
 *
 * A handler is a lambda of a token, then of up to eight words (numbers, enumerations, or anything
 * trivially copyable of at most eight bytes), and last, optionally, of a std::span<const
 * std::byte> for the payload. Handlers are numbered as they are set, from 1: all ranks set the same
 * ones in the same order.
 */
#ifndef CLUMP_AM_HPP
#define CLUMP_AM_HPP

#include "clump/standard.hpp"

#include "clump/am.h"
#include "clump/world.hpp"

#include <atomic>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <tuple>

namespace clump {

/* The right to send to an endpoint. */
struct tag {
    uint64_t value;
};
/* The global name of an endpoint; may be exchanged. */
struct name {
    clump_name value = 0;
    int rank() const { return clump_name_rank(value); }
};
/* An index of an endpoint's translation table. */
struct dest {
    int index = -1;
};
/* The number of a handler, with the words that it takes. */
template <class... Words> struct handler_of {
    int number;
};
using bytes = std::span<const std::byte>;

namespace detail {
template <class W> constexpr bool is_word = std::is_trivially_copyable_v<W> && sizeof(W) <= 8;
template <class W> uint64_t to_word(const W &value) {
    static_assert(is_word<W>, "a word of a message is trivially copyable and has at most eight bytes");
    uint64_t word = 0;
    std::memcpy(&word, &value, sizeof value);
    return word;
}
template <class W> W from_word(uint64_t word) {
    static_assert(is_word<W> && std::is_default_constructible_v<W>, "a word of a message");
    W value;
    std::memcpy(&value, &word, sizeof value);
    return value;
}
template <class... Words> struct packed {
    uint64_t all[sizeof...(Words) + 1];
    explicit packed(const Words &...words) : all{to_word(words)..., 0} {
        static_assert(sizeof...(Words) <= CLUMP_MAX_WORDS, "a message carries at most eight words");
    }
    static constexpr int count = static_cast<int>(sizeof...(Words));
};
} // namespace detail

/* A handler's view of its message. Valid until the handler returns. */
class token {
  public:
    explicit token(clump_token *it) : it_(it) {}
    name from() const { return {clump_token_from(it_)}; }
    bool may_reply() const { return clump_token_may_reply(it_) == 1; }
    /* Replies; once, and only to requests. */
    template <class... W> result<void> reply(handler_of<W...> to, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(clump_reply_words(it_, to.number, p.all, p.count));
    }
    template <class... W>
    result<void> reply_bulk(handler_of<W...> to, bytes payload, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(
            clump_reply_bulk_words(it_, to.number, payload.data(), payload.size(), p.all, p.count));
    }
    template <class... W>
    result<void> reply_long(handler_of<W...> to, uint64_t offset, bytes payload,
                            std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(
            clump_reply_long_words(it_, to.number, offset, payload.data(), payload.size(), p.all, p.count));
    }
    /* Queues a request, sent after the handler has returned. */
    template <class... W> result<void> defer(dest d, handler_of<W...> to, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(clump_defer_words(it_, d.index, to.number, p.all, p.count));
    }
    template <class... W>
    result<void> defer_bulk(dest d, handler_of<W...> to, bytes payload, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(
            clump_defer_bulk_words(it_, d.index, to.number, payload.data(), payload.size(), p.all, p.count));
    }
    /* Reports that the handler failed; so does an exception, or a result<void> that it returns. */
    void fail(const char *why) { clump_token_fail(it_, why); }
    /* Refuses the message, as a handler of other words does: a request goes back to its sender. */
    void refuse() { clump_token_refuse(it_); }
    clump_token *get() const noexcept { return it_; }

  private:
    clump_token *it_;
};

/* A message returned to sender; valid until the function that gets it returns. */
struct returned {
    const clump_returned &it;
    int rank() const { return it.rank; }
    name to() const { return {it.dest}; }
    int reason() const { return it.reason; }
    const char *why() const { return clump_reason_text(it.reason); }
    std::span<const uint64_t> words() const { return {it.words, static_cast<size_t>(it.nwords)}; }
    bytes payload() const { return {static_cast<const std::byte *>(it.payload), it.payload_bytes}; }
};

namespace detail {
template <class... A> struct list {};
/* Words and payload of a handler's arguments after the token. */
template <class Words, class... Rest> struct split;
template <class... W> struct split<list<W...>> {
    using number = handler_of<W...>;
    static constexpr int count = sizeof...(W);
    static constexpr bool takes_payload = false;
    template <class F, size_t... I>
    static decltype(auto) call(F &f, token t, const uint64_t *w, bytes, std::index_sequence<I...>) {
        return f(t, from_word<W>(w[I])...);
    }
    template <class F> static decltype(auto) run(F &f, token t, const uint64_t *w, bytes b) {
        return call(f, t, w, b, std::index_sequence_for<W...>{});
    }
};
template <class... W> struct split<list<W...>, bytes> {
    using number = handler_of<W...>;
    static constexpr int count = sizeof...(W);
    static constexpr bool takes_payload = true;
    template <class F, size_t... I>
    static decltype(auto) call(F &f, token t, const uint64_t *w, bytes b, std::index_sequence<I...>) {
        return f(t, from_word<W>(w[I])..., b);
    }
    template <class F> static decltype(auto) run(F &f, token t, const uint64_t *w, bytes b) {
        return call(f, t, w, b, std::index_sequence_for<W...>{});
    }
};
template <class... W, class Next, class... Rest>
    requires(!std::is_same_v<std::remove_cvref_t<Next>, bytes>)
struct split<list<W...>, Next, Rest...> : split<list<W..., std::remove_cvref_t<Next>>, Rest...> {};

template <class F> struct arguments : arguments<decltype(&F::operator())> {};
template <class F, class R, class T, class... A> struct arguments<R (F::*)(T, A...)> : split<list<>, A...> {
    static_assert(std::is_same_v<std::remove_cvref_t<T>, token>, "a handler takes a clump::token first");
};
template <class F, class R, class T, class... A>
struct arguments<R (F::*)(T, A...) const> : arguments<R (F::*)(T, A...)> {};
template <class F, class R, class T, class... A>
struct arguments<R (F::*)(T, A...) noexcept> : arguments<R (F::*)(T, A...)> {};
template <class F, class R, class T, class... A>
struct arguments<R (F::*)(T, A...) const noexcept> : arguments<R (F::*)(T, A...)> {};

/* The function that C calls for a lambda. No exception leaves it. */
template <class F>
void run_handler(clump_token *t, const uint64_t *words, int count, const void *payload, size_t size) noexcept {
    using args = arguments<F>;
    F &f = *static_cast<F *>(clump_token_context(t));
    token it(t);
    if (count != args::count || (size != 0 && !args::takes_payload)) {
        it.refuse();
        return;
    }
    try {
        const bytes b(static_cast<const std::byte *>(payload), size);
        if constexpr (std::is_same_v<decltype(args::run(f, it, words, b)), result<void>>) {
            const result<void> done = args::run(f, it, words, b);
            if (!done) it.fail(done.error().text.c_str());
        } else {
            args::run(f, it, words, b);
        }
    } catch (const std::exception &e) {
        it.fail(e.what());
    } catch (...) {
        it.fail("an exception");
    }
}
} // namespace detail

/* The threads that may use an endpoint: the thread that opened it, or all. */
enum class threads { one, all };

/* An endpoint; its destructor closes it. An endpoint destroyed where it cannot be closed, inside
 * its own handler or in another thread than the one that opened it, stays open with its handlers,
 * until the end of that thread or of the job, and their memory until the process ends. Functions
 * are those of <clump/am.h>, with their errors and rules. */
class endpoint {
  public:
    /* Throws failure. */
    endpoint(world &cl, tag t, threads who = threads::one) : all_(new everything) {
        clump_ep *ep = who == threads::one ? clump_ep_open(cl.get(), t.value)
                                           : clump_ep_open_shared(cl.get(), t.value);
        all_->ep = detail::or_throw(ep);
    }
    static result<endpoint> open(world &cl, tag t, threads who = threads::one) {
        try {
            return endpoint(cl, t, who);
        } catch (const failure &f) {
            return error{f.status(), f.what()};
        }
    }

    /* Sets the next handler; returns its number. Throws failure if it cannot be set. */
    template <class F> auto handler(F f) {
        using args = detail::arguments<F>;
        static_assert(args::count <= CLUMP_MAX_WORDS, "a message carries at most eight words");
        auto kept = std::make_shared<F>(std::move(f));
        const int number = all_->next;
        if (clump_ep_handler_with(get(), number, detail::run_handler<F>, kept.get()) < 0)
            throw failure(error::last());
        all_->kept.push_back(std::move(kept));
        all_->next++;
        return typename args::number{number};
    }
    /* Sets the function for messages returned to sender. */
    template <class F> result<void> on_returned(F f) {
        all_->returned = std::move(f);
        return detail::nothing(clump_ep_on_returned(
            get(),
            [](const clump_returned *m) {
                try {
                    static_cast<everything *>(m->context)->returned(clump::returned{*m});
                } catch (...) {
                    std::terminate();
                }
            },
            all_.get()));
    }

    clump::name name() const { return {clump_ep_name(get())}; }
    result<dest> map(clump::name n, tag t) { return to(clump_ep_map(get(), n.value, t.value)); }
    result<dest> map_ordered(clump::name n, tag t) { return to(clump_ep_map_ordered(get(), n.value, t.value)); }
    result<void> unmap(dest d) { return detail::nothing(clump_ep_unmap(get(), d.index)); }
    result<std::span<std::byte>> export_segment(uint64_t size) {
        void *base = nullptr;
        if (clump_ep_export(get(), size, &base) < 0) return error::last();
        return std::span(static_cast<std::byte *>(base), static_cast<size_t>(size));
    }
    size_t max_medium() const { return clump_max_medium(get()); }

    template <class... W> result<void> request(dest d, handler_of<W...> h, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(clump_request_inline(get(), d.index, h.number, p.all, p.count));
    }
    template <class... W>
    result<void> request_bulk(dest d, handler_of<W...> h, bytes payload, std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(clump_request_bulk_words(get(), d.index, h.number, payload.data(), payload.size(),
                                                        p.all, p.count));
    }
    template <class... W>
    result<void> request_long(dest d, handler_of<W...> h, uint64_t offset, bytes payload,
                              std::type_identity_t<W>... words) {
        const detail::packed<W...> p(words...);
        return detail::nothing(clump_request_long_words(get(), d.index, h.number, offset, payload.data(),
                                                        payload.size(), p.all, p.count));
    }
    result<int> poll() { return detail::count(clump_poll(get())); }
    result<int> wait() { return detail::count(clump_wait(get())); }
    result<void> drain() { return detail::nothing(clump_drain(get())); }
    /* Polls once; returns true if drain would return without waiting. */
    result<bool> try_drain() {
        const int drained = clump_try_drain(get());
        return detail::either(drained, drained == 1);
    }
    /* Holds requests of others back until release, as clump_ep_hold does. */
    result<void> hold() { return detail::nothing(clump_ep_hold(get())); }
    result<void> release() { return detail::nothing(clump_ep_release(get())); }
    /* Polls until `done()`; an exception of it ends the wait, and is thrown on. */
    template <class F> result<void> poll_until(F done) {
        struct asked {
            F &done;
            std::exception_ptr thrown;
        } it{done, nullptr};
        const int status = clump_poll_until(
            get(),
            [](void *given) -> int {
                asked &wanted = *static_cast<asked *>(given);
                try {
                    return wanted.done() ? 1 : 0;
                } catch (...) {
                    wanted.thrown = std::current_exception();
                    return 1;
                }
            },
            &it);
        if (it.thrown) std::rethrow_exception(it.thrown);
        return detail::nothing(status);
    }
    clump_ep *get() const noexcept { return all_ ? all_->ep : nullptr; }

  private:
    /* Allocated once and never moved, because C keeps its address. */
    struct everything {
        clump_ep *ep = nullptr;
        int next = 1;
        std::vector<std::shared_ptr<void>> kept;
        std::function<void(const clump::returned &)> returned;
        /* The previous one in the list of those that stay. */
        everything *before = nullptr;
        everything() = default;
        everything(const everything &) = delete;
        everything &operator=(const everything &) = delete;
    };
    /* Keeps an endpoint that cannot be closed, with its handlers: one of them runs now, or another
     * thread uses it. */
    struct leaver {
        void operator()(everything *it) const {
            const int status = clump_ep_close(it->ep);
            const bool open = status == CLUMP_ERR_BUSY || status == CLUMP_ERR_THREAD || status == CLUMP_ERR_IN_HANDLER;
            if (!open) {
                delete it;
                return;
            }
            static std::atomic<everything *> left{nullptr};
            it->before = left.exchange(it);
        }
    };
    static result<dest> to(int index) { return detail::either(index, dest{index}); }
    std::unique_ptr<everything, leaver> all_;
};

} // namespace clump

#endif /* CLUMP_AM_HPP */
