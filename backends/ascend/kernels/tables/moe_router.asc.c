/* moe_router.asc.c - the experts of each token, their weights, sums over tokens, and gradients.
 *
 * Forward: rows of logits become keys, which are sorted in lists of 32; lists of a token are
 * merged, as much of each as can be chosen, until one is left. Records have a key and the position
 * of the expert. With groups, the best ones of each are looked at, groups are sorted by them, and
 * the lists of those that are kept alone are merged. Chosen experts then stand in lines, an expert
 * of each of 64 tokens, where weights are made. Experts are counted by other launches
 * (moe_route.asc.c), sums over tokens become results in moe_router_sums.asc.c.
 *
 * Backward: what each chosen expert adds to its token's row is made in lines, and added to the row
 * by an instruction of one lane. */
#include "moe_router_backward.h"
#include "moe_router_forward.h"

#define ASC_TEMPLATE "tables/moe_router.asc.h"
#include "shared/asc_each_type.h"
