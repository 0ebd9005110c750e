/* A pool of threads, and products of matrices that are divided among them.

   Threads

   gg_run(work, context, pieces) calls work(context, piece) for each piece from 0 on, in any order
   and by several threads, and returns when all calls have returned. The calling thread takes pieces
   too. One thread of the program at a time has the help of others; other calls, and calls from
   within a piece, have all their pieces done by their own thread.

   gg_threads(number) sets how many threads there are, the calling one among them; 1 at first. They
   are made when they are needed. Where there is no work, they wait busily for a moment and sleep.
   gg_after_fork() is called in the child of a fork, which has none of them.

   Products

   gg_matmul(number, d, x1, x2, out) computes what `matmul` in backends/numpy/threads.py computes
   with `number` threads: the same division into the same pieces, so the same bits. With 1 nothing
   is divided. Each piece is computed by NumPy's own loop of `numpy.matmul`, which gg_start is told.
   out must not overlap the operands. Returns which floating-point errors there were: 1 for an
   invalid operation, 2 for a division by zero, 4 for an overflow, 8 for an underflow. The caller
   has OpenBLAS compute with one thread meanwhile (`with_one_thread`), if `number` is not 1.

   d describes a product as constants, all int64_t; steps are in bytes:
     d[0]      dtype: 0 float32, 1 float64, 2 complex64, 3 complex128
     d[1]      how many leading axes the result has
     d[2..4]   rows, inner dimension, columns
     d[5..10]  steps of x1 along rows and inner, of x2 along inner and columns, of out along rows and
               columns; 0 where the length is 1
     then for each leading axis, the first one first, its length in the result and the steps of x1,
     x2 and out, which are 0 for an operand that has no such axis or is broadcast along it

   gg_matmul_whole(d, x1, x2, out) is `numpy.matmul` itself: nothing is divided or transposed. */
#ifndef _WIN32
#include <fenv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

typedef void gg_work(void *context, int64_t piece);
typedef void gg_loop(char **args, const intptr_t *lengths, const intptr_t *steps, void *data);

void gg_run(gg_work *work, void *context, int64_t pieces);
void gg_threads(int64_t number);
int64_t gg_matmul(int64_t number, const int64_t *d, const void *x1, const void *x2, void *out);
int64_t gg_matmul_whole(const int64_t *d, const void *x1, const void *x2, void *out);
#endif
