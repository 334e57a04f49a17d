/* Active messages: endpoints, handlers, requests and replies.
 *
 * Made of the sources of clump-capi; to change it, change those, and run
 * `cargo run -p clump-capi --example headers`.
 */

#ifndef CLUMP_AM_H
#define CLUMP_AM_H

#include "clump/job.h"


/**
 * Maximum number of words of a message.
 */
#define CLUMP_MAX_WORDS 8

/**
 * The events that end a ::clump_wait.
 */
typedef enum clump_events {
  /**
   * A message was handled. The default of an endpoint.
   */
  CLUMP_EVENTS_NOT_EMPTY = 0,
  /**
   * No event but an error: the thread serves its endpoints.
   */
  CLUMP_EVENTS_NONE = 1
} clump_events;

/**
 * Reasons why a message was returned to sender.
 */
typedef enum clump_reason {
  /**
   * Its handler takes another number of words, or no payload; or it was addressed to handler 0,
   * which takes no requests.
   */
  CLUMP_RETURNED_BAD_ARGUMENTS = 1,
  /**
   * No endpoint was ever opened under that name.
   */
  CLUMP_RETURNED_NO_ENDPOINT = 2,
  /**
   * The tag did not match the endpoint's.
   */
  CLUMP_RETURNED_BAD_TAG = 3,
  /**
   * The endpoint has no handler of that number.
   */
  CLUMP_RETURNED_BAD_HANDLER = 4,
  /**
   * The deposit starts outside of the target's segment, or it has none.
   */
  CLUMP_RETURNED_BAD_OFFSET = 5,
  /**
   * The deposit ends outside of the target's segment.
   */
  CLUMP_RETURNED_BAD_LENGTH = 6,
  /**
   * The endpoint was closed before it read the message.
   */
  CLUMP_RETURNED_ENDPOINT_GONE = 7,
  /**
   * The target's rank died.
   */
  CLUMP_RETURNED_PEER_LOST = 8,
  /**
   * The target had no space for as long as `CLUMP_SEND_TIMEOUT_MS` allows.
   */
  CLUMP_RETURNED_CONGESTION = 9,
  /**
   * The requester of a reply closed its endpoint before it read the reply.
   */
  CLUMP_RETURNED_REPLY_REJECTED = 10
} clump_reason;

/**
 * An endpoint of a virtual network: it sends and receives messages. A rank has up to 32 at one
 * time, some of which one-sided operations and collectives take.
 */
typedef struct clump_ep clump_ep;

/**
 * A handler's view of the message that it handles: the right to reply once, and to defer requests.
 * Valid in its handler's thread, until the handler returns.
 */
typedef struct clump_token clump_token;

/**
 * The global name of an endpoint: plain data that ranks may send each other. 0 names nothing.
 */
typedef uint64_t clump_name;

/**
 * A function of the program for a message: `words` are its `nwords` words (0 to 8), `payload` its
 * `bytes` bytes, none in short messages. The payload of a medium message is at a multiple of 64
 * only if it came from this node, that of a long one in the endpoint's segment; both may be
 * written by their sender's process at any time. `token` and all of these are valid until the
 * handler returns.
 *
 * A handler may reply once (::clump_reply), queue requests (::clump_defer), and use other
 * endpoints; it must not wait for messages of its own. It must return. A handler that leaves by
 * `longjmp` leaves its endpoint inside a handler for good (all calls fail with
 * ::CLUMP_ERR_IN_HANDLER); one that leaves by a C++ exception ends the process; one that calls
 * `exit` ends the rank without ::clump_finalize, which counts as its death.
 */
typedef void (*clump_handler)(struct clump_token *token,
                              const uint64_t *words,
                              int nwords,
                              const void *payload,
                              size_t bytes);

/**
 * A message returned to the endpoint that sent it. Valid until the function that gets it returns.
 */
