// What all libraries begin with.

#define _GNU_SOURCE // for the processor on which a thread runs

#include <fenv.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef void gg_work(void *context, int64_t piece);
typedef void gg_loop(char **args, const intptr_t *lengths, const intptr_t *steps, void *data);

// The errors of floating-point operations since they were cleared, as NumPy numbers them.
static int64_t float_errors(void) {
    const int found = fetestexcept(FE_ALL_EXCEPT);
    return (found & FE_DIVBYZERO ? 1 : 0) | (found & FE_OVERFLOW ? 2 : 0) |
           (found & FE_UNDERFLOW ? 4 : 0) | (found & FE_INVALID ? 8 : 0);
}
