/* examples.h - the kernels of this folder, for the command and the tests. */
#ifndef EXAMPLES_H
#define EXAMPLES_H

#define EXAMPLE __attribute__((visibility("default")))

/* How add_tiles() overlaps its pipes. */
enum {
    ADD_OVERLAPPED,  /* one set of buffers; the next tile comes in while the last one goes out */
    ADD_SERIAL,      /* one set of buffers; the next tile comes in when the last one has gone out */
    ADD_DOUBLE,      /* two sets */
    ADD_DOUBLE_CLEAN /* two sets, x and y in different bank groups */
};

#endif
