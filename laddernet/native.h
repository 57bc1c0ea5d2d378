// What all of laddernet's machine code has in common: vectors, XLA's threads, and how XLA calls it.
//
// All arrays are float32 and lie row by row. What a thread computes does not depend on how many there are, so results
// are the same bits on one core and on many.

#include <math.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#if defined(__AVX__)
#include <immintrin.h>
#endif

#include "xla/ffi/api/c_api.h"

// --- Vectors ----------------------------------------------------------------------------------------------------

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

typedef int64_t num;
typedef float vec __attribute__((vector_size(4 * LANES), aligned(4), may_alias));
typedef int32_t ivec __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

static num least(num a, num b) { return a < b ? a : b; }

// 1 / √x to the last bits, of positive numbers: an estimate made twice as exact by Newton's rule.
INLINE vec inverse_root(vec x) {
#if defined(__AVX512F__)
  vec y = (vec)_mm512_rsqrt14_ps((__m512)x);
#elif defined(__AVX__)
  vec y = (vec)_mm256_rsqrt_ps((__m256)x);
#else
  vec y;
  for (int i = 0; i < LANES; i++) y[i] = 1 / sqrtf(x[i]);
#endif
  return y * (1.5f - 0.5f * x * y * y);
}

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec v) { *(vec *)to = v; }

// --- Work shared among XLA's threads ------------------------------------------------------------------------------

typedef struct {
  atomic_llong next, left;  // the next piece to be taken; how many are not done yet
  atomic_int holders;       // threads that may still look at this
  num pieces;
  void (*piece)(const void *what, num i);
  const void *what;
} Work;

static void leave(Work *work) {
  if (atomic_fetch_sub(&work->holders, 1) == 1) free(work);
}

static void take_part(Work *work) {
  for (num i; (i = atomic_fetch_add(&work->next, 1)) < work->pieces;) {
    work->piece(work->what, i);
    atomic_fetch_sub(&work->left, 1);
  }
}

static void help(void *data) {
  take_part(data);
  leave(data);
}

static num threads(XLA_FFI_CallFrame *frame) {
  int64_t n = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args = {
      .struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, .ctx = frame->ctx, .num_threads = &n};
  return frame->api->XLA_FFI_ThreadPool_NumThreads(&args) == NULL ? n : 1;
}

// Have all pieces done. Whoever is free takes the next one, so that a thread which comes late, or never, does no harm.
static void share(XLA_FFI_CallFrame *frame, num pieces, bool worth_it, void (*piece)(const void *, num), const void *what) {
  num helpers = worth_it ? least(threads(frame), pieces) - 1 : 0;
  Work *work = helpers > 0 ? malloc(sizeof *work) : NULL;
  if (work == NULL) {
    for (num i = 0; i < pieces; i++) piece(what, i);
    return;
  }
  *work = (Work){.pieces = pieces, .piece = piece, .what = what};
  atomic_init(&work->left, pieces);
  atomic_init(&work->holders, helpers + 1);
  for (num i = 0; i < helpers; i++) {
    XLA_FFI_ThreadPool_Schedule_Args args = {
        .struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, .ctx = frame->ctx, .task = help, .data = work};
    if (frame->api->XLA_FFI_ThreadPool_Schedule(&args) != NULL) leave(work);
  }
  take_part(work);
  for (num turn = 0; atomic_load(&work->left) > 0; turn++) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
    if (turn % 1024 == 1023) sched_yield();  // whoever holds the last piece may be waiting for this very core
  }
  leave(work);
}

// --- What XLA calls ---------------------------------------------------------------------------------------------------

// XLA asks each function once which version of the interface it was compiled for.
static bool asked_for_version(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return true;
}

static const float *argument(XLA_FFI_CallFrame *frame, int i) { return ((XLA_FFI_Buffer *)frame->args.args[i])->data; }
static num length(XLA_FFI_CallFrame *frame, int i, int axis) { return ((XLA_FFI_Buffer *)frame->args.args[i])->dims[axis]; }
static float *result(XLA_FFI_CallFrame *frame, int i) { return ((XLA_FFI_Buffer *)frame->rets.rets[i])->data; }

static XLA_FFI_Error *out_of_memory(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                    .message = "There is not enough memory for a training step.",
                                    .errc = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
  return frame->api->XLA_FFI_Error_Create(&args);
}

// Whether so many multiplications take longer than it takes another thread to wake up.
static bool is_long(num multiplications) { return multiplications > 500000; }
