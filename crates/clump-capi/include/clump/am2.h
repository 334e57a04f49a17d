/* Active Messages II: the interface of 1996 (A. Mainwaring and D. Culler, CSD-96-918) on clump's
 * endpoints. Written by hand, except <clump/am2_calls.h>, the requests and replies for 0 to 16
 * arguments.
 *
 * A program that keeps to these names compiles unchanged. Names of clump's own begin with
 * clump_am_. docs/am2.md has an example; docs/design/am2.md maps each call.
 *
 * Results. Every function that returns int and is not a limit returns AM_OK (0) or one of AM_ERR_*;
 * clump_error_text() of <clump/job.h> describes the failure. Misuse (a null pointer, a freed
 * object, a wrong thread, a call from a handler that may not be made there) is AM_ERR_BAD_ARG or
 * AM_ERR_IN_USE, and changes nothing.
 *
 * Threads. A bundle of type AM_PAR and its endpoints may be used by any threads at once; handlers
 * of one endpoint run one at a time, those of several endpoints may run in parallel. A bundle of
 * type AM_SEQ belongs to the first thread that sends, polls or waits with it or its endpoints,
 * until that thread ends; before, any thread may set it up. Another thread gets AM_ERR_IN_USE.
 *
 * Handlers run inside calls that send, poll or wait, in the calling thread. A handler may reply
 * once to a request. It may not send, poll, wait, allocate, move or free, nor call AM_SetTag and
 * AM_SetSeg of its own endpoint; all other calls are allowed. It must return: a handler must not be
 * left by longjmp or by a C++ exception, which ends the process.
 */
#ifndef CLUMP_AM2_H
#define CLUMP_AM2_H

#include <stddef.h>
#include <stdint.h>

#include "clump/job.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Results ------------------------------------------------------------------------------------------ */

#define AM_OK 0
/* AM_Init was not called, or AM_Terminate was. */
#define AM_ERR_NOT_INIT 1
/* An argument is invalid. */
#define AM_ERR_BAD_ARG 2
/* A limit was reached, memory has run out, a rank died, or the network cannot be used. */
#define AM_ERR_RESOURCE 3
/* The message was not sent; or one was returned to sender and handler 0 is not set. */
#define AM_ERR_NOT_SENT 4
/* The object is in use: by a handler, by another thread, or by another entry. */
#define AM_ERR_IN_USE 5

/* Status of a returned message, as handler 0 gets it. */
#define EBADARGS 1        /* it was addressed to handler 0, which takes none */
#define EBADENTRY 2       /* nothing is bound to that entry of the translation table */
#define EBADTAG 3         /* its tag was not the endpoint's */
#define EBADHANDLER 4     /* the endpoint has no such handler */
#define EBADSEGOFF 5      /* the deposit begins outside of the endpoint's segment */
#define EBADLENGTH 6      /* the deposit ends outside of the endpoint's segment */
#define EBADENDPOINT 7    /* there is no such endpoint, or it was freed before it took the message */
#define ECONGESTION 8     /* the endpoint had no space for as long as CLUMP_SEND_TIMEOUT_MS says */
#define EUNREACHABLE 9    /* the endpoint's rank or node has died */
#define EREPLYREJECTED 10 /* the requester was freed before it took the reply */

/* Opcode of a returned message. */
typedef int op_t;
#define AM_REQUEST_M 1
#define AM_REQUEST_IM 2
#define AM_REQUEST_XFER_M 3
#define AM_REPLY_M 4
#define AM_REPLY_IM 5
#define AM_REPLY_XFER_M 6

/* ---- Types -------------------------------------------------------------------------------------------- */

/* A bundle, and an endpoint. */
typedef struct clump_am_eb *eb_t;
typedef struct clump_am_ep *ep_t;

/* The name of an endpoint, the same in all ranks of the job: plain bits, which may be sent,
 * gathered and compared. */
typedef struct {
  uint64_t bits;
} en_t;

/* The right of access to an endpoint: a sender that knows its tag may send to it. */
typedef uint64_t tag_t;
/* No message matches: the initial tag of an endpoint. */
#define AM_NONE ((tag_t)0)
/* Every message matches. */
#define AM_ALL ((tag_t)1)

/* Index into a handler table. */
typedef uint8_t handler_t;

/* A handler, of any argument list:
 *   short    void h(void *token, int a0, ...)
 *   medium   void h(void *token, void *payload, size_t bytes, int a0, ...)
 *   long     void h(void *token, void *address_in_segment, size_t bytes, int a0, ...)
 *   index 0  void h(int status, op_t opcode, void *token)
 * with as many int as the message has arguments. A medium payload is a copy that the handler may
 * change, valid until it returns; it lies at a multiple of 8. */
typedef void (*clump_am_handler_fn)(void);

#define AM_SEQ 0 /* one thread uses the bundle */
#define AM_PAR 1 /* threads use it at once */

#define AM_NOEVENTS 0 /* nothing is an event */
#define AM_NOTEMPTY 1 /* a message is an event */

