// Frees what may not be freed, as the argument says.
#include <stdlib.h>
#include <string.h>

static char in_nobodys_heap[64];

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    size_t size = strstr(what, "large") ? 300000 : strstr(what, "huge") ? 9000000 : 100;
    char *volatile block = malloc(size);
    if (!block) return 2;
    if (strstr(what, "double")) { free(block); free(block); }
    if (strstr(what, "interior")) free(block + 24);
    if (strstr(what, "foreign")) free(in_nobodys_heap + 16);
    return 0;
}
