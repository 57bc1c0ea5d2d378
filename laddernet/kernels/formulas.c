// A combinator in two loops, one for its values and one for all its derivatives: each array is read or written once.
// formulas.py defines PARAMETERS, the number of parameters of a unit, before this, `formula` and `derivative` after it.

#include "native.h"

// ẑ, given z̃, u and the parameters p of a unit. And the derivatives of the cost, given d, that with respect to ẑ: those
// with respect to z̃ and u, and that with respect to p, which is added to dp.
INLINE vec formula(vec z, vec u, const vec *p);
INLINE void derivative(vec z, vec u, const vec *p, vec d, vec *dz, vec *du, vec *dp);

// --- The functions of formulas -------------------------------------------------------------------------------

// NaN stays NaN in all of them.
INLINE vec larger(vec a, vec b) { return choose((a > b) | (a != a), a, b); }
INLINE vec smaller(vec a, vec b) { return choose((a < b) | (a != a), a, b); }
INLINE vec magnitude(vec x) { return (vec)((ivec)x & 0x7fffffff); }
INLINE vec sign(vec x) { return choose(x > 0, splat(1), choose(x < 0, splat(-1), x)); }

INLINE vec power(vec x, int n) {
  vec y = splat(1);
  for (int left = abs(n); left > 0; left /= 2, x *= x)
    if (left % 2 == 1) y *= x;
  if (n < 0) y = 1 / y;
  return y;
}

// The y and n of eˣ = (1 + y) · 2ⁿ. y is precise to its last bits, also near 0. The polynomial is that of Cephes.
INLINE vec exponential_parts(vec x, vec *n) {
  x = choose(x < -104, splat(-104), x);  // beyond, eˣ is 0 or infinite
  x = choose(x > 89, splat(89), x);
  *n = (x * 1.44269504f + 12582912) - 12582912;  // rounds: from 1.5 · 2²³ on, float32 has integers only
  vec r = x - *n * 0.693359375f + *n * 2.12194440e-4f, p = splat(1.9875691500e-4f);
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  return p * (r * r) + r;
}

INLINE vec exponential(vec x) {
  vec n, y = 1 + exponential_parts(x, &n);
#if defined(__AVX512F__)
  return (vec)_mm512_scalef_ps((__m512)y, (__m512)n);
#else
  ivec all = __builtin_convertvector(n, ivec), half = all >> 1;  // 2ⁿ by itself may be too large or too small
  return y * (vec)((half + 127) << 23) * (vec)((all - half + 127) << 23);
#endif
}

INLINE vec exponential_less_1(vec x) {
  vec n, y = exponential_parts(x, &n);
  return choose(n == 0, y, exponential(x) - 1);
}

INLINE vec sigmoid(vec x) { return 1 / (1 + exponential(-x)); }

INLINE vec hyperbolic_tangent(vec x) {
  vec e = exponential_less_1(smaller(2 * x, splat(40)));
  return e / (e + 2);
}

// --- Loops ---------------------------------------------------------------------------------------------------

typedef struct {
  const float *z, *u, *p, *d;
  float *z_hat, *dz, *du, *dp;
  num rows, columns;
} Layer;

enum { PIECE = 64 };  // columns that one thread does at a time

// Prefetch the cache line in which a vector ends: no processor predicts accesses down a column. The line in which the
// vector begins is the same, or it has been prefetched.
#define SOON(at, to_be_written) __builtin_prefetch((at) + LANES - 1, to_be_written, 2)
#define EACH_PARAMETER(k) _Pragma("GCC unroll 64") for (int k = 0; k < PARAMETERS; k++)

// `count` columns, from column j on.
INLINE void values_of_columns(const Layer *layer, num j, int count) {
  vec p[PARAMETERS];
  EACH_PARAMETER(k) p[k] = load_first(layer->p + k * layer->columns + j, count);
  for (num row = 0, at = j; row < layer->rows; row++, at += layer->columns) {
    SOON(layer->z + at + LANES, 0);
    SOON(layer->u + at + LANES, 0);
    SOON(layer->z_hat + at + LANES, 1);
    vec z = load_first(layer->z + at, count), u = load_first(layer->u + at, count);
    store_first(layer->z_hat + at, formula(z, u, p), count);
  }
}

INLINE void derivatives_of_columns(const Layer *layer, num j, int count) {
  vec p[PARAMETERS], dp[PARAMETERS], dz, du;
  EACH_PARAMETER(k) p[k] = load_first(layer->p + k * layer->columns + j, count);
  EACH_PARAMETER(k) dp[k] = (vec){0};
  for (num row = 0, at = j; row < layer->rows; row++, at += layer->columns) {
    SOON(layer->z + at + LANES, 0);
    SOON(layer->u + at + LANES, 0);
    SOON(layer->d + at + LANES, 0);
    SOON(layer->dz + at + LANES, 1);
    SOON(layer->du + at + LANES, 1);
    vec z = load_first(layer->z + at, count), u = load_first(layer->u + at, count);
    vec d = load_first(layer->d + at, count);
    derivative(z, u, p, d, &dz, &du, dp);
    store_first(layer->dz + at, dz, count);
    store_first(layer->du + at, du, count);
  }
  EACH_PARAMETER(k) store_first(layer->dp + k * layer->columns + j, dp[k], count);
}

INLINE void do_columns(const Layer *layer, num piece, void (*columns)(const Layer *, num, int)) {
  num j = piece * PIECE, end = least(j + PIECE, layer->columns);
  for (; j + LANES <= end; j += LANES) columns(layer, j, LANES);
  if (j < end) columns(layer, j, end - j);
}

static void values_of_piece(const void *layer, num piece) { do_columns(layer, piece, values_of_columns); }
static void derivatives_of_piece(const void *layer, num piece) { do_columns(layer, piece, derivatives_of_columns); }

// --- The functions that XLA calls ----------------------------------------------------------------------------

static void do_pieces(XLA_FFI_CallFrame *frame, Layer *layer, void (*piece)(const void *, num)) {
  layer->z = argument(frame, 0);
  layer->u = argument(frame, 1);
  layer->p = argument(frame, 2);
  layer->rows = length(frame, 0, 0);
  layer->columns = length(frame, 0, 1);
  bool worth_it = layer->rows * layer->columns * PARAMETERS > 100000;  // about ten microseconds
  share(frame, parts_of(layer->columns, PIECE), worth_it, piece, layer);
}

XLA_FFI_Error *values(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer layer = {.z_hat = result(frame, 0)};
  do_pieces(frame, &layer, values_of_piece);
  return NULL;
}

XLA_FFI_Error *derivatives(XLA_FFI_CallFrame *frame) {
  if (asked_for_version(frame)) return NULL;
  Layer layer = {.d = argument(frame, 3), .dz = result(frame, 0), .du = result(frame, 1), .dp = result(frame, 2)};
  do_pieces(frame, &layer, derivatives_of_piece);
  return NULL;
}

// --- The formula ---------------------------------------------------------------------------------------------
