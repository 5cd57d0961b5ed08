/* Commits the fault that is named by the first argument; says the address first. */
#include "check.h"
#include <polyheap.h>

static void *announced(void *block) {
    printf("address=%p\n", block);
    fflush(stdout);
    return block;
}

static void handle(const char *line, const void *address) {
    printf("handler: %s at %p\n", line, address);
    fflush(stdout);
}

static void commit(const char *fault, polyheap_t *heap, polyheap_t *other, size_t size) {
    char *block = polyheap_heap_malloc(heap, size);
    char *plain = polyheap_malloc(size);
    char local[64];
    if (strcmp(fault, "plain-again") == 0) {
        polyheap_free(announced(plain));
        polyheap_free(plain);
    } else if (strcmp(fault, "heap-again") == 0) {
        polyheap_free(announced(block));
        polyheap_heap_free(heap, block);
    } else if (strcmp(fault, "plain-interior") == 0) {
        polyheap_free(announced(plain + 16));
    } else if (strcmp(fault, "heap-interior") == 0) {
        polyheap_heap_free(heap, announced(block + 16));
    } else if (strcmp(fault, "named-interior") == 0) {
        polyheap_free(announced(block + 16));
    } else if (strcmp(fault, "resize-interior") == 0) {
        plain = polyheap_realloc(announced(plain + 16), 10);
    } else if (strcmp(fault, "foreign") == 0) {
        polyheap_free(announced(local + 16));
    } else if (strcmp(fault, "foreign-libc") == 0) {
        polyheap_free(announced(malloc(size)));
    } else if (strcmp(fault, "foreign-resize") == 0) {
        plain = polyheap_realloc(announced(local + 16), 10);
    } else if (strcmp(fault, "foreign-heap") == 0) {
        /* Functions that name a heap do not heed the policy. */
        CHECK(polyheap_set_foreign_policy(POLYHEAP_FOREIGN_LIBC) == 0);
        polyheap_heap_free(heap, announced(malloc(size)));
    } else if (strcmp(fault, "other-heap") == 0) {
        polyheap_heap_free(other, announced(block));
    } else if (strcmp(fault, "other-heap-resize") == 0) {
        block = polyheap_heap_realloc(other, announced(block), 10);
    } else if (strcmp(fault, "sized") == 0) {
        polyheap_set_size_checks(true);
        polyheap_free_sized(announced(block), size / 2);
    } else if (strcmp(fault, "aligned-sized") == 0) {
        polyheap_set_size_checks(true);
        polyheap_free_aligned_sized(announced(plain), 16, size / 2);
    } else if (strcmp(fault, "handler") == 0) {
        polyheap_set_fault_handler(handle);
        polyheap_free(announced(plain + 16));
    } else if (strcmp(fault, "handler-taken-back") == 0) {
        polyheap_set_fault_handler(handle);
        polyheap_set_fault_handler(NULL);
        polyheap_free(announced(plain + 16));
    } else {
        puts("no such fault");
    }
}

int main(int count, char **arguments) {
    CHECK(count == 3);
    polyheap_options_t options = {.size = sizeof options};
    options.name = "culprit";
    commit(arguments[1], polyheap_new_with(&options), polyheap_new(), (size_t)atol(arguments[2]));
    puts("survived");
    return 0;
}
