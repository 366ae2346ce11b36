/* schedule.c - one device for all functions of a list. */
#include "schedule.h"

#include <stdio.h>

int test_functions(const ascsim_options *options, int functions, int requests, function_test *test)
{
    ascsim *device = ascsim_open(options);
    const size_t bytes = (size_t)requests * sizeof(request), images = (size_t)requests * IMAGE;
    request *list = ascsim_alloc(device, bytes, "requests");
    uint8_t *in = ascsim_alloc(device, images, "in"), *out = ascsim_alloc(device, images, "out");
    const ascsim_fault *faults;
    int wrong = 0;
    if (!list || !in || !out)
        return fprintf(stderr, "%s\n", ascsim_error()), 1;
    ascsim_written(device, list, bytes);
    ascsim_written(device, in, images);
    for (int function = 0; function < functions; function++)
        wrong += test(device, function, list, in, out);
    if (ascsim_faults(device, &faults)) {
        ascsim_report_faults(device, stdout);
        wrong++;
    }
    ascsim_close(device);
    return wrong;
}
