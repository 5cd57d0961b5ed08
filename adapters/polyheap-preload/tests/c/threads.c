// Threads that begin with an allocation, and end with destructors of thread-local values that allocate and free. Prints the
// bytes the process held after a tenth of the threads and after all.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(condition) \
    do { if (!(condition)) { printf("line %d: %s\n", __LINE__, #condition); exit(1); } } while (0)

enum { KEYS = 40, ROUNDS = 4, SHORT_THREADS = 20000, BLOCKS = 100, BLOCK_BYTES = 10 * 1024 };
static pthread_key_t keys[KEYS];

static long resident_bytes(void) {
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(file && fscanf(file, "%*d %ld", &pages) == 1);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE);
}

// Frees the value and allocates; each value comes again in three further rounds, under keys of its own.
static void destroy(void *value) {
    int number = *(int *)value;
    free(value);
    char *block = malloc(5000), *large = calloc(1, 100000);
    CHECK(block && large && large[99999] == 0);
    memset(block, 3, 5000);
    free(block);
    free(large);
    if (number % ROUNDS != ROUNDS - 1) {
        int *next = malloc(30);
        CHECK(next);
        *next = number + 1;
        // A key of a smaller number: the C library comes to it in its next round, when the library's own state is gone.
        CHECK(pthread_setspecific(keys[KEYS - 1 - *next], next) == 0);
    }
}

static void *live(void *unused) {
    (void)unused;
    for (int number = 0; number < KEYS; number += ROUNDS) {
        int *value = malloc(20);
        CHECK(value);
        *value = number;
        CHECK(pthread_setspecific(keys[KEYS - 1 - number], value) == 0);
    }
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) { blocks[i] = malloc(BLOCK_BYTES); CHECK(blocks[i]); blocks[i][0] = 1; }
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]);
    return malloc(64);
}

static void run(int count) {
    pthread_t threads[64];
    for (int i = 0; i < count; i++) CHECK(pthread_create(&threads[i], NULL, live, NULL) == 0);
    for (int i = 0; i < count; i++) { void *block; CHECK(pthread_join(threads[i], &block) == 0); free(block); }
}

int main(void) {
    for (int i = 0; i < KEYS; i++) CHECK(pthread_key_create(&keys[i], destroy) == 0);
    run(64);
    long early = 0;
    for (int i = 0; i < SHORT_THREADS; i++) {
        run(1);
        if (i == SHORT_THREADS / 10) early = resident_bytes();
    }
    printf("%ld %ld\n", early, resident_bytes());
}
