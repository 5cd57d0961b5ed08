/* A heap for each part of a program: named, limited, watched, and ended whole.
 * For when one part must not eat another's memory, or frees more often than it needs to. */
#include <polyheap.h>
#include <stdio.h>
#include <string.h>

static polyheap_t *heap_of_a_part(const char *name, size_t max_bytes) {
    polyheap_options_t options = {.size = sizeof options};
    options.name = name;
    options.max_bytes = max_bytes;
    return polyheap_new_with(&options);
}

int main(void) {
    polyheap_t *parser = heap_of_a_part("parser", 4 << 20);
    polyheap_t *cache = heap_of_a_part("cache", 0);
    if (parser == NULL || cache == NULL) {
        return 1;
    }

    /* The parser takes what it wants and frees nothing; its limit stops it. */
    size_t nodes = 0;
    while (polyheap_heap_malloc(parser, 200) != NULL) {
        nodes++;
    }
    printf("parser: %zu nodes, then out of memory\n", nodes);

    /* A result that outlives the parser goes to another heap. */
    char *result = polyheap_heap_malloc(cache, 32);
    if (result == NULL) {
        return 1;
    }
    strcpy(result, "the result");

    char text[4096];
    polyheap_stats_json(cache, text, sizeof text);
    printf("%s\n", text);

    polyheap_destroy(parser); /* All nodes at once. */
    polyheap_delete(cache);   /* The result stays, in the default heap. */
    printf("%s\n", result);
    polyheap_free(result);
    return 0;
}
