/* tools/tigon/share/steady.h - when times on the model of a card are those that a program sees. */
#ifndef TIGON_SHARE_STEADY_H
#define TIGON_SHARE_STEADY_H

/* Calls until the steady state: the third finds in L2 what the second has left there, as
 * every later one would. */
enum { STEADY_CALLS = 3 };

#endif
