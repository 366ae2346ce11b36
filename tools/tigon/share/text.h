/* tools/tigon/share/text.h - text that grows behind its end. */
#ifndef TIGON_SHARE_TEXT_H
#define TIGON_SHARE_TEXT_H

#include <stddef.h>

/* Appends to a text of `size` bytes at most; what does not fit is cut off. */
void text_add(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
