/* cross_entropy.asc.c - losses of rows of logits, their gradients in the same pass, or the
 * gradients from saved lse.
 *
 * Rows go through a ring of pieces (asc_ring.h), each block having a run of consecutive rows. The
 * maximum is kept lane by lane, with each lane's sum relative to its own maximum, so that nothing
 * crosses lanes before a row's end. The target's logit comes by itself with a row's first piece and
 * stays out of the sum: a confident row's 1 - p is the sum of the others, not a difference.
 * Divisors of a mean and the sums of losses are other launches: cross_entropy_sums.asc.c. */
#include "cross_entropy_ring.h"

#define ASC_TEMPLATE "losses/cross_entropy.asc.h"
#include "shared/asc_each_type.h"