/* ---- Start -------------------------------------------------------------------------------------------- */

/* Joins the job that `clump run` started this process in (alone: a job of one rank), and waits
 * until all ranks have joined, unless clump_init has done so. May be called again; as many calls of
 * AM_Terminate end it. AM_ERR_RESOURCE: it cannot be joined; AM_ERR_IN_USE: in a handler. */
int AM_Init(void);

/* Frees all bundles and endpoints, and ends this rank's part in the job if AM_Init joined it. No
 * barrier: a rank that others still need calls clump_barrier before. A process that ends without it
 * counts as dead. A job cannot be joined again. AM_ERR_IN_USE: a bundle belongs to another thread,
 * or in a handler. */
int AM_Terminate(void);

/* The job, for clump_rank, clump_nranks, clump_all_gather, clump_barrier and the like; null before
 * AM_Init. */
clump_t *clump_am_job(void);

/* ---- Bundles and endpoints ---------------------------------------------------------------------------- */

/* Allocates a bundle, of type AM_SEQ or AM_PAR, with mask AM_NOEVENTS. A process has at most 64. */
int AM_AllocateBundle(int type, eb_t *bundle);

/* Frees a bundle and all endpoints in it. */
int AM_FreeBundle(eb_t bundle);

/* Allocates an endpoint in a bundle: tag AM_NONE, no handlers, nothing mapped, no segment. Writes
 * its name to `name`, if that is not null. A rank has at most 31. */
int AM_AllocateEndpoint(eb_t bundle, ep_t *endpoint, en_t *name);

/* Frees an endpoint. Messages that it has not handled are returned to sender (EBADENDPOINT). */
int AM_FreeEndpoint(ep_t endpoint);

/* Moves an endpoint, with all its state, from one bundle to another. By a thread that may use
 * `from`. */
int AM_MoveEndpoint(ep_t endpoint, eb_t from, eb_t to);

/* Writes the name of an endpoint, as AM_AllocateEndpoint did; returns the rank of the endpoint of
 * that name. */
int clump_am_name(ep_t endpoint, en_t *name);
int clump_am_rank_of(en_t name);

/* ---- Limits ------------------------------------------------------------------------------------------- */

/* Maximum number of arguments of a message (16); of bytes of a medium payload (16384 to 65536, by
 * the ranks of the job; 0 before AM_Init), and of a long one (67108864); of entries of a handler
 * table (256). */
int AM_MaxShort(void);
int AM_MaxMedium(void);
int AM_MaxLong(void);
int AM_MaxNumHandlers(void);
/* Maximum number of entries of a translation table (65536); of bytes of a segment (17179869184). */
int AM_MaxNumTranslations(int *entries);
int AM_MaxSegLength(uintptr_t *bytes);

/* ---- Handlers ----------------------------------------------------------------------------------------- */

int clump_am_set_handler(ep_t endpoint, handler_t handler, clump_am_handler_fn function);
int clump_am_set_handler_any(ep_t endpoint, handler_t *handler, clump_am_handler_fn function);

/* Sets the handler of that index, in place of the one before. Handler 0 gets returned messages;
 * while it is not set, the call that finds one returns AM_ERR_NOT_SENT. */
#define AM_SetHandler(endpoint, handler, function) \
  clump_am_set_handler((endpoint), (handler), (clump_am_handler_fn)(function))
/* Sets the first handler from 1 on that is not set, and writes its index to `*handler`. */
#define AM_SetHandlerAny(endpoint, handler, function) \
  clump_am_set_handler_any((endpoint), (handler), (clump_am_handler_fn)(function))

/* Number of entries of the handler table: 256, unless set to less, which removes the others.
 * AM_ERR_RESOURCE: not 1 to 256. */
int AM_GetNumHandlers(ep_t endpoint, int *entries);
int AM_SetNumHandlers(ep_t endpoint, int entries);

/* ---- Segment and tag ---------------------------------------------------------------------------------- */

/* Makes `bytes` bytes at `address`, in memory of the program, the segment that long messages are
 * deposited in; with 0 bytes none. A deposit is there when its handler runs, not before: it is
 * copied from memory that the node shares, of which the segment takes as much again. A later
 * segment may be shorter, or longer up to 1 GiB (or the first one's length). AM_ERR_RESOURCE:
 * memory or address space has run out; AM_ERR_IN_USE: a second segment longer than that, or in a
 * handler of the endpoint. */
int AM_SetSeg(ep_t endpoint, void *address, uintptr_t bytes);
int AM_GetSeg(ep_t endpoint, void **address, uintptr_t *bytes);

/* The tag that senders need from now on. */
int AM_SetTag(ep_t endpoint, tag_t tag);
int AM_GetTag(ep_t endpoint, tag_t *tag);

/* ---- Translation table -------------------------------------------------------------------------------- */

/* Binds an entry to an endpoint and the tag to send with. A wrong name or tag shows when a message
 * is sent. AM_ERR_IN_USE: it is bound. AM_MapAny takes the first free entry and writes its index to
 * `*index`; AM_ERR_RESOURCE: none is free. */
