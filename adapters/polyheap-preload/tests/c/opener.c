// Opens libraries with many thread-local bytes, then the one under test; threads use its malloc, it is closed again, the
// threads end. Arguments: the library, then the others.
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition) \
    do { if (!(condition)) { printf("line %d: %s: %s\n", __LINE__, #condition, dlerror()); exit(1); } } while (0)

enum { ROUNDS = 20, THREADS = 8 };
static void *(*allocate)(size_t);
static void (*release)(void *);
static pthread_barrier_t used, closed;

static void *use(void *unused) {
    (void)unused;
    for (size_t size = 1; size < 5000000; size = size * 3 / 2 + 1) {
        char *block = allocate(size);
        CHECK(block);
        block[size - 1] = 1;
        release(block);
    }
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&closed);
    return NULL;
}

int main(int count, char **paths) {
    for (int i = 2; i < count; i++) {
        void *other = dlopen(paths[i], RTLD_NOW);
        CHECK(other);
        void (*touch)(void) = (void (*)(void))dlsym(other, "touch");
        CHECK(touch);
        touch();
    }
    for (int round = 0; round < ROUNDS; round++) {
        void *library = dlopen(paths[1], RTLD_NOW | RTLD_LOCAL);
        CHECK(library);
        allocate = (void *(*)(size_t))dlsym(library, "malloc");
        release = (void (*)(void *))dlsym(library, "free");
        CHECK(allocate && allocate != malloc && release);
        // What it does not own goes on to the C library.
        void *(*resize)(void *, size_t) = (void *(*)(void *, size_t))dlsym(library, "realloc");
        size_t (*measure)(void *) = (size_t (*)(void *))dlsym(library, "malloc_usable_size");
        CHECK(resize && measure);
        char *foreign = resize(strdup("foreign"), 5000);
        CHECK(foreign && !strcmp(foreign, "foreign") && measure(foreign) == malloc_usable_size(foreign));
        release(foreign);
        pthread_barrier_init(&used, NULL, THREADS + 1);
        pthread_barrier_init(&closed, NULL, THREADS + 1);
        pthread_t threads[THREADS];
        for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&threads[i], NULL, use, NULL) == 0);
        pthread_barrier_wait(&used);
        CHECK(dlclose(library) == 0);
        pthread_barrier_wait(&closed);
        for (int i = 0; i < THREADS; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
    puts("well");
}
