// Shared by all native kernels: vectors, XLA's threads, and XLA's calling interface.
//
// All arrays are float32 and row-major. The result of a piece of work does not depend on the number of threads, so
// results are the same bits on one core and on many.

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

// --- Vectors -------------------------------------------------------------------------------------------------

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
typedef uint32_t uvec __attribute__((vector_size(4 * LANES)));

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")
#define EACH(i, n) UNROLL for (int i = 0; i < (n); i++)

static num least(num a, num b) { return a < b ? a : b; }
static num parts_of(num length, num part) { return (length + part - 1) / part; }  // the last may be shorter
static int within(num count) { return count < 0 ? 0 : least(count, LANES); }  // elements of a vector

INLINE vec splat(float x) { return x - (vec){0}; }
INLINE vec where(ivec mask, vec v) { return (vec)(mask & (ivec)v); }  // zero elsewhere
INLINE vec choose(ivec mask, vec yes, vec no) { return (vec)((mask & (ivec)yes) | (~mask & (ivec)no)); }

// 1 / √x of positive numbers, up to the last bits: an estimate and one step of Newton's method.
INLINE vec inverse_root(vec x) {
#if defined(__AVX512F__)
  vec y = (vec)_mm512_rsqrt14_ps((__m512)x);
#elif defined(__AVX__)
  vec y = (vec)_mm256_rsqrt_ps((__m256)x);
#else
  vec y;
  for (int i = 0; i < LANES; i++) y[i] = 1 / sqrtf(x[i]);
  return y;
#endif
  return y * (1.5f - 0.5f * x * y * y);
}

INLINE vec square_root(vec x) {
  vec y;
  EACH(i, LANES) y[i] = sqrtf(x[i]);
  return y;
}

// The elements of two vectors, numbered 0 to 2 · LANES − 1, at the positions in `index`.
INLINE vec shuffled(vec a, vec b, ivec index) {
#if defined(__clang__)
  vec to;
  EACH(i, LANES) to[i] = index[i] < LANES ? a[index[i]] : b[index[i] - LANES];
  return to;
#else
  return __builtin_shuffle(a, b, index);
#endif
}

INLINE vec load(const float *from) { return *(const vec *)from; }
INLINE void store(float *to, vec v) { *(vec *)to = v; }

// Load or store only the first `count` elements; the others are loaded as zeros.
INLINE vec load_first(const float *from, int count) {
  if (count == LANES) return load(from);
#if defined(__AVX512F__)
  return (vec)_mm512_maskz_loadu_ps((1 << count) - 1, from);
#else
  vec v = {0};
  EACH(i, LANES)
    if (i < count) v[i] = from[i];
  return v;
#endif
}

INLINE void store_first(float *to, vec v, int count) {
  if (count == LANES) return store(to, v);
#if defined(__AVX512F__)
  _mm512_mask_storeu_ps(to, (1 << count) - 1, (__m512)v);
#else
  EACH(i, LANES)
    if (i < count) to[i] = v[i];
#endif
}

// --- Work shared among XLA's threads -------------------------------------------------------------------------

enum { PARTS = 64 };

// Each thread has a part of the pieces, and takes pieces of other parts after its own. So neighbouring pieces mostly go
// to the same thread: two threads that write to the same cache line wait for each other.
typedef struct {
  atomic_llong next[PARTS], left;  // the next piece of each part; the number of pieces that are not done
  atomic_bool begun[PARTS];        // parts that a thread has as its own
  atomic_int holders;              // the number of threads that still have this pointer
  num pieces, parts;
  void (*piece)(const void *what, num i);
  const void *what;
} Work;

static void leave(Work *work) {
  if (atomic_fetch_sub(&work->holders, 1) == 1) free(work);
}

// A thread has the same part in every call, unless another has begun it: what it wrote before is in its core's cache.
static num own_part(Work *work) {
  static atomic_int threads_seen;
  static _Thread_local int number = -1;
  if (number < 0) number = atomic_fetch_add(&threads_seen, 1);
  num part = number % work->parts;
  for (num turn = 1; turn < work->parts && atomic_exchange(&work->begun[part], true); turn++)
    part = (part + 1) % work->parts;
  return part;
}

static void take_part(Work *work) {
  num own = own_part(work);
  for (num turn = 0; turn < work->parts; turn++) {
    num part = (own + turn) % work->parts, end = work->pieces * (part + 1) / work->parts;
    num done = 0;
    for (num i; (i = atomic_fetch_add(&work->next[part], 1)) < end; done++) work->piece(work->what, i);
    atomic_fetch_sub(&work->left, done);
  }
}