int AM_Map(ep_t endpoint, int index, en_t name, tag_t tag);
int AM_MapAny(ep_t endpoint, int *index, en_t name, tag_t tag);
/* Unbinds an entry. Messages sent before are still delivered, or returned to sender.
 * AM_ERR_RESOURCE: nothing is bound to it. */
int AM_UnMap(ep_t endpoint, int index);

/* Returns AM_OK if something is bound to the entry, AM_ERR_RESOURCE if not. */
int AM_GetTranslationInuse(ep_t endpoint, int index);
int AM_GetTranslationTag(ep_t endpoint, int index, tag_t *tag);
int AM_GetTranslationName(ep_t endpoint, int index, en_t *name);

/* Number of entries of the table: 256 at first. AM_ERR_RESOURCE: not 1 to 65536; AM_ERR_IN_USE: an
 * entry that would be removed is bound. */
int AM_GetNumTranslations(ep_t endpoint, int *entries);
int AM_SetNumTranslations(ep_t endpoint, int entries);

/* Announces the number of endpoints and outstanding requests that a program expects. The table
 * grows to that many entries; outstanding requests need no reserved space here. May be called
 * again, and mapping goes on after it. */
int AM_SetExpectedResources(ep_t endpoint, int endpoints, int outstanding);

/* ---- Progress and events ------------------------------------------------------------------------------ */

/* Handles messages that have arrived at the endpoints of a bundle. Never blocks. */
int AM_Poll(eb_t bundle);

/* The events that end AM_WaitSema: AM_NOTEMPTY or AM_NOEVENTS. */
int AM_SetEventMask(eb_t bundle, int mask);
int AM_GetEventMask(eb_t bundle, int *mask);

/* Blocks until an endpoint of the bundle has handled a message, which this call does too; sleeps
 * when that takes long. AM_ERR_BAD_ARG: the mask is AM_NOEVENTS, so no event would end it;
 * AM_ERR_RESOURCE: a rank died. */
int AM_WaitSema(eb_t bundle);

/* ---- In a handler ------------------------------------------------------------------------------------- */

/* The sender of the message (in handler 0: its addressee); the endpoint that handles it; the tag
 * that it was sent with (a reply: that of its request). A token is valid inside its handler, in the
 * handler's thread. */
int AM_GetSourceEndpoint(void *token, en_t *name);
int AM_GetDestEndpoint(void *token, ep_t *endpoint);
int AM_GetMsgTag(void *token, tag_t *tag);

/* A message returned to sender. */
typedef struct {
  int status; /* EBAD* and the like */
  op_t opcode;
  int handler; /* the handler it was addressed to */
  int count;   /* number of its arguments */
  int32_t arguments[16];
  en_t to;             /* the endpoint it was addressed to; 0 after EBADENTRY */
  const void *payload; /* a medium payload, until the handler returns; null if there is none */
  size_t bytes;        /* its bytes, or those of a deposit */
  uintptr_t offset;    /* of a deposit: its offset. It is unknown if it was written */
} clump_am_returned_t;

/* Writes the message that handler 0 runs for. AM_ERR_BAD_ARG: in another handler. */
int clump_am_returned(void *token, clump_am_returned_t *message);

/* ---- Requests and replies ----------------------------------------------------------------------------- */

/* Implementation of the calls of <clump/am2_calls.h>: `count` arguments at `arguments`.
 *
 * A request goes to the endpoint at `index` of the translation table, and the endpoint is polled.
 * Without space it blocks, polling the bundle, unless `wait` is 0: then AM_ERR_NOT_SENT, and
 * nothing was sent. Payloads must not change before the call returns. A message that no handler
 * takes is returned to handler 0. AM_ERR_NOT_SENT: in a handler; AM_ERR_BAD_ARG: an index outside
 * of the table, too long a payload; errors of AM_Poll. */
int clump_am_request(ep_t endpoint, int index, handler_t handler, unsigned count, const int32_t *arguments);
int clump_am_request_medium(ep_t endpoint, int index, handler_t handler, const void *source, size_t bytes,
                            unsigned count, const int32_t *arguments);
int clump_am_request_long(ep_t endpoint, int index, uintptr_t offset, handler_t handler, const void *source,
                          size_t bytes, int wait, unsigned count, const int32_t *arguments);

/* Sends a reply to the sender of the request of `token`, once. Never blocks. AM_ERR_BAD_ARG: the
 * second reply, a reply to a reply, an invalid token, too long a payload. */
int clump_am_reply(void *token, handler_t handler, unsigned count, const int32_t *arguments);
int clump_am_reply_medium(void *token, handler_t handler, const void *source, size_t bytes, unsigned count,
                          const int32_t *arguments);
int clump_am_reply_long(void *token, uintptr_t offset, handler_t handler, const void *source, size_t bytes,
                        unsigned count, const int32_t *arguments);

#include "clump/am2_calls.h"

#ifdef __cplusplus
}
#endif

#endif /* CLUMP_AM2_H */
