/* schedule.h - every function of a list on one device, which runs by one schedule. */
#ifndef FUNCTIONAL_SCHEDULE_H
#define FUNCTIONAL_SCHEDULE_H

#include "ascsim.h"
#include "lanes.h"

/* Of calls with so many requests, each with an image in and an image out. */
typedef int function_test(ascsim *device, int function, request *requests, uint8_t *in,
                          uint8_t *out);

/* Returns how many calls and schedules were wrong. */
int test_functions(const ascsim_options *options, int functions, int requests, function_test *test);

#endif
