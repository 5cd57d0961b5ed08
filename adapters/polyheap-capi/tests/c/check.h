/* What the test programs share. */
#ifndef CHECK_H
#define CHECK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ends the program unless the condition holds. */
#define CHECK(condition)                                                                               \
    do {                                                                                               \
        if (!(condition)) {                                                                            \
            fprintf(stderr, "%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);              \
            exit(1);                                                                                   \
        }                                                                                              \
    } while (0)

/* A size of each tier: slabs that share cache lines and that do not, spans, mappings. */
static const size_t TIERS[] = {1, 16, 48, 100, 1000, 4096, 10000, 32768, 70000, 300000, 2500000};
#define TIER_COUNT (sizeof TIERS / sizeof TIERS[0])

/* Fills a block with a pattern of its own, and looks for it. Long ones at both ends only. */
static inline void fill(void *block, size_t bytes, unsigned id) {
    const size_t part = bytes < 8192 ? bytes : 4096;
    memset(block, (int)(id % 251 + 1), part);
    memset((char *)block + bytes - part, (int)(id % 251 + 1), part);
}

static inline int is_filled(const void *block, size_t bytes, unsigned id) {
    const unsigned char *place = (const unsigned char *)block;
    const size_t part = bytes < 8192 ? bytes : 4096;
    for (size_t at = 0; at < part; at++) {
        if (place[at] != id % 251 + 1 || place[bytes - part + at] != id % 251 + 1) {
            return 0;
        }
    }
    return 1;
}

static inline int is_aligned(const void *block, size_t align) {
    return (uintptr_t)block % align == 0;
}

/* Makes the compiler forget what it knows about a size, so that it does not warn of it. */
static inline size_t hidden(size_t size) {
    volatile size_t place = size;
    return place;
}

#endif
