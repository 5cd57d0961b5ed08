// Forks under load: children allocate in all tiers, change the environment and end. Prints the number of children that
// ended well.
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Few and small blocks are live, as a fork copies the tables of all pages in use.
enum { THREADS = 8, CHILD_SECONDS = 5, SIZES = 10, KEPT = 8 };
static const size_t sizes[SIZES] = {1, 16, 100, 1000, 10000, 32768, 70000, 300000, 2500000, 9000000};
static volatile int is_over;

static void *use(size_t size) {
    char *p = malloc(size), *q = calloc(1, size);
    if (!p || !q || q[size - 1]) abort();
    memset(p, 1, size < 5000 ? size : 5000);
    p[size - 1] = 1;
    free(q);
    p = realloc(p, size + size / 2);
    if (!p || (size > 1 && p[0] != 1)) abort();
    return p;
}

static void *churn(void *seed) {
    unsigned number = (unsigned)(size_t)seed;
    void *kept[KEPT] = {0};
    while (!is_over) {
        number = number * 1103515245 + 12345;
        unsigned place = (number >> 8) % KEPT;
        free(kept[place]);
        kept[place] = use(sizes[(number >> 16) % (number >> 30 ? 6 : SIZES)] / 4 + 1);
    }
    for (int i = 0; i < KEPT; i++) free(kept[i]);
    return NULL;
}

// What the threads that are gone had is taken over: the one that is there is the only one.
static void look(void) {
    char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    if (!stream || malloc_info(0, stream) || fclose(stream) || !strstr(text, "<threads count=\"1\"/>")) abort();
    free(text);
}

int main(int count, char **arguments) {
    const int forks = count > 1 ? atoi(arguments[1]) : 2000;
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++) if (pthread_create(&threads[i], NULL, churn, (void *)i)) return 1;
    int well = 0;
    for (int round = 0; round < forks; round++) {
        pid_t child = fork();
        if (child < 0) { perror("fork"); return 1; }
        if (child == 0) {
            alarm(CHILD_SECONDS);
            for (int i = 0; i < SIZES; i++) free(use(sizes[i]));
            look();
            if (setenv("CHILD", "a text of some length", 1) || setenv("CHILD", "another one that is longer", 1)) abort();
            if (round % 4 == 0) exit(0);
            _exit(0);
        }
        int status;
        while (waitpid(child, &status, 0) != child) if (errno != EINTR) return 1;
        if (status == 0) well++;
        else printf("child %d: status %x\n", round, status);
        free(use(sizes[round % SIZES]));
    }
    is_over = 1;
    for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    printf("%d\n", well);
}
