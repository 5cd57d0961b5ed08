/* Takes all the address space there is, several times. */
#include "check.h"
#include <errno.h>
#include <polyheap.h>

enum { MOST = 1000000 };

static void *blocks[MOST];

/* Takes blocks until there is no more memory, and frees them; returns the bytes there were. */
static size_t exhaust(polyheap_t *heap, size_t size) {
    size_t count = 0;
    errno = 0;
    while (count < MOST && (blocks[count] = polyheap_heap_malloc(heap, size)) != NULL) {
        *(char *)blocks[count] = 1;
        count++;
    }
    CHECK(count < MOST && errno == ENOMEM);
    const size_t bytes = count * size;
    while (count > 0) {
        polyheap_free(blocks[--count]);
    }
    return bytes;
}

int main(void) {
    static const size_t sizes[] = {1000, 5000, 100000, 3000000};
    for (int round = 0; round < 4; round++) {
        polyheap_t *heap = polyheap_new();
        CHECK(heap != NULL);
        const size_t first = exhaust(heap, sizes[round]);
        CHECK(first > 60000000);
        /* All of it is there again: for the heap, and when that ends, for others and other sizes. */
        CHECK(exhaust(heap, sizes[round]) >= first / 10 * 9);
        CHECK(polyheap_destroy(heap) == 0);
        void *large = polyheap_malloc(40000000);
        CHECK(large != NULL);
        polyheap_free(large);
    }
    puts("well");
    return 0;
}
