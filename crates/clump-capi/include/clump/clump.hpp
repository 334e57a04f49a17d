/* clump for C++20: a thin layer over the C interface. Everything is in the namespace clump. Written by hand.
 *
 * Functions give a clump::result, which is a value or an error and is not to be ignored; constructors, and
 * result::value(), throw clump::failure. Objects are closed when they go, and are to go before their world.
 */
#ifndef CLUMP_CLUMP_HPP
#define CLUMP_CLUMP_HPP

#include "clump/am.hpp"
#include "clump/rma.hpp"
#include "clump/world.hpp"

#endif /* CLUMP_CLUMP_HPP */
