/* A library with many thread-locals, of its own name and model. */
#ifdef STATIC_LOCALS
#define MODEL __attribute__((tls_model("initial-exec")))
#else
#define MODEL
#endif

static MODEL __thread volatile char locals[LOCAL_BYTES];

int touch_locals(int value) {
    locals[0] = (char)value;
    locals[LOCAL_BYTES - 1] = (char)value;
    return locals[0];
}
