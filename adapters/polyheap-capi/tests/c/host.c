/* Loads and unloads a plugin beside libraries with many thread-locals.
 *
 *   host PLUGIN LOCALS...
 *
 * Threads that used the plugin end after it was unloaded. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <pthread.h>

enum { ROUNDS = 20, THREADS = 8 };

static void *(*volatile plugin_work)(void *);
static pthread_barrier_t used, unloaded;

static void *work(void *argument) {
    void *result = plugin_work(argument);
    pthread_barrier_wait(&used);
    pthread_barrier_wait(&unloaded);
    return result;
}

static void *load(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
    }
    return library;
}

static void *symbol(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

int main(int count, char **arguments) {
    CHECK(count > 2);
    int loaded = 0;
    for (int at = 2; at < count; at++) {
        /* The last ones find no more room for static thread-locals. */
        void *library = load(arguments[at]);
        if (library != NULL) {
            int (*touch)(int);
            *(void **)&touch = symbol(library, "touch_locals");
            CHECK(touch(at) == at);
            loaded++;
        }
    }
    printf("%d of %d libraries loaded\n", loaded, count - 2);
    void *keepsake = NULL;
    for (int round = 0; round < ROUNDS; round++) {
        void *plugin = load(arguments[1]);
        CHECK(plugin != NULL);
        *(void **)&plugin_work = symbol(plugin, "plugin_work");
        CHECK(pthread_barrier_init(&used, NULL, THREADS + 1) == 0);
        CHECK(pthread_barrier_init(&unloaded, NULL, THREADS + 1) == 0);
        pthread_t threads[THREADS];
        for (int at = 0; at < THREADS; at++) {
            CHECK(pthread_create(&threads[at], NULL, work, (void *)(uintptr_t)at) == 0);
        }
        pthread_barrier_wait(&used);
        if (round == 0) {
            void *(*make)(size_t);
            *(void **)&make = symbol(plugin, "plugin_make");
            keepsake = make(5000);
            fill(keepsake, 5000, 1);
        }
        CHECK(dlclose(plugin) == 0);
        pthread_barrier_wait(&unloaded);
        for (int at = 0; at < THREADS; at++) {
            void *result;
            CHECK(pthread_join(threads[at], &result) == 0 && (uintptr_t)result == (uintptr_t)at);
        }
        CHECK(pthread_barrier_destroy(&used) == 0 && pthread_barrier_destroy(&unloaded) == 0);
    }
    /* Blocks outlive whoever loaded the library. */
    CHECK(is_filled(keepsake, 5000, 1));
    puts("well");
    return 0;
}