typedef struct clump_returned {
  /**
   * The context given with that function.
   */
  void *context;
  /**
   * The rank that sent it: this one.
   */
  int rank;
  /**
   * Why it was returned: a ::clump_reason.
   */
  int reason;
  /**
   * The endpoint that it was sent to.
   */
  clump_name dest;
  /**
   * 1 if it was a reply, else 0.
   */
  int is_reply;
  /**
   * The handler that it was addressed to.
   */
  int handler;
  /**
   * Words of the message.
   */
  const uint64_t *words;
  /**
   * Number of words.
   */
  int nwords;
  /**
   * 1 if it was a long message, else 0.
   */
  int is_long;
  /**
   * The payload of a medium message.
   */
  const void *payload;
  /**
   * Bytes of that; 0 for short and long messages.
   */
  size_t payload_bytes;
  /**
   * Offset in the target's segment of the deposit of a long message.
   */
  uint64_t offset;
  /**
   * Bytes of that. It is unknown if they were written.
   */
  uint64_t deposit_bytes;
} clump_returned;

/**
 * A function of the program for a message returned to sender. It must not wait, nor use the
 * endpoint.
 */
typedef void (*clump_on_returned)(const struct clump_returned *message);

#ifdef __cplusplus
extern "C" {
#endif /* __cplusplus */

/**
 * Opens an endpoint that only the calling thread may use. `tag` is the right to send to it.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT. Closed by ::clump_ep_close, at the end of the
 * thread, or by ::clump_finalize.
 */
struct clump_ep *clump_ep_open(clump_t *cl, uint64_t tag);

/**
 * Opens an endpoint that all threads may use. Each call takes a lock; handlers run in any thread
 * that polls, one at a time. Only calls on it poll it: a thread that waits for something else, in
 * a barrier for example, does not poll it, and replies that wait for space are sent by the next
 * call that polls (::clump_drain ensures it).
 *
 * It is locked while a handler of it runs; calls of other threads wait. A handler that uses
 * another shared endpoint, whose handler runs in another thread and waits for this one, gets
 * ::CLUMP_ERR_BUSY.
 *
 * Returns null on failure: ::CLUMP_ERR_LIMIT. Closed by ::clump_ep_close, or by ::clump_finalize.
 */
struct clump_ep *clump_ep_open_shared(clump_t *cl, uint64_t tag);

/**
 * Closes an endpoint. Messages sent to it that it has not handled are returned to sender; memory
 * that it has exported is freed. Closing a null pointer does nothing.
 *
 * Errors: ::CLUMP_ERR_BUSY (inside one of its handlers, or another thread is inside a call),
 * ::CLUMP_ERR_HANDLE, ::CLUMP_ERR_THREAD.
 */
int clump_ep_close(struct clump_ep *ep);

/**
 * Returns the global name of an endpoint, to send to other ranks; 0 on failure.
 */
clump_name clump_ep_name(const struct clump_ep *ep);

/**
 * Returns the rank of a named endpoint, even if there is no such rank. Any thread, at any time.
 */
int clump_name_rank(clump_name name);

/**
 * Writes the tag that senders need now to `tag`.
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER.
 *
 * # Safety
 * `tag` is null or a place to write to.
 */
int clump_ep_tag(struct clump_ep *ep, uint64_t *tag);

/**
 * Changes the tag: messages with the old tag are refused from now on.
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_set_tag(struct clump_ep *ep, uint64_t tag);

/**
 * Maps an endpoint into the translation table; returns its index there, the destination of
 * requests. Nothing is sent: a wrong name or tag shows when a message is sent (it is returned to
 * sender).
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER, ::CLUMP_ERR_SYSTEM.
 */
int clump_ep_map(struct clump_ep *ep, clump_name name, uint64_t tag);

/**
 * Maps an endpoint as ::clump_ep_map does; requests to this destination are handled in the order
 * in which they were sent. Otherwise, messages between nodes may overtake each other (those within
 * one node never do).
 */
int clump_ep_map_ordered(struct clump_ep *ep, clump_name name, uint64_t tag);

/**
 * Unmaps a destination. Messages sent before are still delivered, or returned to sender.
 *
 * Errors: ::CLUMP_ERR_DESTINATION, ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_unmap(struct clump_ep *ep, int dest);

/**
 * Exports `bytes` bytes of zeroed memory, into which others deposit by ::clump_request_long and
 * ::clump_reply_long; writes its address to `base`, if that is not null. Once for each endpoint;
 * the memory lives until the endpoint is closed.
 *
 * Errors: ::CLUMP_ERR_BUSY (it has a segment already), ::CLUMP_ERR_LIMIT, ::CLUMP_ERR_SYSTEM,
 * ::CLUMP_ERR_IN_HANDLER.
 *
 * # Safety
 * `base` is null or a place to write to.
 */
int clump_ep_export(struct clump_ep *ep, uint64_t bytes, void **base);

/**
 * Returns the maximum number of bytes of a medium message; 0 on failure.
 */
size_t clump_max_medium(const struct clump_ep *ep);

/**
 * Sets the events that end a ::clump_wait of this endpoint, which must not be shared.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no such events, or the endpoint is shared).
 */
int clump_ep_set_events(struct clump_ep *ep, int events);

/**
 * Handles the messages that have arrived, without waiting; returns how many were handled.
 *
 * Errors: ::CLUMP_ERR_HANDLER_FAILED, ::CLUMP_ERR_RETURNED, ::CLUMP_ERR_DAMAGED,
 * ::CLUMP_ERR_IN_HANDLER.
 */
int clump_poll(struct clump_ep *ep);

/**
 * Waits until at least one message was handled (or as set by ::clump_ep_set_events); returns how
 * many were. Sleeps when that takes long. All endpoints that the calling thread opened for itself
 * are polled meanwhile.
 *
 * Errors: as ::clump_poll; ::CLUMP_ERR_RANK_DIED.
 */
int clump_wait(struct clump_ep *ep);

/**
 * Polls until `done(argument)` is not 0; sleeps when that takes long, and evaluates it again at
 * the latest after 10 ms. `done` may call functions of clump, except those that wait; it must not
 * leave by `longjmp` or an exception.
 *
 * Errors: as ::clump_wait; ::CLUMP_ERR_ARGUMENT (`done` is null).
 *
 * # Safety
 * `done` takes `argument`.
 */
int clump_poll_until(struct clump_ep *ep, int (*done)(void *argument), void *argument);

/**
 * Waits until every request that this endpoint has sent was handled or returned to sender: its
 * handler has returned at the target, or the one of ::clump_ep_on_returned here. Requests that
 * handlers of this endpoint have deferred count. It does not wait for replies, nor for those to
 * these requests.
 *
 * If handlers send no requests, this and then ::clump_barrier on all ranks is the end of a phase:
 * all messages sent in it were handled.
 *
 * Errors: as ::clump_wait.
 */
int clump_drain(struct clump_ep *ep);

/**
 * Polls once; returns 1 if ::clump_drain would return without waiting, else 0. Does not wait.
 *
 * Errors: as ::clump_poll.
 */
int clump_try_drain(struct clump_ep *ep);

/**
 * Holds requests of others back until ::clump_ep_release: no handler of this endpoint runs for a
 * request, and in the end their senders find no space. Replies, and messages returned to sender,
 * are handled, so that waiting calls still make progress. For a rank that is still inside a
 * collective while others, which have left it, send requests that belong after it.
 *
 * A rank that waits for the effect of a held request waits in vain, and ::clump_drain of another
 * rank waits until requests are released. On a node with proxies, and only where this endpoint has
 * more senders than lanes, replies from other nodes may be held back with requests.
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_hold(struct clump_ep *ep);

/**
 * Lets requests be handled again, from the next poll on. Does nothing if they are not held.
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_release(struct clump_ep *ep);

/**
 * Returns the text of a reason, valid for ever. Any thread, at any time.
 */
const char *clump_reason_text(int reason);

/**
 * Sets the handler of that number (1 to 255), which gets messages from then on. In a shared
 * endpoint it may run in any thread that uses the endpoint.
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (number or function), ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_handler(struct clump_ep *ep, int handler, clump_handler run);

/**
 * Sets a handler as ::clump_ep_handler does, with a context, which it gets from
 * ::clump_token_context.
 */
int clump_ep_handler_with(struct clump_ep *ep, int handler, clump_handler run, void *context);

/**
 * Sets the function for messages returned to sender; it gets `context` as a part of the message.
 * Without it, a returned message is an error of the call that found it (::CLUMP_ERR_RETURNED).
 *
 * Errors: ::CLUMP_ERR_ARGUMENT (no function), ::CLUMP_ERR_IN_HANDLER.
 */
int clump_ep_on_returned(struct clump_ep *ep, clump_on_returned run, void *context);

/**
 * Returns the endpoint that sent the message; 0 on failure.
 */
clump_name clump_token_from(const struct clump_token *token);

/**
 * Returns 1 if the message is a request that has not been replied to, else 0.
 */
int clump_token_may_reply(const struct clump_token *token);

/**
 * Writes the offset of a long message's bytes in this endpoint's segment to `offset`. Returns 1,
 * or 0 for a message that is not long.
 *
 * # Safety
 * `offset` is null or a place to write to.
 */
int clump_token_offset(const struct clump_token *token, uint64_t *offset);

/**
 * Reports that the handler failed: the call that ran it fails with ::CLUMP_ERR_HANDLER_FAILED and
 * `why` (or null). The message counts as handled.
 *
 * # Safety
 * `why` is null or a string.
 */
int clump_token_fail(struct clump_token *token, const char *why);

/**
 * Refuses the message once the handler has returned: a request is returned to its sender for
 * ::CLUMP_RETURNED_BAD_ARGUMENTS; for a reply, the call that ran the handler fails with
 * ::CLUMP_ERR_RETURNED. For handlers that take other words, or no payload.
 *
 * Errors: ::CLUMP_ERR_TOKEN (replied before, or handler has returned).
 */
int clump_token_refuse(struct clump_token *token);

/**
 * Replies with `nwords` words (at most 8). ::clump_reply is easier to write.
 *
 * Errors: ::CLUMP_ERR_TOKEN (replied before, message is a reply, handler has returned),
 * ::CLUMP_ERR_TOO_LONG. Success does not mean delivery: a reply that is never read is returned to
 * sender.
 *
 * # Safety
 * `given` are `nwords` words.
 */
int clump_reply_words(struct clump_token *token, int handler, const uint64_t *given, int nwords);

/**
 * Replies with words and a payload of at most ::clump_max_medium bytes, which is copied.
 * ::clump_reply_bulk is easier to write.
 *
 * Errors: as ::clump_reply_words.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_reply_bulk_words(struct clump_token *token,
                           int handler,
                           const void *payload,
                           size_t payload_bytes,
                           const uint64_t *given,
                           int nwords);

/**
 * Deposits a payload of any length at `offset` of the requester's segment, and replies with words;
 * returned to sender when it does not fit into the segment. ::clump_reply_long is easier to write.
 *
 * Errors: as ::clump_reply_words.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_reply_long_words(struct clump_token *token,
                           int handler,
                           uint64_t offset,
                           const void *payload,
                           size_t payload_bytes,
                           const uint64_t *given,
                           int nwords);

/**
 * Queues a request, to be sent after this handler has returned, which makes requests from handlers
 * safe. ::clump_defer is easier to write.
 *
 * Errors: ::CLUMP_ERR_LIMIT (too many are queued), ::CLUMP_ERR_TOO_LONG, ::CLUMP_ERR_TOKEN. A
 * destination that is not mapped is an error of the call that sends it.
 *
 * # Safety
 * `given` are `nwords` words.
 */
int clump_defer_words(struct clump_token *token, int dest, int handler, const uint64_t *given, int nwords);

/**
 * Queues a request as ::clump_defer_words does, with a payload of at most ::clump_max_medium
 * bytes, which is copied. ::clump_defer_bulk is easier to write.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_defer_bulk_words(struct clump_token *token,
                           int dest,
                           int handler,
                           const void *payload,
                           size_t payload_bytes,
                           const uint64_t *given,
                           int nwords);

/**
 * Sends a short request: `nwords` words (at most 8) to `handler` of `dest`. Polls, and waits while
 * there is no space, for at most `CLUMP_SEND_TIMEOUT_MS`. ::clump_request is easier to write.
 *
 * Errors: ::CLUMP_ERR_DESTINATION, ::CLUMP_ERR_TOO_LONG, ::CLUMP_ERR_IN_HANDLER (use
 * ::clump_defer); while it waits for space ::CLUMP_ERR_RANK_DIED and the errors of ::clump_poll.
 * After an error nothing was sent. The error of a handler that runs in the poll after the message
 * was sent is one of the next ::clump_poll, or of another call that polls. A request that the
 * target refuses is returned to sender (::clump_ep_on_returned).
 *
 * # Safety
 * `given` are `nwords` words.
 */
int clump_request_words(struct clump_ep *ep, int dest, int handler, const uint64_t *given, int nwords);

/**
 * Called by inlined requests alone, after they have put a message into a lane of the target: rings
 * the doorbell if `ring` is not 0, because the target is not polling that lane now, and polls if
 * `poll` is not 0. Returns how many messages were handled. Errors of that poll are reported by the
 * next one.
 *
 * Errors: ::CLUMP_ERR_IN_HANDLER.
 */
int clump_request_pushed(struct clump_ep *ep, int dest, int ring, int poll);

/**
 * Sends a short request if there is space now; returns 1 if it was sent, 0 if there is none. Does
 * not poll.
 *
 * Errors: as ::clump_request_words.
 *
 * # Safety
 * `given` are `nwords` words.
 */
int clump_try_request_words(struct clump_ep *ep, int dest, int handler, const uint64_t *given, int nwords);

/**
 * Sends words and a payload of at most ::clump_max_medium bytes, which is copied: it may be reused
 * when this returns. ::clump_request_bulk is easier to write.
 *
 * Errors: as ::clump_request_words.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_request_bulk_words(struct clump_ep *ep,
                             int dest,
                             int handler,
                             const void *payload,
                             size_t payload_bytes,
                             const uint64_t *given,
                             int nwords);

/**
 * Sends words and a payload if there is space now; returns 1 if it was sent, 0 if there is none.
 * Does not poll. Otherwise as ::clump_request_bulk_words; ::clump_try_request_bulk is easier to
 * write.
 *
 * Errors: as ::clump_request_words.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_try_request_bulk_words(struct clump_ep *ep,
                                 int dest,
                                 int handler,
                                 const void *payload,
                                 size_t payload_bytes,
                                 const uint64_t *given,
                                 int nwords);

/**
 * Deposits a payload of any length at `offset` bytes of the target's segment (::clump_ep_export),
 * and then runs the handler there. The payload may be reused when this returns.
 * ::clump_request_long is easier to write.
 *
 * Errors: as ::clump_request_words. A deposit that does not fit into the segment is returned to
 * sender.
 *
 * # Safety
 * `payload` has `payload_bytes` bytes, `given` are `nwords` words.
 */
int clump_request_long_words(struct clump_ep *ep,
                             int dest,
                             int handler,
                             uint64_t offset,
                             const void *payload,
                             size_t payload_bytes,
                             const uint64_t *given,
                             int nwords);

#ifdef __cplusplus
} /* extern "C" */
#endif /* __cplusplus */

#endif  /* CLUMP_AM_H */

#include "clump/am_inline.h"
