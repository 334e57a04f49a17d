/* libclump: active messages, one-sided operations and collectives for clusters of ordinary
 * machines.
 *
 * Includes everything except <clump/am2.h> and the C++ headers. Written by hand.
 *
 * All functions that return `int` return 0 or a count on success, and a negative clump_status on
 * failure; those that return a pointer return null on failure. clump_error_text() describes the
 * failure.
 */
#ifndef CLUMP_H
#define CLUMP_H

#include "clump/am.h"
#include "clump/job.h"
#include "clump/pending.h"
#include "clump/pgas.h"
#include "clump/rma.h"
#include "clump/team.h"
#include "clump/work.h"

#endif /* CLUMP_H */