INLINE void relax(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

static void help(void *data) {
  take_part(data);
  leave(data);
}

static bool failed(XLA_FFI_CallFrame *frame, XLA_FFI_Error *error) {
  if (error == NULL) return false;
  XLA_FFI_Error_Destroy_Args args = {.struct_size = XLA_FFI_Error_Destroy_Args_STRUCT_SIZE, .error = error};
  frame->api->XLA_FFI_Error_Destroy(&args);
  return true;
}

static num threads(XLA_FFI_CallFrame *frame) {
  int64_t n = 1;
  XLA_FFI_ThreadPool_NumThreads_Args args = {
      .struct_size = XLA_FFI_ThreadPool_NumThreads_Args_STRUCT_SIZE, .ctx = frame->ctx, .num_threads = &n};
  return failed(frame, frame->api->XLA_FFI_ThreadPool_NumThreads(&args)) ? 1 : n;
}

// Do all pieces. Any free thread takes the next one, so a thread that starts late, or never, does not delay the others.
static void share(XLA_FFI_CallFrame *frame, num pieces, bool worth_it, void (*piece)(const void *, num),
                  const void *what) {
  num helpers = worth_it ? least(least(threads(frame), pieces), PARTS) - 1 : 0;
  Work *work = helpers > 0 ? malloc(sizeof *work) : NULL;
  if (work == NULL) {
    for (num i = 0; i < pieces; i++) piece(what, i);
    return;
  }
  *work = (Work){.pieces = pieces, .parts = helpers + 1, .piece = piece, .what = what};
  for (num part = 0; part < work->parts; part++) atomic_init(&work->next[part], pieces * part / work->parts);
  atomic_init(&work->left, pieces);
  atomic_init(&work->holders, helpers + 1);
  for (num i = 0; i < helpers; i++) {
    XLA_FFI_ThreadPool_Schedule_Args args = {
        .struct_size = XLA_FFI_ThreadPool_Schedule_Args_STRUCT_SIZE, .ctx = frame->ctx, .task = help, .data = work};
    if (failed(frame, frame->api->XLA_FFI_ThreadPool_Schedule(&args))) leave(work);
  }
  take_part(work);
  for (num turn = 0; atomic_load(&work->left) > 0; turn++) {
    relax();
    if (turn % 1024 == 1023) sched_yield();  // the thread with the last piece may be waiting for this core
  }
  leave(work);
}

// --- XLA's calling interface ---------------------------------------------------------------------------------

// XLA calls each function once for the version of the interface that it was compiled for.
static bool asked_for_version(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Extension_Base *extension = frame->extension_start;
  if (extension == NULL || extension->type != XLA_FFI_Extension_Metadata) return false;
  XLA_FFI_Metadata *metadata = ((XLA_FFI_Metadata_Extension *)extension)->metadata;
  metadata->api_version.major_version = XLA_FFI_API_MAJOR;
  metadata->api_version.minor_version = XLA_FFI_API_MINOR;
  return true;
}

// The elements of an array, NULL if it has none.
static float *elements(const XLA_FFI_Buffer *array) {
  for (num axis = 0; axis < array->rank; axis++)
    if (array->dims[axis] == 0) return NULL;
  return array->data;
}

static const XLA_FFI_Buffer *argument_array(XLA_FFI_CallFrame *frame, int i) { return frame->args.args[i]; }
static const XLA_FFI_Buffer *result_array(XLA_FFI_CallFrame *frame, int i) { return frame->rets.rets[i]; }
static const float *argument(XLA_FFI_CallFrame *frame, int i) { return elements(argument_array(frame, i)); }
static float *result(XLA_FFI_CallFrame *frame, int i) { return elements(result_array(frame, i)); }
static num length(XLA_FFI_CallFrame *frame, int i, int axis) { return argument_array(frame, i)->dims[axis]; }

// The value of the only attribute, an int32.
static int32_t attribute(XLA_FFI_CallFrame *frame) {
  return *(const int32_t *)((const XLA_FFI_Scalar *)frame->attrs.attrs[0])->value;
}

static XLA_FFI_Error *out_of_memory(XLA_FFI_CallFrame *frame) {
  XLA_FFI_Error_Create_Args args = {.struct_size = XLA_FFI_Error_Create_Args_STRUCT_SIZE,
                                    .message = "There is not enough memory for a training step.",
                                    .errc = XLA_FFI_Error_Code_RESOURCE_EXHAUSTED};
  return frame->api->XLA_FFI_Error_Create(&args);
}

// Whether this number of multiplications takes longer than another thread needs to wake up.
static bool is_long(num multiplications) { return multiplications > 500000; }
